"""What benchmarks run in processes of their own, forked from one that has everything imported."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from tests.bench.setting import Order
from vulkan_orm import Vulkan

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.bench.process"])

Ready = Callable[[], None]


def _handle(order: Order) -> None:
    pass


def drain(ready: Ready, url: str, topic: str, group: str) -> None:
    vulkan = Vulkan(create_engine(url))
    vulkan.topic(topic, Order).consumer(group=group)(_handle)
    ready()
    vulkan.drain()


def work(ready: Ready, url: str, topic: str, group: str, wake_up: bool) -> None:
    vulkan = Vulkan(create_engine(url), wake_up=wake_up)
    vulkan.topic(topic, Order).consumer(group=group)(_handle)
    ready()
    vulkan.run()


def publish(ready: Ready, url: str, topic: str, count: int) -> None:
    vulkan = Vulkan(create_engine(url))
    log = vulkan.topic(topic, Order)
    with Session(vulkan.engine) as session, session.begin():
        log.publish(session, Order(number=0))
    ready()
    for number in range(count):
        with Session(vulkan.engine) as session, session.begin():
            log.publish(session, Order(number=number))


def _run(talk: Connection, role: Callable[..., None], arguments: Sequence[object]) -> None:
    def ready() -> None:
        talk.send(0)
        talk.recv()

    role(ready, *arguments)
    talk.send(_peak())


def _peak() -> int:
    """The most memory this process ever had, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


class Helper:
    """One such process, which waits until it is released to do its work."""

    def __init__(self, role: Callable[..., None], *arguments: object) -> None:
        self._talk, theirs = _processes.Pipe()
        self._process = _processes.Process(target=_run, args=(theirs, role, arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._talk.recv()

    def release(self) -> None:
        self._talk.send(0)

    def end(self) -> int:
        """Waits for the end; its peak memory in bytes."""
        peak: int = self._talk.recv()
        self._process.join()
        return peak

    def stop(self) -> None:
        os.kill(self._process.pid or 0, signal.SIGTERM)
        self.end()


def together(helpers: Sequence[Helper]) -> float:
    """Releases all at once; the seconds until the last is done."""
    began = time.perf_counter()
    for helper in helpers:
        helper.release()
    for helper in helpers:
        helper.end()
    return time.perf_counter() - began
