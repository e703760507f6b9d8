"""Keeping the leases of what runs, from a thread that no handler can hold up."""

import logging
import math
import threading
import time
from collections.abc import Callable

from sqlalchemy.orm import Session

from vulkan_orm.service.engines import Engines
from vulkan_orm.service.repository import DeliveryRepository

logger = logging.getLogger("vulkan_orm.leases")

CLOSING = 0.5

GiveBack = Callable[[DeliveryRepository], None]


class Lease:
    """One claim's right to run. Judged conservatively: counted from before it was taken.

    ``unstarted`` gives back what was claimed ahead and waits for its turn.
    """

    def __init__(
        self, owner: str, seconds: float, taken: float, unstarted: GiveBack | None = None
    ) -> None:
        self.owner = owner
        self.seconds = seconds
        self.good_until = taken + seconds
        self.lost = False
        self.unstarted = unstarted

    @property
    def good(self) -> bool:
        """Whether a run may still be started under it."""
        return self.good_at(time.monotonic())

    def good_at(self, now: float) -> bool:
        return not self.lost and now < self.good_until

    @property
    def renew_at(self) -> float:
        return self.good_until - self.seconds * 2 / 3


class LeaseKeeper:
    """Renews the leases in its care when a third of each has passed."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._leases: dict[str, Lease] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._wakes_at = math.inf
        self._thread: threading.Thread | None = None

    def hold(
        self, owner: str, seconds: float, taken: float, unstarted: GiveBack | None = None
    ) -> Lease:
        """Takes a claim into care; ``taken`` is the monotonic time before it was claimed.

        :param unstarted: gives it back, should it not be started before its renewal is due: others
            shall not wait for what is stuck behind a slow handler here.
        """
        lease = Lease(owner, seconds, taken, unstarted)
        if not self._engines.shared:
            return lease
        with self._changed:
            self._leases[owner] = lease
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="vulkan-leases", daemon=True)
                self._thread.start()
            elif lease.renew_at < self._wakes_at:
                self._changed.notify()
        return lease

    def start(self, lease: Lease) -> bool:
        """Whether what was claimed ahead is still ours to run; from now on it is renewed."""
        with self._changed:
            lease.unstarted = None
            return lease.good

    def drop(self, lease: Lease) -> None:
        with self._changed:
            self._leases.pop(lease.owner, None)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            # A renewal may be waiting for a lock that a handler which hangs will never give up.
            self._thread.join(CLOSING)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                now = time.monotonic()
                due = [lease for lease in self._leases.values() if lease.renew_at <= now]
                if not due:
                    times = (each.renew_at for each in self._leases.values())
                    self._wakes_at = min(times, default=math.inf)
                    self._changed.wait(self._wakes_at - now if self._leases else None)
                    continue
            self._renew(due)

    def _renew(self, due: list[Lease]) -> None:
        try:
            self._engines.apart(self._renewal(due))
        except Exception:
            # Tried again soon; should it fail until the lease ends, its runs stop being started.
            logger.warning("Leases could not be renewed; trying again.", exc_info=True)
            with self._changed:
                self._changed.wait(min(lease.seconds for lease in due) / 10)

    def _renewal(self, due: list[Lease]) -> Callable[[Session], None]:
        def renew(session: Session) -> None:
            repository = DeliveryRepository(session)
            for lease in due:
                taken = time.monotonic()
                if (give_back := self._unstarted(lease)) is not None:
                    give_back(repository)
                elif repository.renew(lease.owner, lease.seconds):
                    lease.good_until = taken + lease.seconds
                elif self._leases.get(lease.owner) is lease:
                    lease.lost = True
                    self.drop(lease)
                    logger.warning("The lease %s was lost.", lease.owner)

        return renew

    def _unstarted(self, lease: Lease) -> GiveBack | None:
        """How to give back what still waits for its turn, which it will not get any more."""
        with self._changed:
            if lease.unstarted is not None:
                lease.lost = True
                self._leases.pop(lease.owner, None)
            return lease.unstarted
