"""Waking one of those that wait, in threads and in event loops alike."""

import threading
from collections import deque
from concurrent.futures import Future


class Bell:
    """Each ring wakes one that waits; where nobody does, it is kept for the next that comes.

    No more than one ring is kept. Opened, it keeps nobody waiting ever again.
    """

    def __init__(self, *, rung: bool = False) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Future[None]] = deque()
        self._rung = rung
        self._open = False

    def ring(self) -> None:
        with self._lock:
            waiting = self._waiting.popleft() if self._waiting else None
            self._rung = self._rung or waiting is None
        if waiting is not None:
            waiting.set_result(None)

    def open(self) -> None:
        """Wakes everybody, those included who come later."""
        with self._lock:
            self._open = True
            everybody = list(self._waiting)
            self._waiting.clear()
        for each in everybody:
            each.set_result(None)

    def take(self) -> bool:
        """Takes a ring that was kept, without waiting for one."""
        with self._lock:
            taken, self._rung = self._rung or self._open, False
        return taken

    def enter(self) -> Future[None]:
        """What is done once the bell has rung for this one, who has to leave in any case."""
        waiting: Future[None] = Future()
        # From here on nobody but the bell can end it.
        waiting.set_running_or_notify_cancel()
        with self._lock:
            if not (self._rung or self._open):
                self._waiting.append(waiting)
                return waiting
            self._rung = False
        waiting.set_result(None)
        return waiting

    def leave(self, waiting: Future[None]) -> None:
        with self._lock:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
