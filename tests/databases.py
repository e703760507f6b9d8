"""A database for each test: fresh, its own, and gone afterwards.

`database` is empty and `migrated` has the packaged tables; both run once for each driver. Every
migrated database is a copy of one that was migrated at the session's start, so all of a session's
migrated databases of a driver share the identity that `vulkan_meta` holds. A test that asks for
`database` and `migrated` together gets two databases of the same driver.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import URL, Engine, NullPool, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

POSTGRESQL_VARIABLE = "VULKAN_TEST_POSTGRESQL_URL"
POSTGRESQL_DEFAULT = "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"

DRIVERS = ["sqlite", "postgresql"]
if os.environ.get("VULKAN_TEST_DRIVERS") == "all":
    DRIVERS.append("postgresql-asyncpg")

# template0 takes no connections, so copying it never waits for anybody.
EMPTY = "template0"


@dataclass(frozen=True, slots=True)
class Database:
    """Where a database is, for synchronous and for asynchronous engines."""

    name: str
    sync_url: str
    async_url: str


def sqlite_database(file: Path) -> Database:
    return Database("sqlite", f"sqlite:///{file}", f"sqlite+aiosqlite:///{file}")


def postgresql_url() -> URL:
    """The maintenance database, always over psycopg 3."""
    url = make_url(os.environ.get(POSTGRESQL_VARIABLE) or POSTGRESQL_DEFAULT)
    return url.set(drivername="postgresql+psycopg")


@cache
def postgresql_missing() -> str | None:
    """Why PostgreSQL cannot be used, or None if it can."""
    url = postgresql_url()
    engine = create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": 3})
    try:
        with engine.connect():
            return None
    except OperationalError:
        return f"PostgreSQL does not answer at {url.host}:{url.port} (set {POSTGRESQL_VARIABLE})"


class Cluster:
    """The databases that this process made on the PostgreSQL server."""

    def __init__(self, url: URL) -> None:
        self._url = url
        self._prefix = f"vulkan_test_{uuid4().hex[:8]}_"
        self._engine: Engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")

    @contextmanager
    def database(self, template: str = EMPTY, driver: str = "psycopg") -> Iterator[Database]:
        """A database copied from `template`, dropped at the end whoever is still connected."""
        name = self.create(template)
        try:
            yield self.describe(name, driver)
        finally:
            self.drop(name)

    def create(self, template: str = EMPTY) -> str:
        name = f"{self._prefix}{uuid4().hex}"
        self._run(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return name

    def describe(self, name: str, driver: str = "psycopg") -> Database:
        url = self._url.set(database=name)
        return Database(
            "postgresql",
            url.render_as_string(hide_password=False),
            url.set(drivername=f"postgresql+{driver}").render_as_string(hide_password=False),
        )

    def drop(self, name: str) -> None:
        self._run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def drop_all(self) -> None:
        """Drop what is left, such as after a test that was cut off."""
        query = text("SELECT datname FROM pg_database WHERE starts_with(datname, :prefix)")
        with self._engine.connect() as connection:
            left = connection.scalars(query, {"prefix": self._prefix}).all()
        for name in left:
            self.drop(name)

    def _run(self, statement: str) -> None:
        with self._engine.connect() as connection:
            connection.exec_driver_sql(statement)


def migrate(url: str) -> None:
    """Create the packaged tables, leaving no connection that would keep a copy waiting."""
    from vulkan_orm import Vulkan

    engine = create_engine(url, poolclass=NullPool)
    try:
        Vulkan(engine).upgrade()
    finally:
        engine.dispose()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The PostgreSQL server, or a skip that says why there is none."""
    missing = postgresql_missing()
    if missing is not None:
        pytest.skip(missing)
    cluster = Cluster(postgresql_url())
    try:
        yield cluster
    finally:
        cluster.drop_all()


@pytest.fixture(scope="session")
def migrated_template(cluster: Cluster) -> str:
    """The name of the migrated PostgreSQL database that tests copy."""
    name = cluster.create()
    migrate(cluster.describe(name).sync_url)
    return name


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The migrated SQLite file that tests copy."""
    file = tmp_path_factory.mktemp("template") / "migrated.db"
    migrate(f"sqlite:///{file}")
    # A log that is still there holds tables that a copy of the file alone would lack.
    assert not file.with_name(f"{file.name}-wal").exists()
    return file


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    """What a database is reached by; both forms of `database` run once for each."""
    name: str = request.param
    return name


@pytest.fixture
def database(driver: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database of its own for this test."""
    if driver == "sqlite":
        yield sqlite_database(tmp_path / "empty.db")
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    with cluster.database(driver=asynchronous(driver)) as made:
        yield made


@pytest.fixture
def migrated(driver: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database of its own for this test that has the packaged tables."""
    if driver == "sqlite":
        template_file: Path = request.getfixturevalue("migrated_file")
        yield sqlite_database(Path(shutil.copyfile(template_file, tmp_path / "migrated.db")))
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    template: str = request.getfixturevalue("migrated_template")
    with cluster.database(template, asynchronous(driver)) as made:
        yield made


@pytest.fixture
def postgresql(cluster: Cluster) -> Iterator[Database]:
    """An empty PostgreSQL database, for what only PostgreSQL can show."""
    with cluster.database() as made:
        yield made


@pytest.fixture
def migrated_postgresql(cluster: Cluster, migrated_template: str) -> Iterator[Database]:
    """A PostgreSQL database that has the packaged tables."""
    with cluster.database(migrated_template) as made:
        yield made


def asynchronous(driver: str) -> str:
    return "asyncpg" if driver == "postgresql-asyncpg" else "psycopg"


def pytest_report_header() -> str:
    return f"databases: {availability()}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"databases: {availability()}")


def availability() -> str:
    missing = postgresql_missing()
    if missing is None:
        return ", ".join(DRIVERS)
    return f"sqlite; postgresql SKIPPED: {missing}"
