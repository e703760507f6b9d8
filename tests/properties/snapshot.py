"""What the tables hold, in the terms of the model."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tests.properties.model import Entry, Range, Row, seconds
from vulkan_orm.models import (
    ConsumerGroup,
    DeliveryLog,
    ExceptionQueue,
    IdempotencyKey,
    Message,
    RangeClaim,
    Topic,
)


@dataclass
class Snapshot:
    position: int
    ranges: dict[int, Range]
    queue: dict[int, Row]
    log: list[Entry]
    payloads: dict[int, Any]


def _lease(instant: datetime | None, began: datetime) -> int | None:
    return None if instant is None else seconds(instant, began)


def snapshot(session: Session, group_id: int, began: datetime) -> Snapshot:
    position = session.scalar(select(ConsumerGroup.position).where(ConsumerGroup.id == group_id))
    assert position is not None
    ranges = session.execute(select(RangeClaim.__table__)).all()
    rows = session.execute(select(ExceptionQueue.__table__)).all()
    log = session.execute(
        select(
            DeliveryLog.message_id, DeliveryLog.attempt, DeliveryLog.outcome, DeliveryLog.became
        ).order_by(DeliveryLog.id)
    ).all()
    return Snapshot(
        position,
        {each.id: _range(each, began) for each in ranges},
        {each.message_id: _row(each, began) for each in rows},
        [Entry(*each) for each in log],
        {each.message_id: each.payload for each in rows},
    )


def _range(found: Any, began: datetime) -> Range:
    return Range(
        first=found.first,
        last=found.last,
        progress=found.progress,
        owner=found.owner,
        lease=_lease(found.lease_until, began),
        running=found.running,
        careful=found.careful,
        claims=found.claims,
    )


def _row(found: Any, began: datetime) -> Row:
    return Row(
        max_retries=found.max_retries,
        max_delays=found.max_delays,
        state=found.state,
        attempts=found.attempts,
        delays=found.delays,
        interruptions=found.interruptions,
        granted_retries=found.granted_retries,
        granted_delays=found.granted_delays,
        due=seconds(found.can_run_after, began),
        careful=found.careful,
        on_hold=found.on_hold,
        owner=found.owner,
        lease=_lease(found.lease_until, began),
    )


def empty(session: Session) -> None:
    """Takes every row but that of vulkan_meta away."""
    for table in (
        DeliveryLog,
        ExceptionQueue,
        RangeClaim,
        ConsumerGroup,
        IdempotencyKey,
        Message,
        Topic,
    ):
        session.execute(delete(table))
