"""Who gets what: a rest that was given back is shared, and nothing is reported twice."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, text

from tests.conformance.conftest import applied
from tests.conformance.harness import AT_ONCE, App, Job
from tests.databases import Database
from vulkan_orm import MessageMeta, RetryPolicy
from vulkan_orm.core.outcomes import Failed, RunOutcome, Succeeded
from vulkan_orm.core.texts import describe
from vulkan_orm.diagnostics import StaleClaim
from vulkan_orm.models import RangeClaim
from vulkan_orm.service.deliveries import ClaimedRange, Report
from vulkan_orm.service.watermark import Watermark

LEASE = 60.0
PATIENCE = 8.0


@pytest.fixture
def own_app(migrated_postgresql: Database, colour: str) -> Iterator[App]:
    """On a PostgreSQL database that no other test has to do with."""
    yield from applied(migrated_postgresql, colour)


def claim(app: App, owner: str, mark: Watermark, *, limit: int) -> ClaimedRange | None:
    found: ClaimedRange | None = app.repo(
        "claim_range", app.group(), owner, limit=limit, lease=LEASE, watermark=mark
    )
    return found


def claimed(app: App, owner: str, mark: Watermark, *, limit: int) -> ClaimedRange:
    found = claim(app, owner, mark, limit=limit)
    assert found is not None
    return found


def messages_of(work: ClaimedRange) -> list[int]:
    return [each.message_id for each in work.deliveries]


@contextmanager
def working(app: App) -> Iterator[None]:
    """A worker beside the test, while the block lasts."""
    running = app.meanwhile(app.run)
    try:
        yield
    finally:
        deadline = time.monotonic() + PATIENCE
        while not running.done() and time.monotonic() < deadline:
            app.vulkan.stop()
            time.sleep(0.02)
        running.result(PATIENCE)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_range_handed_back_is_split_among_those_who_claim_it(app: App) -> None:
    messages = app.publish_many([Job() for _ in range(5)])
    mark = Watermark()
    whole = claimed(app, "stopping", mark, limit=10)
    app.repo("hand_back", whole, [], AT_ONCE, progress=messages[0] - 1)
    first = claimed(app, "one", mark, limit=2)
    second = claimed(app, "two", mark, limit=10)
    assert (messages_of(first), messages_of(second)) == (messages[:2], messages[2:])
    assert claim(app, "three", mark, limit=10) is None
    for part in (first, second):
        assert not part.careful
        reports = [Report(each, Succeeded()) for each in part.deliveries]
        app.repo("settle_range", part, reports, AT_ONCE, progress=part.last, lease=LEASE)
    assert app.rows(select(RangeClaim)) == []
    assert app.log() == []


def test_of_a_range_that_was_split_each_part_can_be_handed_back_again(app: App) -> None:
    messages = app.publish_many([Job() for _ in range(5)])
    mark = Watermark()
    whole = claimed(app, "stopping", mark, limit=10)
    app.repo("hand_back", whole, [], AT_ONCE, progress=messages[0])
    first = claimed(app, "one", mark, limit=3)
    app.repo("hand_back", first, [], AT_ONCE, progress=messages[1])
    parts = [claimed(app, f"again {n}", mark, limit=2) for n in range(2)]
    assert [message for part in parts for message in messages_of(part)] == messages[2:]
    assert claim(app, "last", mark, limit=2) is None


def test_a_short_backlog_of_slow_messages_is_shared_by_a_workers_threads_or_tasks(
    app: App,
) -> None:
    running: set[str] = set()
    together: list[int] = []
    ran: list[str] = []

    @contextmanager
    def inside(job: Job) -> Iterator[None]:
        running.add(job.name)
        together.append(len(running))
        yield
        running.discard(job.name)
        ran.append(job.name)

    def sync_handler(job: Job) -> None:
        with inside(job):
            time.sleep(0.3)

    async def async_handler(job: Job) -> None:
        with inside(job):
            await asyncio.sleep(0.3)

    handler: Any = sync_handler if app.colour == "sync" else async_handler
    app.jobs.consumer(group="crew", concurrency=4)(handler)
    names = [str(n) for n in range(8)]
    app.publish_many([Job(name=name) for name in names])
    with working(app):
        wait_until(lambda: len(ran) == len(names))
    assert sorted(ran) == names
    assert max(together) >= 2


@pytest.mark.parametrize("outcome", [Succeeded(), Failed(describe(ValueError("late")))])
def test_a_report_that_is_recorded_already_is_refused_and_changes_nothing(
    app: App, outcome: RunOutcome
) -> None:
    """Such as one whose COMMIT was thought lost, and was not."""
    app.publish_many([Job() for _ in range(4)])
    work = claimed(app, "worker", Watermark(), limit=10)
    first, second, third, last = work.deliveries
    recorded = [Report(each, Succeeded()) for each in (first, second)]
    app.repo("settle_range", work, recorded, AT_ONCE, progress=second.message_id, lease=LEASE)

    def state() -> list[tuple[Any, ...]]:
        columns = select(RangeClaim.first, RangeClaim.last, RangeClaim.progress, RangeClaim.owner)
        return [tuple(row) for row in app.rows(columns)]

    before = state()
    for late, progress in [([first], first), ([second, third], third), ([first], last)]:
        reports = [Report(each, outcome) for each in late]
        for method, options in (("settle_range", {"lease": LEASE}), ("hand_back", {})):
            with pytest.raises(StaleClaim) as caught:
                app.repo(method, work, reports, AT_ONCE, progress=progress.message_id, **options)
            assert caught.value.code == "VK0030"
    assert state() == before
    assert (app.log(), app.queue()) == ([], {})
    app.repo("settle_range", work, [], AT_ONCE, progress=work.last, lease=LEASE)


def test_a_log_that_goes_on_at_a_later_id_is_read_on(postgresql_app: App) -> None:
    """ALTER SEQUENCE … RESTART, the remedy of VK0046, leaves a sequence that has no last value."""
    app = postgresql_app
    ran: list[str] = []
    app.consumer(lambda payload, session, meta: ran.append(payload.name))
    app.publish_many([Job(name="before"), Job(name="before")])
    app.drain()
    restart = text("ALTER SEQUENCE vulkan_message_id_seq RESTART WITH 1000")
    app.in_transaction(lambda session: session.execute(restart))
    assert app.drain() == {}
    assert app.publish(Job(name="after")) == 1000
    assert app.drain() == {"succeeded": 1}
    assert ran == ["before", "before", "after"]


def test_retries_run_while_the_log_cannot_be_read(own_app: App) -> None:
    """A sequence with a cache stops first deliveries (VK0045), and those alone."""
    app = own_app
    ran: list[int] = []

    def handler(payload: Job, meta: MessageMeta) -> None:
        ran.append(meta.attempts)
        if not meta.attempts:
            raise ValueError("first")

    minute = RetryPolicy(backoff_base=timedelta(minutes=1), jitter=False)
    app.consumer(handler, session=False, retry=minute)
    app.publish()
    assert app.drain() == {"exception": 1}
    cache = text("ALTER SEQUENCE vulkan_message_id_seq CACHE 50")
    app.in_transaction(lambda session: session.execute(cache))
    app.pass_time(61)
    with working(app):
        wait_until(lambda: len(ran) == 2)
    assert ran == [0, 1]
    assert app.queue() == {}
