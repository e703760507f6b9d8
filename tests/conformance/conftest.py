"""The application that every behaviour is shown on, and a clock that goes back."""

from collections.abc import Iterator

import pytest
from sqlalchemy import NullPool, create_engine

from tests.conformance.harness import APPS, App
from tests.conformance.host import Host
from tests.databases import Cluster, Database, asynchronous
from vulkan_orm.models import MESSAGE_ID, Base, Meta
from vulkan_orm.store import clock


@pytest.fixture(params=list(APPS))
def colour(request: pytest.FixtureRequest) -> str:
    """Sync or async."""
    name: str = request.param
    return name


@pytest.fixture(params=["range", "message"])
def isolation(request: pytest.FixtureRequest) -> str:
    """Whether messages share a transaction or have one each."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def shared_postgresql(cluster: Cluster, migrated_template: str) -> str:
    """The name of the one PostgreSQL database that these tests use in turn."""
    return cluster.create(migrated_template)


@pytest.fixture
def stage(driver: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A migrated database without a row. Dropping one a test costs more than emptying one."""
    if driver == "sqlite":
        yield request.getfixturevalue("migrated")
        return
    yield from emptied(request, driver)


@pytest.fixture
def app(stage: Database, colour: str) -> Iterator[App]:
    """An application on a database that nobody used before."""
    yield from applied(stage, colour)


@pytest.fixture
def postgresql_app(cluster: Cluster, request: pytest.FixtureRequest, colour: str) -> Iterator[App]:
    """The same, for what only PostgreSQL can show."""
    for database in emptied(request, "postgresql"):
        yield from applied(database, colour)


def applied(database: Database, colour: str) -> Iterator[App]:
    made = APPS[colour](database)
    try:
        yield made
    finally:
        clock.set_offset(0)
        made.close()


def emptied(request: pytest.FixtureRequest, driver: str) -> Iterator[Database]:
    cluster: Cluster = request.getfixturevalue("cluster")
    name: str = request.getfixturevalue("shared_postgresql")
    database = cluster.describe(name, asynchronous(driver))
    yield database
    engine = create_engine(database.sync_url, poolclass=NullPool)
    tables = [*reversed(Host.metadata.sorted_tables), *reversed(Base.metadata.sorted_tables)]
    with engine.begin() as connection:
        for table in tables:
            if table.name != Meta.__tablename__:
                connection.execute(table.delete())
        connection.exec_driver_sql(f"ALTER SEQUENCE {MESSAGE_ID.name} RESTART")
