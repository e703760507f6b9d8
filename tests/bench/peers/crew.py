"""Processes of one system on one database: set up, filled, put to work, and told to stop."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import NullPool, create_engine, make_url, text

from tests.bench.peers import protocol

HERE = Path(__file__).parent
PATIENCE = 300.0
_OURS = """
    SELECT (SELECT coalesce(max(id), 0) FROM vulkan_message)
        - (SELECT coalesce(max(position), -1) FROM vulkan_consumer_group)
        + (SELECT count(*) FROM vulkan_range_claim)
        + (SELECT count(*) FROM exception_queue WHERE state IN ('ready', 'running'))
"""


@dataclass(frozen=True, slots=True)
class System:
    """What there is to know of a system: its script, and a query for what it has still to do."""

    name: str
    remaining: str = ""
    #: The environment it runs in, by its folder; our own where none is named.
    environment: str = ""
    on_sqlite: bool = False

    @property
    def ours(self) -> bool:
        return not self.environment


SYSTEMS = {
    each.name: each
    for each in (
        System("vulkan", _OURS),
        System("vulkan_async", _OURS),
        System("vulkan_sqlite", _OURS, on_sqlite=True),
        System("pgqueuer", "SELECT count(*) FROM pgqueuer", "pgqueuer"),
        System(
            "procrastinate",
            "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
            "procrastinate",
        ),
        System(
            "chancy",
            "SELECT count(*) FROM chancy_jobs WHERE state IN ('pending', 'running', 'retrying')",
            "chancy",
        ),
        System("huey", "SELECT count(*) FROM task", "huey", on_sqlite=True),
    )
}


@dataclass(slots=True)
class Crew:
    """One system on a database of its own, with a folder for what its processes share."""

    system: System
    url: str
    folder: Path
    environments: Path
    mode: str = "consume"

    def do(self, verb: str, amount: int = 0) -> str:
        """Runs one verb to its end and gives what it printed."""
        result = subprocess.run(
            self._command(verb, amount), env=self._env(), capture_output=True, text=True
        )
        if result.returncode:
            raise RuntimeError(f"{self.system.name} {verb}: {result.stderr[-2000:]}")
        return result.stdout

    @contextmanager
    def working(self, processes: int) -> Iterator[None]:
        with (self.folder / "log").open("w") as log:
            started = [
                subprocess.Popen(self._command("work"), env=self._env(), stdout=log, stderr=log)
                for _ in range(processes)
            ]
            try:
                yield
            finally:
                for process in started:
                    process.send_signal(signal.SIGTERM)
                for process in started:
                    try:
                        process.wait(10)
                    except subprocess.TimeoutExpired:
                        process.kill()
                        process.wait()

    def wait_for(self, runs: int) -> float:
        """Waits until so many runs were made and nothing remains; the seconds since the first."""
        deadline = time.monotonic() + PATIENCE
        while protocol.boards(self.folder)[0] < runs or self.remaining():
            if time.monotonic() > deadline:
                done, left = protocol.boards(self.folder)[0], self.remaining()
                raise RuntimeError(f"{self.system.name} made {done} of {runs} runs, left {left}.")
            time.sleep(0.01)
        return time.monotonic() - protocol.boards(self.folder)[1]

    def remaining(self) -> int:
        engine = create_engine(self._database, poolclass=NullPool)
        with engine.connect() as connection:
            return int(connection.execute(text(self.system.remaining)).scalar_one())

    def settle_down(self) -> None:
        """Statistics and dirty pages are not what is measured."""
        if self.system.on_sqlite:
            return
        engine = create_engine(self._database, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("VACUUM ANALYZE"))
            connection.execute(text("CHECKPOINT"))

    @property
    def _database(self) -> str:
        if self.system.name == "huey":
            return f"sqlite:///{self.folder / 'huey.db'}"
        url = make_url(self.url)
        named = url if self.system.on_sqlite else url.set(drivername="postgresql+psycopg")
        return named.render_as_string(hide_password=False)

    def _command(self, verb: str, amount: int = 0) -> Sequence[str]:
        ours = self.system.ours
        python = (
            sys.executable
            if ours
            else str(self.environments / self.system.environment / "bin" / "python")
        )
        script = self.system.name.removesuffix("_sqlite")
        return [python, str(HERE / f"{script}_.py"), verb, str(amount)]

    def _env(self) -> dict[str, str]:
        return os.environ | {
            "BENCH_URL": self.url,
            "BENCH_FOLDER": str(self.folder),
            "BENCH_MODE": self.mode,
        }

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
