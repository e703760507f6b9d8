"""Asking workers to stop, and what counts as having been asked."""

import threading
from collections.abc import Callable


class RunCancelled(BaseException):
    """A run that was cut because its worker was asked to stop."""


class Stop:
    """A request to stop: nothing new starts, and what runs has a grace time."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._at_once = threading.Event()
        #: A handler was interrupted from the keyboard: once all is recorded, so is the caller.
        self.interrupted = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    @property
    def at_once(self) -> bool:
        return self._at_once.is_set()

    def ask(self) -> None:
        """Asks for a graceful stop; asked a second time, for one at once."""
        if self._asked.is_set():
            self._at_once.set()
        self._asked.set()
        for listener in self._listeners:
            listener()

    def interrupt(self) -> None:
        """Asks because a handler was interrupted from the keyboard."""
        self.interrupted = True
        self.ask()

    def on_ask(self, listener: Callable[[], None]) -> None:
        """Calls back at each request, from whatever thread makes it; at once after one."""
        self._listeners.append(listener)
        if self.asked:
            listener()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until a stop is asked for, in this thread; True when it was."""
        return self._asked.wait(seconds)

    def wait_at_once(self, seconds: float) -> bool:
        return self._at_once.wait(seconds)
