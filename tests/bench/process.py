"""What benchmarks run in processes of their own, forked from one that has everything imported."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from tests.bench.setting import Order, expect, stopwatch
from vulkan_orm import Outcome, Vulkan

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.bench.process"])

Ready = Callable[[], None]


def _handle(order: Order) -> None:
    pass


def drain(ready: Ready, url: str, topic: str, group: str) -> int:
    vulkan = Vulkan(create_engine(url))
    vulkan.topic(topic, Order).consumer(group=group)(_handle)
    ready()
    return vulkan.drain()[Outcome.SUCCEEDED]


def work(ready: Ready, url: str, topic: str, group: str, wake_up: bool) -> int:
    vulkan = Vulkan(create_engine(url), wake_up=wake_up)
    vulkan.topic(topic, Order).consumer(group=group)(_handle)
    ready()
    vulkan.run()
    return 0


def publish(ready: Ready, url: str, topic: str, count: int, wake_up: bool) -> int:
    vulkan = Vulkan(create_engine(url), wake_up=wake_up)
    log = vulkan.topic(topic, Order)
    with Session(vulkan.engine) as session, session.begin():
        log.publish(session, Order(number=0))
    ready()
    for number in range(count):
        with Session(vulkan.engine) as session, session.begin():
            log.publish(session, Order(number=number))
    return count


@dataclass(frozen=True, slots=True)
class Ended:
    """What a process had done, and the most memory in bytes that it ever had."""

    done: int
    peak: int


def _run(talk: Connection, role: Callable[..., int], arguments: Sequence[object]) -> None:
    def ready() -> None:
        talk.send(0)
        talk.recv()

    done = role(ready, *arguments)
    talk.send(Ended(done, _peak()))


def _peak() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


class Helper:
    """One such process, which waits until it is released to do its work."""

    def __init__(self, role: Callable[..., int], *arguments: object) -> None:
        self._talk, theirs = _processes.Pipe()
        self._process = _processes.Process(target=_run, args=(theirs, role, arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._talk.recv()

    def release(self) -> None:
        self._talk.send(0)

    def told(self) -> Ended:
        """What it says when its work is done; it may take a moment more to be gone."""
        ended: Ended = self._talk.recv()
        return ended

    def end(self) -> Ended:
        ended = self.told()
        self._process.join()
        return ended

    def stop(self) -> None:
        os.kill(self._process.pid or 0, signal.SIGTERM)
        self.end()


def together(helpers: Sequence[Helper], count: int) -> float:
    """Releases all at once; the seconds until the last is done with what is ``count`` in all."""
    with stopwatch() as took:
        for helper in helpers:
            helper.release()
        done = sum(helper.told().done for helper in helpers)
    expect(done, count)
    return took[0]
