"""What ends a worker and what does not: Ctrl-C does, a handler's own cancellation does not."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from tests.conformance.conftest import applied
from tests.conformance.harness import App, AsyncApp, Job, at_once
from tests.conformance.host import Effect
from tests.databases import Database
from vulkan_orm import MessageMeta

MARK = "SELECT 'ctrl-c'"


@pytest.fixture
def async_app(stage: Database) -> Iterator[App]:
    yield from applied(stage, "async")


def test_ctrl_c_within_a_statement_of_a_handler_stops_the_drain(app: App) -> None:
    """The driver raises it out of the statement, and the connection is lost with it."""
    ran: list[str] = []

    def interrupt(_cursor: Any, statement: str, *_: Any) -> None:
        if statement == MARK and len(ran) == 2:
            raise KeyboardInterrupt

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        ran.append(payload.name)
        session.add(Effect(value=payload.name))
        session.flush()
        session.execute(text(MARK))

    event.listen(app.engine, "do_execute", interrupt)
    app.consumer(handler, isolation="range", retry=at_once(0))
    app.publish_many([Job(name=name) for name in "abc"])
    with pytest.raises(KeyboardInterrupt):
        app.drain()
    assert ran == ["a", "b"]
    assert {row.outcome for row in app.log()} <= {"interrupted"}
    assert [row.spent for row in app.queue().values() if row.spent] == []
    app.drain()
    assert app.effects() == ["a", "b", "c"]


def test_a_handler_that_cancels_its_task_too_late_does_not_stop_the_worker(
    async_app: AsyncApp,
) -> None:
    """The task that it cancels has ended with it."""
    app = async_app
    ran: list[str] = []

    async def main() -> None:
        both = asyncio.Event()

        @app.jobs.consumer(group="crew")
        async def handler(job: Job) -> None:
            ran.append(job.name)
            task = asyncio.current_task()
            assert task is not None
            if job.name == "first":
                asyncio.get_running_loop().call_later(0.01, task.cancel)
            else:
                both.set()

        work = asyncio.create_task(app.vulkan.arun())
        await asyncio.sleep(0.3)
        assert not work.done()
        async with app.vulkan.engine.begin() as connection:
            await connection.execute(text("SELECT 1"))
        await asyncio.get_running_loop().run_in_executor(None, publish_second)
        await asyncio.wait_for(both.wait(), 5)
        app.vulkan.stop()
        await asyncio.wait_for(work, 5)

    def publish_second() -> None:
        app.publish(Job(name="second"))

    app.publish(Job(name="first"))
    app.wait_for(main)
    assert ran == ["first", "second"]
    assert app.log() == []
