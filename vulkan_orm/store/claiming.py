"""Statements that hand work to a worker: ranges of the log, due retries, held deliveries."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Insert,
    Select,
    Update,
    and_,
    case,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate
from sqlalchemy.sql.elements import ColumnElement

from vulkan_orm.core.budget import within_budget
from vulkan_orm.core.policy import RetryPolicy
from vulkan_orm.models import ConsumerGroup, ExceptionQueue, Message, RangeClaim, Topic
from vulkan_orm.store.clock import db_after, db_now
from vulkan_orm.store.dialects.base import Dialect, Rows

# In the text of a statement: a plan made without the value could not use the partial index.
READY = ExceptionQueue.state == literal_column("'ready'")
RUNNING = ExceptionQueue.state == literal_column("'running'")


def group_named(topic: str, group: str) -> Select[int, int]:
    """The ids of a consumer group and its topic."""
    return (
        select(ConsumerGroup.id, ConsumerGroup.topic_id)
        .join(Topic, Topic.id == ConsumerGroup.topic_id)
        .where(Topic.name == topic, ConsumerGroup.name == group)
    )


def add_group(dialect: Dialect, topic: str, group: str) -> Insert:
    """Makes a group's row if it is missing, at the beginning of its topic."""
    row = select(Topic.id, literal(group), literal(0)).where(Topic.name == topic)
    statement: Insert = (
        dialect.insert(ConsumerGroup)
        .from_select(["topic_id", "name", "position"], row)
        .on_conflict_do_nothing(index_elements=["topic_id", "name"])
    )
    return statement


def position(dialect: Dialect, group_id: int) -> Select[int]:
    """The group's position, locked until the claim commits."""
    statement = select(ConsumerGroup.position).where(ConsumerGroup.id == group_id)
    return dialect.locking(statement)


def nobody_holds() -> ColumnElement[bool]:
    """Whether a range was handed back, or its lease has ended."""
    return or_(RangeClaim.owner.is_(None), RangeClaim.lease_until < db_now())


def waiting_range(dialect: Dialect, group_id: int) -> Rows:
    """The group's first range that nobody holds."""
    statement = (
        select(RangeClaim.__table__)
        .where(RangeClaim.group_id == group_id, nobody_holds())
        .order_by(RangeClaim.first)
        .limit(1)
    )
    return dialect.locking(statement, skip_locked=True)


def take_range(range_id: int, owner: str, lease: float, *, careful: bool) -> Update:
    return (
        update(RangeClaim)
        .where(RangeClaim.id == range_id)
        .values(
            owner=owner,
            lease_until=db_after(lease),
            claims=RangeClaim.claims + 1,
            careful=careful,
        )
    )


def shorten_range(range_id: int, first: int) -> Update:
    """Lets a range without owner begin later."""
    return (
        update(RangeClaim).where(RangeClaim.id == range_id).values(first=first, progress=first - 1)
    )


def add_range(group_id: int, first: int, last: int, owner: str, lease: float) -> Insert:
    return (
        insert(RangeClaim)
        .values(
            group_id=group_id,
            first=first,
            last=last,
            progress=first - 1,
            claims=1,
            careful=False,
            owner=owner,
            lease_until=db_after(lease),
        )
        .returning(RangeClaim.id)
    )


def advance(dialect: Dialect, group_id: int, position: int) -> Update:
    """Moves the group's position. The next hint goes to the next that sleeps."""
    return (
        update(ConsumerGroup)
        .where(ConsumerGroup.id == group_id)
        .values(position=position, **dialect.one_awake())
    )


def log(
    dialect: Dialect, topic_id: int, *, after: int, upto: int | None, limit: int | None
) -> Rows:
    """Messages of a topic in order, payload as text; ``deliver_at`` only where still to come."""
    statement = (
        select(
            Message.id,
            Message.key,
            dialect.payload_text(Message.payload).label("payload"),
            Message.headers,
            Message.published_at,
            case((Message.deliver_at > db_now(), Message.deliver_at)).label("deliver_at"),
            Message.max_retries,
            Message.max_delays,
        )
        .where(Message.topic_id == topic_id, Message.id > after)
        .order_by(Message.id)
        .limit(limit)
    )
    return statement if upto is None else statement.where(Message.id <= upto)


def _in_budget(policy: RetryPolicy) -> ColumnElement[bool]:
    retries = case(
        (ExceptionQueue.max_retries < policy.max_retries, ExceptionQueue.max_retries),
        else_=policy.max_retries,
    )
    clause: ColumnElement[bool] = within_budget(
        ExceptionQueue.spent, retries, ExceptionQueue.granted_retries
    )
    return clause


def _due(group_id: int, due: datetime | None) -> ColumnElement[bool]:
    return and_(
        ExceptionQueue.group_id == group_id,
        READY,
        ExceptionQueue.can_run_after <= (db_now() if due is None else due),
    )


