"""Several worker processes under one command: started, replaced when they die, stopped together."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from vulkan_orm.cli.failing import FAILED

logger = logging.getLogger("vulkan_orm.cli")

MAX_PROCESSES = 256
LOOK = 0.1
# One that dies at once shall not be started again and again without a breath.
PAUSE = 1.0


def stop_with_parent() -> None:
    """Asks this process to stop when the one that holds the other end of its stdin is gone."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="vulkan parent", daemon=True).start()


class Crew:
    """Worker processes that do the same."""

    def __init__(self, arguments: Sequence[str], number: int) -> None:
        self._command = [sys.executable, "-m", "vulkan_orm", *arguments]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._due = dict.fromkeys(range(number), 0.0)
        self._stopping = False
        self._worst = 0

    def run(self) -> int:
        """Keeps them at work until a signal asks for a stop; the worst of their exit codes.

        One that could not even begin ends the others too.
        """
        with self._signals():
            while not (self._stopping and not self._processes):
                self._start()
                time.sleep(LOOK)
                for number in list(self._processes):
                    self._look_at(number)
        return self._worst

    def _start(self) -> None:
        if self._stopping:
            return
        for number, due in list(self._due.items()):
            if due <= time.monotonic():
                del self._due[number]
                # Out of reach of the terminal's Ctrl-C, which comes here and is passed on.
                self._processes[number] = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, process_group=0
                )

    def _look_at(self, number: int) -> None:
        code = self._processes[number].poll()
        if code is None:
            return
        del self._processes[number]
        if self._stopping:
            # One that was asked before it could listen has had nothing to hand back.
            self._worst = max(self._worst, 0 if code == -signal.SIGTERM else abs(code))
        elif code == FAILED:
            self._worst = code
            self._ask()
        else:
            logger.warning("A worker process ended with code %s; starting another.", code)
            self._due[number] = time.monotonic() + PAUSE

    def _ask(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        self._stopping = True
        for process in self._processes.values():
            process.terminate()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        chosen = (signal.SIGTERM, signal.SIGINT)
        before = {each: signal.signal(each, self._ask) for each in chosen}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
