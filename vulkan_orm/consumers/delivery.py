"""Held deliveries, run because an operator asked."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from vulkan_orm.consumers.context import Worker
from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.consumers.running import Tally
from vulkan_orm.consumers.steps import Steps, transact
from vulkan_orm.consumers.work import RetryWork
from vulkan_orm.service.deliveries import Group


@dataclass(slots=True)
class DeliveryConsumer:
    """Runs deliveries on hold, one at a time: neither due time nor budget keeps them back."""

    worker: Worker
    consumer: Consumer
    group: Group

    def deliver(self, message_ids: Sequence[int] | None = None) -> Steps[Tally]:
        """Runs the named held deliveries, or all; those in another state are left alone."""
        tally: Tally = Counter()
        chosen = message_ids
        while not self.worker.stop.asked:
            ran = yield from self._turn(chosen)
            if ran is None:
                break
            tally += ran
        return tally

    def _turn(self, message_ids: Sequence[int] | None) -> Steps[Tally | None]:
        taken = time.monotonic()
        owner = self.worker.next_owner()
        claimed = yield from transact(
            lambda repository: repository.claim_held(
                self.group,
                owner,
                message_ids=message_ids,
                limit=1,
                lease=self.consumer.lease,
            )
        )
        if not claimed:
            return None
        work = RetryWork(owner, claimed, self.consumer)
        return (
            yield from self.worker.run(
                self.consumer, work, self.worker.hold(self.consumer, work, taken)
            )
        )