def claim_due(
    dialect: Dialect,
    group_id: int,
    policy: RetryPolicy,
    owner: str,
    lease: float,
    *,
    careful: bool,
    limit: int,
    due: datetime | None = None,
) -> ReturningUpdate[Any]:
    """Marks due retries as running and counts the run, before it begins."""
    chosen = (
        select(ExceptionQueue.message_id)
        .where(_due(group_id, due), ExceptionQueue.careful.is_(careful), _in_budget(policy))
        .order_by(ExceptionQueue.can_run_after)
        .limit(limit)
    )
    return _start(dialect, group_id, chosen, owner, lease)


def claim_held(
    dialect: Dialect,
    group_id: int,
    owner: str,
    lease: float,
    *,
    message_ids: Sequence[int] | None,
    limit: int,
) -> ReturningUpdate[Any]:
    """Marks held deliveries as running on request: no due time and no budget is asked."""
    chosen = (
        select(ExceptionQueue.message_id)
        .where(ExceptionQueue.group_id == group_id, ExceptionQueue.state == "held")
        .order_by(ExceptionQueue.message_id)
        .limit(limit)
    )
    if message_ids is not None:
        chosen = chosen.where(ExceptionQueue.message_id.in_(message_ids))
    return _start(dialect, group_id, chosen, owner, lease)


def _start(
    dialect: Dialect, group_id: int, chosen: Select[int], owner: str, lease: float
) -> ReturningUpdate[Any]:
    chosen = dialect.locking(chosen, skip_locked=True)
    return (
        update(ExceptionQueue)
        .where(
            ExceptionQueue.group_id == group_id, dialect.one_of(ExceptionQueue.message_id, chosen)
        )
        .values(
            on_hold=ExceptionQueue.state == "held",
            state="running",
            attempts=ExceptionQueue.attempts + 1,
            owner=owner,
            lease_until=db_after(lease),
            claimed_at=db_now(),
        )
        .returning(ExceptionQueue.message_id)
        .execution_options(synchronize_session=False)
    )


def claimed(dialect: Dialect, group_id: int, owner: str, message_ids: Sequence[int]) -> Rows:
    """What a claim got, with the payload: the message's, or the copy a dead delivery keeps."""
    payload = func.coalesce(
        dialect.payload_text(Message.payload), dialect.payload_text(ExceptionQueue.payload)
    )
    return (
        select(
            ExceptionQueue.message_id.label("id"),
            ExceptionQueue.key,
            payload.label("payload"),
            func.coalesce(Message.headers, ExceptionQueue.headers).label("headers"),
            ExceptionQueue.published_at,
            ExceptionQueue.max_retries,
            ExceptionQueue.max_delays,
            ExceptionQueue.attempts,
            ExceptionQueue.delays,
            ExceptionQueue.interruptions,
            ExceptionQueue.granted_retries,
            ExceptionQueue.granted_delays,
            ExceptionQueue.careful,
            ExceptionQueue.on_hold,
        )
        .select_from(ExceptionQueue)
        .join(ConsumerGroup, ConsumerGroup.id == ExceptionQueue.group_id)
        .outerjoin(
            Message,
            and_(
                Message.topic_id == ConsumerGroup.topic_id,
                Message.id == ExceptionQueue.message_id,
            ),
        )
        .where(
            ExceptionQueue.group_id == group_id,
            # By their ids as well: no index would find an owner's rows among all that wait.
            ExceptionQueue.message_id.in_(message_ids),
            ExceptionQueue.owner == owner,
        )
        .order_by(ExceptionQueue.can_run_after, ExceptionQueue.message_id)
    )


def bury(
    group_id: int, topic_id: int, policy: RetryPolicy, due: datetime | None = None
) -> ReturningUpdate[Any]:
    """Makes dead what is due and over budget: after a kill, or a policy lowered by a deploy."""
    mine = and_(Message.topic_id == topic_id, Message.id == ExceptionQueue.message_id)
    payload = select(Message.payload).where(mine).correlate(ExceptionQueue).scalar_subquery()
    headers = select(Message.headers).where(mine).correlate(ExceptionQueue).scalar_subquery()
    return (
        update(ExceptionQueue)
        .where(_due(group_id, due), ~_in_budget(policy))
        .values(
            state="dead",
            payload=func.coalesce(ExceptionQueue.payload, payload),
            headers=func.coalesce(ExceptionQueue.headers, headers),
        )
        .returning(ExceptionQueue.message_id)
        .execution_options(synchronize_session=False)
    )


def renew_range(owner: str, lease: float) -> Update:
    return update(RangeClaim).where(RangeClaim.owner == owner).values(lease_until=db_after(lease))


def renew_runs(owner: str, lease: float) -> Update:
    return (
        update(ExceptionQueue)
        .where(ExceptionQueue.owner == owner, RUNNING)
        .values(lease_until=db_after(lease))
        .execution_options(synchronize_session=False)
    )
