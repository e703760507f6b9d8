"""A database and workers for each fault test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import Database
from tests.faults.crew import Crew
from tests.faults.support import Site
from vulkan_orm.store import clock


@pytest.fixture(autouse=True)
def clock_as_it_is() -> Iterator[None]:
    """No test leaves the clock of the next one moved."""
    yield
    clock.set_offset(0.0)


@pytest.fixture
def site(migrated: Database) -> Iterator[Site]:
    """A migrated database with the effect table, once a driver."""
    made = Site(migrated)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def postgresql_site(migrated_postgresql: Database) -> Iterator[Site]:
    """The same on PostgreSQL alone."""
    made = Site(migrated_postgresql)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def crew(migrated: Database, tmp_path: Path) -> Iterator[Crew]:
    """Sync worker processes on the database of `site`."""
    folder = tmp_path / "crew"
    folder.mkdir()
    made = Crew(migrated.sync_url, folder)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def async_crew(migrated: Database, tmp_path: Path) -> Iterator[Crew]:
    """Asyncio worker processes on the database of `site`."""
    folder = tmp_path / "async_crew"
    folder.mkdir()
    made = Crew(migrated.async_url, folder, "async")
    try:
        yield made
    finally:
        made.close()
