"""The first delivery: ranges of the log."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from vulkan_orm.consumers.context import Worker, nothing
from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.consumers.running import Tally
from vulkan_orm.consumers.steps import Steps, transact
from vulkan_orm.consumers.work import RangeWork
from vulkan_orm.core import pace
from vulkan_orm.service.deliveries import ClaimedRange, Group
from vulkan_orm.service.repository import DeliveryRepository
from vulkan_orm.service.watermark import Watermark


@dataclass(slots=True)
class MessageConsumer:
    """Claims the group's next range, runs it, and commits it as one."""

    worker: Worker
    consumer: Consumer
    group: Group
    watermark: Watermark = field(default_factory=Watermark)
    size: int = pace.FIRST_RANGE
    #: The last claim took as much as it may, so that there may be more.
    full: bool = False

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
        taken = time.monotonic()
        owner = self.worker.next_owner()

        def claim(repository: DeliveryRepository) -> ClaimedRange | None:
            return repository.claim_range(
                self.group,
                owner,
                limit=self.size,
                lease=self.consumer.lease,
                watermark=self.watermark,
                upto=upto,
            )

        try:
            claimed = yield from transact(claim)
        except Exception:
            # Pending looks name transactions, whose names change when the server restarts.
            self.watermark = Watermark()
            raise
        if claimed is None:
            return None
        self.full = len(claimed.deliveries) >= self.size
        claimed_one()
        began = time.monotonic()
        tally = yield from self.worker.run(self.consumer, RangeWork(claimed, self.consumer), taken)
        self.size = pace.next_range_size(self.size, tally.total(), time.monotonic() - began)
        return tally
