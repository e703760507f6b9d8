"""Engines for the databases of migration tests."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, NullPool, create_engine

from tests.databases import Database


def _engine(database: Database) -> Iterator[Engine]:
    engine = create_engine(database.sync_url, poolclass=NullPool)
    yield engine
    engine.dispose()


@pytest.fixture
def empty(database: Database) -> Iterator[Engine]:
    """An engine on an empty database of each kind."""
    yield from _engine(database)


@pytest.fixture
def ready(migrated: Database) -> Iterator[Engine]:
    """An engine on a migrated database of each kind."""
    yield from _engine(migrated)


@pytest.fixture
def empty_postgresql(postgresql: Database) -> Iterator[Engine]:
    yield from _engine(postgresql)


@pytest.fixture
def ready_postgresql(migrated_postgresql: Database) -> Iterator[Engine]:
    yield from _engine(migrated_postgresql)
