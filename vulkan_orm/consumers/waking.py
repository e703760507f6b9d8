"""How idle loops learn that there is something to do: by hints where there are, else by looking."""

import threading
import time
from dataclasses import dataclass, field
from uuid import uuid4

from vulkan_orm.consumers.bell import Bell
from vulkan_orm.consumers.shutdown import Stop
from vulkan_orm.core.pace import FIRST_RANGE, RETRIES
from vulkan_orm.service.engines import Engines
from vulkan_orm.service.listening import Listener


@dataclass(slots=True)
class Watch:
    """What the loops of one process share for one group.

    One at a time has the place of the lookout: it alone looks, claims and waits for hints. It
    passes the place on when it has claimed something, so that as many run as there is work for
    and nobody looks in vain.
    """

    place: Bell = field(default_factory=lambda: Bell(rung=True))
    bell: Bell = field(default_factory=Bell)
    #: A publisher's hint came: there is something to claim, and nothing to look for.
    hinted: bool = False
    checked_at: float = float("-inf")
    #: How much to claim at once, as the last run to end has found it.
    range_size: int = FIRST_RANGE
    retries: int = RETRIES

    def hint(self) -> None:
        self.hinted = True
        self.bell.ring()

    def take_hint(self) -> bool:
        taken, self.hinted = self.hinted, False
        return taken

    def check_is_due(self, interval: float) -> bool:
        """Whether it is time for what is done now and then; asked again, not for a while."""
        due = time.monotonic() - self.checked_at > interval
        if due:
            self.checked_at = time.monotonic()
        return due


class Waking:
    """The watches of a worker, and its ear."""

    def __init__(self, engines: Engines, stop: Stop) -> None:
        #: Of this start of the worker alone.
        self.channel = f"vulkan_{uuid4().hex[:16]}"
        self._engines = engines
        self._stop = stop
        self._lock = threading.Lock()
        self._watches: dict[int, Watch] = {}
        self._listener: Listener | None = None

    def watch(self, group_id: int) -> Watch:
        """The group's watch, the same for all who ask."""
        with self._lock:
            watch = self._watches.get(group_id)
            if watch is None:
                watch = self._watches[group_id] = Watch()
                self._stop.on_ask(watch.place.open)
                self._stop.on_ask(watch.bell.open)
        return watch

    def listening(self) -> bool:
        """Whether hints are heard. The first to ask makes it begin."""
        if not self._engines.can_listen:
            return False
        with self._lock:
            if self._listener is None and not self._stop.asked:
                self._listener = Listener(self._engines, self.channel, self._heard)
            return self._listener is not None and self._listener.listening

    def close(self) -> None:
        with self._lock:
            listener = self._listener
        if listener is not None:
            listener.close()

    def _heard(self, hint: str) -> None:
        with self._lock:
            watches = {str(group_id): watch for group_id, watch in self._watches.items()}
        if hint in watches:
            watches[hint].hint()
            return
        for watch in watches.values():
            watch.bell.ring()
