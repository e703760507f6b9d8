"""One run of one system: a database of its own, its processes, and what they did."""

import os
import signal
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from tests.bench.peers.protocol import FAILURES, Board
from tests.bench.peers.systems import System
from tests.databases import Cluster

PATIENCE = 300.0
ROOT = Path(__file__).parents[3]


class Run:
    """A system on an empty database, with a board for so many messages."""

    def __init__(self, system: System, python: Path, url: str, folder: Path, count: int) -> None:
        self.system = system
        self.count = count
        self.board = Board(folder / "board", count)
        self._python = python
        self._url = url
        self._folder = folder

    def call(self, *words: str) -> str:
        """Runs the script to its end and returns what it printed."""
        done = subprocess.run(
            self._command(*words), cwd=ROOT, env=_environment(), capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{self.system.name} {words} failed:\n{done.stderr[-2000:]}")
        return done.stdout

    @contextmanager
    def workers(self, amount: int, *, failing: bool = False) -> Iterator[Callable[[], None]]:
        """Processes that work; what it gives raises when one has ended by itself."""
        options = ["--failing"] if failing else []
        log = self._folder / "log"
        with log.open("w") as output:
            processes = [
                subprocess.Popen(
                    self._command("work", "--worker", str(each), *options),
                    cwd=ROOT,
                    env=_environment(),
                    stdout=output,
                    stderr=output,
                )
                for each in range(amount)
            ]

            def check() -> None:
                if any(each.poll() is not None for each in processes):
                    raise RuntimeError(f"{self.system.name} died:\n{log.read_text()[-2000:]}")

            try:
                yield check
            finally:
                _end(processes)

    def fill(self) -> float:
        """Publishes all messages in bulk; the seconds it took."""
        seconds = float(self.call("bulk", str(self.count)))
        if not self.system.sqlite:
            with self._postgresql() as connection:
                connection.execute("VACUUM ANALYZE")
                connection.execute("CHECKPOINT")
        return seconds

    def drain(self, processes: int, *, failing: bool = False) -> float:
        """The seconds from the first handler's start until all is durably finished."""
        each = FAILURES + 1 if failing else 1
        hits = each * self.count
        deadline = time.monotonic() + PATIENCE
        with ExitStack() as stack:
            left = stack.enter_context(self._asking())
            check = stack.enter_context(self.workers(processes, failing=failing))
            while self.board.tally()[0] < hits or left() > 0:
                check()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{self.system.name} did {self.board.tally()[0]} of {hits}")
                time.sleep(0.01)
            ended = time.monotonic()
        if set(self.board.runs()) != {each}:
            raise RuntimeError(f"{self.system.name} did not run each message {each} times")
        return ended - self.board.tally()[1]

    def latencies(self, rate: float) -> list[float]:
        """Milliseconds from a commit's return to the handler's start, in order of size."""
        with self.workers(1) as check:
            self.call("produce", str(self.count), str(rate))
            deadline = time.monotonic() + PATIENCE
            while not all(self.board.started(number) for number in range(self.count)):
                check()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{self.system.name} left messages waiting")
                time.sleep(0.01)
        times = [self.board.times(number) for number in range(1, self.count)]
        return sorted((started - committed) * 1000 for committed, started in times)

    def _command(self, *words: str) -> list[str]:
        module = f"tests.bench.peers.{self.system.module}"
        board = str(self._folder / "board")
        options = ["--url", self._url, "--board", board, "--option", self.system.option]
        return [str(self._python), "-m", module, *options, *words]

    @contextmanager
    def _asking(self) -> Iterator[Callable[[], int]]:
        """How many messages are not finished, asked over one connection."""
        query = self.system.left
        if self.system.sqlite:
            file = self._url.removeprefix("sqlite:///")
            with closing(sqlite3.connect(file, timeout=10)) as database:
                yield lambda: int(database.execute(query).fetchone()[0])
        else:
            with self._postgresql() as connection:
                yield lambda: int(connection.execute(query).fetchone()[0])  # type: ignore[arg-type,index]

    def _postgresql(self) -> "psycopg.Connection[tuple[int, ...]]":
        return psycopg.connect(self._url, autocommit=True)


@contextmanager
def fresh(system: System, home: Path, cluster: Cluster, count: int) -> Iterator[Run]:
    """A run on a database made for it, and dropped."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if system.sqlite:
            url = f"sqlite:///{folder / 'bench.db'}"
        else:
            made = make_url(stack.enter_context(cluster.database()).sync_url)
            url = made.set(drivername="postgresql").render_as_string(hide_password=False)
        run = Run(system, system.python(home), url, folder, count)
        stack.callback(run.board.close)
        run.call("setup")
        yield run


def bulk(run: Run) -> dict[str, float]:
    return {"jobs/s": run.count / run.fill()}


def consume(run: Run, processes: int = 1, *, failing: bool = False) -> dict[str, float]:
    run.fill()
    return {"jobs/s": run.count / run.drain(processes, failing=failing)}


def latency(run: Run, rate: float = 50.0) -> dict[str, float]:
    found = run.latencies(rate)
    return {"p50 ms": statistics.median(found), "p99 ms": found[int(len(found) * 0.99)]}


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for each in processes:
        each.send_signal(signal.SIGTERM)
    for each in processes:
        try:
            each.wait(5)
        except subprocess.TimeoutExpired:
            each.kill()
            each.wait()
