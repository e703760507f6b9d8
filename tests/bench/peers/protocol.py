"""What every system's script does the same way: its verbs, its messages, and how runs are counted.

Standard library only, since each script runs in the environment of its system:
``python pgqueuer_.py setup|bulk N|work|produce N``. The database, the folder and the mode come by
the environment. Times are those of CLOCK_MONOTONIC, which all processes of a machine share.
"""

import asyncio
import inspect
import itertools
import mmap
import os
import struct
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

BULK = 1000
RATE = 50.0
FAILURES = 2
MOST = 1_000_000

URL = os.environ.get("BENCH_URL", "")
FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
MODE = os.environ.get("BENCH_MODE", "consume")

_BOARD = struct.Struct("qdd")
_TIME = struct.Struct("d")


class NotYet(Exception):
    """What a handler raises on the first runs of a message, where it is to fail."""


def message(number: int) -> dict[str, Any]:
    """About 200 bytes of JSON."""
    return {"number": number, "kind": "placed", "customer": "me@example.org", "note": "x" * 120}


def mapped(name: str, size: int) -> mmap.mmap:
    """A file in the run's folder as memory that processes share."""
    file = os.open(FOLDER / name, os.O_RDWR | os.O_CREAT)
    if os.fstat(file).st_size < size:
        os.ftruncate(file, size)
    shared = mmap.mmap(file, size)
    os.close(file)
    return shared


class Probe:
    """What the handler of one process does: counts, and fails where it is to fail."""

    def __init__(self) -> None:
        self._board = mapped(f"board.{os.getpid()}", _BOARD.size)
        self._count = itertools.count(1)
        self._first = 0.0
        self._started = mapped("started", _TIME.size * MOST) if MODE == "latency" else None
        self._runs: dict[int, int] | None = {} if MODE == "fail" else None

    def run(self, number: int) -> None:
        now = time.monotonic()
        self._first = self._first or now
        _BOARD.pack_into(self._board, 0, next(self._count), self._first, now)
        if self._started is not None:
            _TIME.pack_into(self._started, _TIME.size * number, now)
        if self._runs is not None:
            runs = self._runs[number] = self._runs.get(number, 0) + 1
            if runs <= FAILURES:
                raise NotYet(f"run {runs}")


def boards(folder: Path) -> tuple[int, float]:
    """How many runs all processes have begun, and when the first did."""
    total, first = 0, float("inf")
    for file in folder.glob("board.*"):
        # One that was only just made is shorter.
        written = file.read_bytes()
        count, began, _ = _BOARD.unpack(written) if len(written) == _BOARD.size else (0, 0.0, 0.0)
        if count:
            total, first = total + count, min(first, began)
    return total, first


def latencies(folder: Path, amount: int) -> list[float]:
    """Seconds from the return of the commit to the start of the handler, for what arrived."""
    size = _TIME.size * amount
    committed = _TIME.iter_unpack((folder / "committed").read_bytes()[:size])
    started = _TIME.iter_unpack((folder / "started").read_bytes()[:size])
    return [s - c for (c,), (s,) in zip(committed, started, strict=True) if s]


async def _do(system: ModuleType, verb: str, amount: int) -> None:
    if verb in ("setup", "work"):
        await _maybe(getattr(system, verb)())
        return
    await _maybe(system.connect())
    if verb == "bulk":
        # At hand as what an application has: a mapping, or a model where the system takes one.
        make = getattr(system, "make", message)
        messages = [make(number) for number in range(amount)]
        began = time.monotonic()
        for start in range(0, amount, BULK):
            await _maybe(system.bulk(messages[start : start + BULK]))
        print(time.monotonic() - began)
    else:
        await _produce(system, amount)
    await _maybe(system.disconnect())


async def _produce(system: ModuleType, amount: int) -> None:
    committed = mapped("committed", _TIME.size * amount)
    began = time.monotonic()
    for number in range(amount):
        await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
        await _maybe(system.one(number))
        _TIME.pack_into(committed, _TIME.size * number, time.monotonic())


async def _maybe(value: Any) -> None:
    if inspect.isawaitable(value):
        await value


def main(system: ModuleType) -> None:
    """Does what the command line says; systems say themselves which event loop suits them."""
    verb = sys.argv[1]
    amount = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if verb == "work" and not inspect.iscoroutinefunction(system.work):
        system.work()
        return
    run = getattr(system, "run", asyncio.run)
    run(_do(system, verb, amount))
