"""What runs in the worker processes that fault tests start and kill."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tests.faults.support import GROUP, TOPIC, WRITE, Errand, Job
from vulkan_orm import MessageMeta, RetryPolicy, Vulkan
from vulkan_orm.consumers.shutdown import Stop
from vulkan_orm.service.repository import DeliveryRepository
from vulkan_orm.service.unit_of_work import UnitOfWork
from vulkan_orm.store import clock

BINDS: dict[str, Callable[[str], Any]] = {
    "own": str,
    "host": create_engine,
    "async": create_async_engine,
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Handlers:
    """The handlers of a job, in the colours and shapes that a test may ask for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def session(self, job: Job, session: Session, meta: MessageMeta) -> None:
        self._begin(job, meta)
        while self._hangs(job):
            time.sleep(0.01)
        session.execute(WRITE, {"n": job.n})
        self._end(job)
        while job.kind == "hang-writing" and not self._released:
            time.sleep(0.01)

    async def async_session(self, job: Job, session: AsyncSession, meta: MessageMeta) -> None:
        self._begin(job, meta)
        while self._hangs(job):  # noqa: ASYNC110 (a file is the only event between processes)
            await asyncio.sleep(0.01)
        await session.execute(WRITE, {"n": job.n})
        self._end(job)

    def plain(self, job: Job, meta: MessageMeta) -> None:
        self._begin(job, meta)
        while self._hangs(job):
            time.sleep(0.01)
        self._end(job)

    def _begin(self, job: Job, meta: MessageMeta) -> None:
        with (self._folder / "runs").open("a") as file:
            file.write(f"{job.n}\n")
        if job.kind.startswith("fail-then") and meta.attempts == 0:
            raise ValueError("the first run fails")

    def _hangs(self, job: Job) -> bool:
        return job.kind in ("hang", "fail-then-hang") and not self._released

    @property
    def _released(self) -> bool:
        return (self._folder / "release").exists()

    def _end(self, job: Job) -> None:
        if job.kind in ("kill", "fail-then-kill"):
            die()


def die_once(folder: Path, where: str) -> None:
    """Makes this process kill itself at a place, if none has done so before."""
    marker = folder / "died"

    def once() -> None:
        if not marker.exists():
            marker.touch()
            die()

    commit, recover = UnitOfWork.commit, DeliveryRepository.recover

    def before_commit(self: UnitOfWork) -> None:
        once()
        commit(self)

    def after_commit(self: UnitOfWork) -> None:
        commit(self)
        once()

    def in_recovery(self: DeliveryRepository) -> int:
        taken = recover(self)
        if taken:
            once()
        return taken

    if where == "recovery":
        setattr(DeliveryRepository, "recover", in_recovery)  # noqa: B010
    else:
        places: dict[str, Callable[[UnitOfWork], None]] = {
            "before commit": before_commit,
            "after commit": after_commit,
        }
        setattr(UnitOfWork, "commit", places[where])  # noqa: B010


def note_stops(folder: Path) -> None:
    """Leaves a file when the worker has been asked to stop, so that a test need not guess."""
    ask = Stop.ask

    def noted(self: Stop) -> None:
        ask(self)
        (folder / "asked").touch()

    Stop.ask = noted  # type: ignore[method-assign]


def main(errand: Errand, said: Path) -> None:
    """One worker, in a process of its own whose standard error goes to a file."""
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), sys.stderr.fileno())
    logging.basicConfig(level=logging.INFO, force=True)
    note_stops(errand.folder)
    clock.set_offset(errand.offset)
    if errand.die:
        die_once(errand.folder, errand.die)
    vulkan = Vulkan(BINDS[errand.engine](errand.url))
    is_async = vulkan.engines.is_async
    handlers = Handlers(errand.folder)
    name = f"async_{errand.handler}" if is_async and errand.handler == "session" else errand.handler
    handler: Callable[..., Any] = getattr(handlers, name)
    # Left out where nothing is said, so that the worker has its own default.
    isolation: dict[str, Any] = {"isolation": errand.isolation} if errand.isolation else {}
    vulkan.topic(TOPIC, Job).consumer(
        group=GROUP,
        retry=RetryPolicy(max_retries=errand.max_retries, backoff_base=timedelta(0)),
        lease=timedelta(seconds=errand.lease),
        **isolation,
    )(handler)
    grace = timedelta(seconds=errand.grace)
    if is_async:
        asyncio.run(_work(vulkan, errand.mode, grace))
    elif errand.mode == "drain":
        vulkan.drain()
    else:
        vulkan.run(grace=grace)


async def _work(vulkan: Vulkan, mode: str, grace: timedelta) -> None:
    if mode == "drain":
        await vulkan.adrain()
    else:
        await vulkan.arun(grace=grace)
    await vulkan.engine.dispose()
