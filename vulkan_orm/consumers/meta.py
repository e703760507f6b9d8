"""What a handler may ask to know about its delivery."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from vulkan_orm.core.budget import Limits
from vulkan_orm.core.policy import RetryPolicy
from vulkan_orm.service.deliveries import Delivery


@dataclass(frozen=True, slots=True)
class MessageMeta:
    """The delivery in hand.

    ``attempts`` are the runs before this one (0 on the first), ``delays`` those that were asked
    for. ``last_run`` says that a failure of this run would be the last the budget allows.
    ``delivery_id`` stays the same over all runs: give it to what lies outside the database, whose
    effects a crash can repeat.
    """

    topic: str
    group: str
    message_id: int
    key: str | None
    headers: Mapping[str, str]
    published_at: datetime
    attempts: int
    delays: int
    last_run: bool
    delivery_id: str


def meta_of(delivery: Delivery, policy: RetryPolicy) -> MessageMeta:
    counters = delivery.counters
    limits = Limits.of(policy, delivery.max_retries, delivery.max_delays)
    group = delivery.group
    return MessageMeta(
        topic=group.topic,
        group=group.name,
        message_id=delivery.message_id,
        key=delivery.key,
        headers=delivery.headers,
        published_at=delivery.published_at,
        attempts=counters.attempts - 1,
        delays=counters.asked,
        last_run=not counters.may_run_after_failure(limits),
        delivery_id=f"{group.topic}/{group.name}/{delivery.message_id}",
    )
