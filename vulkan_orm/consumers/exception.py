"""The retry: what is due in the exception queue."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from vulkan_orm.consumers.context import Worker, nothing
from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.consumers.running import Tally
from vulkan_orm.consumers.steps import Steps, transact
from vulkan_orm.consumers.work import RetryWork
from vulkan_orm.core import pace
from vulkan_orm.service.deliveries import Group


@dataclass(slots=True)
class ExceptionConsumer:
    """Claims due retries, runs them, and applies their outcomes."""

    worker: Worker
    consumer: Consumer
    group: Group
    size: int = pace.FIRST_RANGE

    def turn(
        self, due: datetime | None = None, *, claimed_one: Callable[[], None] = nothing
    ) -> Steps[Tally | None]:
        """Runs one claim; None when nothing was due.

        :param due: an instant of the database's clock to judge by instead of its present.
        :param claimed_one: is called when the claim is committed, before it runs.
        """
        if self.worker.stop.asked:
            return None
        taken = time.monotonic()
        owner = self.worker.next_owner()
        claimed = yield from transact(
            lambda repository: repository.claim_due(
                self.group,
                self.consumer.policy,
                owner,
                limit=min(self.size, pace.RETRIES),
                lease=self.consumer.lease,
                due=due,
            )
        )
        if not claimed:
            return None
        claimed_one()
        work = RetryWork(owner, claimed, self.consumer)
        began = time.monotonic()
        tally = yield from self.worker.run(
            self.consumer, work, self.worker.hold(self.consumer, work, taken)
        )
        self.size = pace.next_range_size(self.size, tally.total(), time.monotonic() - began)
        return tally
