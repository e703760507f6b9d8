"""What is no fault of a message costs it nothing: slow locks, stops, lost connections."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from tests.conformance.conftest import applied
from tests.conformance.harness import App, AsyncApp, Job, at_once
from tests.conformance.host import Effect, Host
from tests.conformance.test_fair_claims import wait_until, working
from tests.databases import Database, sqlite_database
from vulkan_orm import MessageMeta, Vulkan
from vulkan_orm.core.outcomes import Outcome
from vulkan_orm.models import DeliveryLog, ExceptionQueue

KILL = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.fixture
def sqlite_app(migrated_file: Any, tmp_path: Any, colour: str) -> Iterator[App]:
    """For what only a database with one writer can show."""
    file = tmp_path / "own.db"
    file.write_bytes(migrated_file.read_bytes())
    yield from applied(sqlite_database(file), colour)


@pytest.fixture
def own_app(migrated_postgresql: Database, colour: str) -> Iterator[App]:
    """On a PostgreSQL database whose connections may be cut."""
    yield from applied(migrated_postgresql, colour)


@pytest.fixture
def async_app(migrated_postgresql: Database) -> Iterator[App]:
    yield from applied(migrated_postgresql, "async")


def test_a_handler_that_holds_the_only_write_lock_beyond_its_lease_charges_nobody(
    sqlite_app: App, isolation: str
) -> None:
    """Its own lease could not be renewed: the renewal waited for the very lock it held."""
    app = sqlite_app
    ran: list[str] = []
    never = threading.Event()

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        ran.append(payload.name)
        session.add(Effect(value=payload.name))
        session.flush()
        if payload.name in "01":
            never.wait(1.2)

    app.consumer(handler, isolation=isolation, retry=at_once(0), lease=timedelta(seconds=1))
    names = [str(n) for n in range(4)]
    app.publish_many([Job(name=name) for name in names])
    with working(app):
        wait_until(lambda: len(ran) >= len(names))
    assert ran == names
    assert app.effects() == names
    assert (app.log(), app.queue()) == ([], {})


def test_a_stop_that_cancels_a_handler_within_a_statement_charges_nobody(
    async_app: AsyncApp, isolation: Any
) -> None:
    """The driver makes an error of the connection of it, which is no failure of the handler."""
    app = async_app
    slow = True
    ran: list[str] = []

    async def main() -> None:
        begun = asyncio.Event()

        @app.jobs.consumer(group="crew", isolation=isolation, retry=at_once(0))
        async def handler(job: Job, session: AsyncSession) -> None:
            if slow:
                begun.set()
                await session.execute(text("SELECT pg_sleep(30)"))
            ran.append(job.name)

        work = asyncio.create_task(app.vulkan.arun(grace=timedelta(seconds=0.1)))
        await asyncio.wait_for(begun.wait(), 5)
        await asyncio.sleep(0.1)
        app.vulkan.stop()
        await asyncio.wait_for(work, 5)

    first, second = app.publish_many([Job(name="first"), Job(name="second")])
    app.wait_for(main)
    assert {outcome for _, outcome in app.story(first)} <= {"interrupted"}
    assert app.story(second) == []
    assert [row.spent for row in app.queue().values() if row.spent] == []
    assert ran == []
    slow = False
    assert app.drain() == {"succeeded": 2}
    assert sorted(ran) == ["first", "second"]
    assert app.queue() == {}


@pytest.mark.parametrize("uses_session", [True, False])
def test_a_file_that_a_stranger_keeps_locked_charges_nobody(
    migrated_file: Any, tmp_path: Any, isolation: Any, uses_session: bool
) -> None:
    """Whether the lock is missed by a handler's first statement or by its outcome."""
    file = tmp_path / "busy.db"
    file.write_bytes(migrated_file.read_bytes())
    engine = create_engine(f"sqlite:///{file}", connect_args={"timeout": 0.2})
    vulkan = Vulkan(engine)
    jobs = vulkan.topic("jobs", Job)
    Host.metadata.create_all(engine)
    stranger = sqlite3.connect(file, check_same_thread=False)
    freed: list[threading.Timer] = []

    @jobs.consumer(group="crew", isolation=isolation, retry=at_once(0))
    def handler(job: Job, session: Session) -> None:
        if not freed:
            stranger.execute("BEGIN IMMEDIATE")
            freed.append(threading.Timer(0.7, stranger.rollback))
            freed[0].start()
        if uses_session:
            session.add(Effect(value=job.name))
            session.flush()

    with Session(engine) as session, session.begin():
        jobs.publish_many(session, [Job(name="a"), Job(name="b")])
    done = 0
    for _ in range(3):
        try:
            done += vulkan.drain()[Outcome.SUCCEEDED]
        except DBAPIError as error:
            if not vulkan.engines.dialect.is_contention(error):
                raise
            freed[0].join()
    stranger.close()
    with Session(engine) as session:
        effects = sorted(row.value for row in session.query(Effect))
        assert (session.query(DeliveryLog).all(), session.query(ExceptionQueue).all()) == ([], [])
    engine.dispose()
    assert done == 2
    assert effects == (["a", "b"] if uses_session else [])


def test_after_its_connections_were_cut_a_worker_goes_on_at_once(own_app: App) -> None:
    """The rest is given back, so that nobody has to wait for the end of the lease."""
    app = own_app
    ran: list[str] = []

    def handler(payload: Job, meta: MessageMeta) -> None:
        ran.append(payload.name)
        if len(ran) == 1:
            with create_engine(app.database.sync_url).connect() as connection:
                connection.execute(KILL)
                connection.invalidate()

    app.consumer(handler, session=False, retry=at_once(0), lease=timedelta(seconds=60))
    app.publish_many([Job(name=name) for name in "abc"])
    with working(app):
        wait_until(lambda: {*ran} == {*"abc"})
    assert (app.log(), app.queue()) == ([], {})
