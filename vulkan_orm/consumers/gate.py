"""Who runs beside whom in one worker process.

A careful run is there to find out who kills the process, so nothing else may run beside it.
"""

import threading


class Gate:
    """Lets runs in side by side, or one alone. One that waits to be alone keeps others out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._alone = False
        self._waiting: set[str] = set()

    def enter(self, owner: str, *, alone: bool, insist: bool = False) -> bool:
        """Tries to get in, without waiting.

        :param insist: be content with company: a handler of hours must not keep work waiting.
        """
        with self._lock:
            if alone and not insist and self._inside:
                self._waiting.add(owner)
                return False
            if not alone and not insist and (self._alone or self._waiting):
                return False
            self._waiting.discard(owner)
            self._inside += 1
            self._alone = self._alone or alone
            return True

    def leave(self, owner: str, *, entered: bool, alone: bool) -> None:
        with self._lock:
            self._waiting.discard(owner)
            if entered:
                self._inside -= 1
                if alone:
                    self._alone = False
