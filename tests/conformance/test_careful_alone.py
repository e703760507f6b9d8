"""A careful run is alone in its worker: whoever kills the process must be the one it names."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from tests.conformance.harness import App, Job
from tests.conformance.test_fair_claims import wait_until, working
from vulkan_orm import MessageMeta, RetryPolicy
from vulkan_orm.consumers.handlers import DEFAULT_LEASE
from vulkan_orm.models import ExceptionQueue
from vulkan_orm.service.watermark import Watermark

LEASE = 5.0


def test_beside_a_careful_range_no_handler_of_another_group_runs(app: App) -> None:
    running: list[str] = []
    overlaps: list[list[str]] = []
    ran: list[str] = []

    @contextmanager
    def inside(group: str) -> Iterator[None]:
        running.append(group)
        if "careful" in running and len(running) > 1:
            overlaps.append(list(running))
        yield
        running.remove(group)
        ran.append(group)

    def register(group: str) -> None:
        def sync_handler(job: Job) -> None:
            with inside(group):
                time.sleep(0.05)

        async def async_handler(job: Job) -> None:
            with inside(group):
                await asyncio.sleep(0.05)

        handler: Any = sync_handler if app.colour == "sync" else async_handler
        app.jobs.consumer(group=group)(handler)

    for group in ("one", "careful", "two"):
        register(group)
    app.publish_many([Job() for _ in range(4)])
    app.repo(
        "claim_range", app.group("careful"), "dead", limit=10, lease=LEASE, watermark=Watermark()
    )
    app.pass_time(LEASE + 1)
    with working(app):
        wait_until(lambda: len(ran) == 12)
    assert overlaps == []
    assert sorted(ran) == ["careful"] * 4 + ["one"] * 4 + ["two"] * 4


def test_after_a_careful_retry_the_worker_goes_on_as_before(app: App) -> None:
    """One that has left lets others in at once, and not only when their patience ends."""
    began = time.monotonic()
    ran: list[str] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        ran.append(meta.group)
        if meta.group == "first" and not meta.attempts:
            raise ValueError

    app.consumer(handler, group="first", retry=RetryPolicy(jitter=False))
    app.publish()
    app.drain()
    app.pass_time(2)
    app.in_transaction(lambda session: session.execute(update(ExceptionQueue).values(careful=True)))
    app.publish()
    app.consumer(handler, group="second")
    assert app.drain()["succeeded"] >= 2
    assert ran.count("second") == 2
    assert time.monotonic() - began < DEFAULT_LEASE.total_seconds() / 2
