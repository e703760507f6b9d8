"""Worker processes: forked from a warm server, so that a test can afford many."""

import multiprocessing
import signal
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.faults import app
from tests.faults.support import Errand

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.faults.app"])


def end(process: ForkServerProcess, seconds: float = 30.0) -> int:
    """The exit code of a process that ends within so many seconds."""
    process.join(seconds)
    assert process.exitcode is not None, f"still running after {seconds} s"
    return process.exitcode


class Crew:
    """Worker processes that a test starts, all gone when it ends."""

    def __init__(self, url: str, folder: Path, engine: str = "own") -> None:
        self._url = url
        self._engine = engine
        self.folder = folder
        self._processes: list[ForkServerProcess] = []

    def start(self, **options: Any) -> ForkServerProcess:
        errand = Errand(url=self._url, engine=self._engine, folder=self.folder, **options)
        said = self._said(len(self._processes))
        process = _processes.Process(target=app.main, args=(errand, said), daemon=True)
        process.start()
        self._processes.append(process)
        return process

    def supervise(self, *, limit: int = 12, **options: Any) -> int:
        """Starts drains, each after the leases of the one before, until one ends by itself.

        Returns how many were killed on the way.
        """
        for deaths in range(limit):
            process = self.start(offset=deaths * 60.0, **options)
            code = end(process)
            if code == 0:
                return deaths
            assert code == -signal.SIGKILL, self.said(process)
        raise AssertionError(f"{limit} workers died")

    def said(self, process: ForkServerProcess) -> str:
        """What a process wrote to its standard error."""
        return self._said(self._processes.index(process)).read_text()

    def runs(self) -> list[int]:
        """The numbers of the jobs whose handlers were started, in order, by any process."""
        file = self.folder / "runs"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def release(self) -> None:
        """Lets handlers go on that hang, now and later."""
        (self.folder / "release").touch()

    def asked(self) -> bool:
        """Whether a worker has been asked to stop and knows it."""
        return (self.folder / "asked").exists()

    def close(self) -> None:
        for process in self._processes:
            if process.is_alive():
                process.kill()
            process.join()
            process.close()

    def _said(self, number: int) -> Path:
        return self.folder / f"worker-{number}.log"
