"""The next range is claimed while a quick one runs, and keeps nobody waiting for it."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.ext.asyncio import create_async_engine

from tests.conformance.conftest import applied
from tests.conformance.harness import GROUP, TOPIC, App, AsyncApp, Job, SyncApp
from tests.conformance.test_fair_claims import wait_until, working
from tests.databases import Database
from vulkan_orm import UsageError, Vulkan
from vulkan_orm.core.pace import FIRST_RANGE
from vulkan_orm.models import RangeClaim

SECOND = 4 * FIRST_RANGE
ENOUGH = FIRST_RANGE + 3 * SECOND


@pytest.fixture
def app(migrated_postgresql: Database, colour: str) -> Iterator[App]:
    """On the only database where several transactions write at a time."""
    yield from applied(migrated_postgresql, colour)


class Stuck:
    """A handler that waits at one message of its second range until it is let go."""

    def __init__(self, app: App, **options: Any) -> None:
        self.ran: list[int] = []
        self.stuck, self.go_on = threading.Event(), threading.Event()
        self._at = FIRST_RANGE + SECOND // 2

        def handler(payload: Job) -> None:
            if self._waits():
                self.go_on.wait()

        async def async_handler(payload: Job) -> None:
            if self._waits():
                await asyncio.to_thread(self.go_on.wait)

        chosen: Any = handler if isinstance(app, SyncApp) else async_handler
        app.jobs.consumer(group=GROUP, **options)(chosen)

    def _waits(self) -> bool:
        self.ran.append(len(self.ran))
        if len(self.ran) != self._at:
            return False
        self.stuck.set()
        return True


def owners(app: App) -> list[str | None]:
    return app.scalars(select(RangeClaim.owner).order_by(RangeClaim.first))


def test_what_was_claimed_ahead_is_given_back_when_its_turn_does_not_come(app: App) -> None:
    """R44: others shall not wait for it behind a handler that suddenly takes long."""
    handler = Stuck(app, lease=timedelta(seconds=1))
    app.publish_many([Job() for _ in range(ENOUGH)])
    with working(app):
        handler.stuck.wait()
        wait_until(lambda: None in owners(app))
        assert len(owners(app)) == 2
        handler.go_on.set()
        wait_until(lambda: len(handler.ran) == ENOUGH)
    assert owners(app) == []
    assert app.log() == []


def test_a_stop_gives_back_what_was_claimed_ahead(app: App) -> None:
    """R47: at once, and not when its lease ends."""
    handler = Stuck(app)
    app.publish_many([Job() for _ in range(ENOUGH)])
    with working(app):
        handler.stuck.wait()
        wait_until(lambda: len(owners(app)) == 2)
        app.vulkan.stop()
        handler.go_on.set()
        wait_until(lambda: owners(app) == [None, None])
    app.drain()
    assert len(handler.ran) == ENOUGH


def with_pool(app: App, database: Database, size: int) -> None:
    """Gives the application an engine with so many connections."""
    options: dict[str, Any] = {"pool_size": size, "max_overflow": 0, "pool_timeout": 1}
    engine: Any
    if isinstance(app, AsyncApp):
        app.wait_for(app.vulkan.engine.dispose)
        engine = create_async_engine(database.async_url, **options)
    else:
        app.vulkan.engine.dispose()
        engine = create_engine(database.sync_url, **options)
    app.vulkan = Vulkan(engine)
    app.jobs = app.vulkan.topic(TOPIC, Job)


def test_a_drain_needs_no_more_than_one_connection(app: App, migrated_postgresql: Database) -> None:
    """R46."""
    with_pool(app, migrated_postgresql, 1)
    app.consumer(lambda payload, session, meta: session.connection())
    app.publish_many([Job() for _ in range(FIRST_RANGE * 2)])
    assert app.drain() == {"succeeded": FIRST_RANGE * 2}


def test_a_pool_too_small_for_the_concurrency_is_refused_at_the_start(
    app: App, migrated_postgresql: Database
) -> None:
    """R46."""
    with_pool(app, migrated_postgresql, 3)
    app.consumer(lambda payload, session, meta: None, concurrency=4)
    with pytest.raises(UsageError, match=r"VK0013.* 3 connections.* 4 messages"):
        app.run()
