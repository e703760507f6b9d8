"""The first delivery: ranges of the log."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import DBAPIError

from vulkan_orm.consumers.context import Worker, nothing
from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.consumers.leases import Lease
from vulkan_orm.consumers.running import Tally
from vulkan_orm.consumers.steps import Begin, Collect, Steps, transact
from vulkan_orm.consumers.work import RangeWork
from vulkan_orm.core import pace
from vulkan_orm.diagnostics import VulkanError
from vulkan_orm.service.deliveries import ClaimedRange, Group
from vulkan_orm.service.repository import DeliveryRepository
from vulkan_orm.service.watermark import Watermark

logger = logging.getLogger("vulkan_orm.consumers")


@dataclass(slots=True)
class MessageConsumer:
    """Claims the group's next range, runs it, and commits it as one.

    Where ranges are quick, the next one is claimed and read while this one runs.
    """

    worker: Worker
    consumer: Consumer
    group: Group
    watermark: Watermark = field(default_factory=Watermark)
    size: int = pace.FIRST_RANGE
    #: The last claim took as much as it may, so that there may be more.
    full: bool = False
    _quick: bool = False
    #: What was begun to be claimed ahead, and what came of it.
    _begun: Any = None
    _ahead: tuple[RangeWork, Lease] | None = None

    def turn(
        self, upto: int | None = None, *, claimed_one: Callable[[], None] = nothing
    ) -> Steps[Tally | None]:
        """Runs one range; None when there was none.

        :param upto: a message id beyond which nothing is claimed.
        :param claimed_one: is called when a claim is committed, before it runs.
        """
        self.full = False
        if self.worker.stop.asked:
            return None
        held = (yield from self._collect()) or (yield from self._claim(upto))
        if held is None:
            return None
        work, lease = held
        self.full = len(work.rest) >= self.size
        claimed_one()
        if self._quick and self.full and not work.careful:
            self._begun = yield Begin(self._claiming(upto), self._landed(time.monotonic()))
        began = time.monotonic()
        tally = yield from self.worker.run(self.consumer, work, lease)
        if work.rest:
            # What was cut goes first, so what comes after it has to wait as well.
            yield from self.give_back()
        took = time.monotonic() - began
        self.size = pace.next_range_size(self.size, tally.total(), took)
        self._quick = pace.is_quick(took) and self.worker.looks_ahead
        return tally

    @property
    def has_more(self) -> bool:
        """Whether the next range is claimed already, or begun to be."""
        return self._begun is not None

    def give_back(self) -> Steps[None]:
        """Gives back what was claimed ahead and will not be run; else it waits for its lease."""
        try:
            held = yield from self._collect()
            if held is not None:
                work, lease = held
                self.worker.release(work, lease)
                yield from transact(work.hand_back)
        except (VulkanError, DBAPIError) as error:
            logger.warning("%s: a range ahead could not be given back: %s", self.group, error)

    def _claiming(self, upto: int | None) -> Callable[[DeliveryRepository], ClaimedRange | None]:
        owner, limit = self.worker.next_owner(), self.size
        return lambda repository: repository.claim_range(
            self.group,
            owner,
            limit=limit,
            lease=self.consumer.lease,
            watermark=self.watermark,
            upto=upto,
        )

    def _claim(self, upto: int | None) -> Steps[tuple[RangeWork, Lease] | None]:
        taken = time.monotonic()
        try:
            claimed = yield from transact(self._claiming(upto))
        except Exception:
            self._look_again()
            raise
        return self._held(claimed, taken, ahead=False)

    def _look_again(self) -> None:
        # Pending looks name transactions, whose names change when the server restarts.
        self.watermark = Watermark()

    def _held(
        self, claimed: ClaimedRange | None, taken: float, *, ahead: bool
    ) -> tuple[RangeWork, Lease] | None:
        if claimed is None:
            return None
        work = RangeWork(claimed, self.consumer)
        return work, self.worker.hold(self.consumer, work, taken, ahead=ahead)

    def _landed(self, taken: float) -> Callable[[ClaimedRange | None], None]:
        def landed(claimed: ClaimedRange | None) -> None:
            self._ahead = self._held(claimed, taken, ahead=True)

        return landed

    def _collect(self) -> Steps[tuple[RangeWork, Lease] | None]:
        """What was claimed ahead and is still ours."""
        if self._begun is None:
            return None
        begun, self._begun = self._begun, None
        try:
            yield Collect(begun)
        except Exception:
            self._look_again()
            raise
        held, self._ahead = self._ahead, None
        if held is not None and not self.worker.keeper.start(held[1]):
            self.worker.release(*held)
            return None
        return held
