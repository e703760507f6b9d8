"""Statements that hand work to a worker: ranges of the log, due retries, held deliveries."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Double,
    Insert,
    Integer,
    Select,
    Text,
    Update,
    and_,
    bindparam,
    case,
    cast,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.sql.elements import ColumnElement

from vulkan_orm.columns import PLAIN_INSTANT, Json, UTCDateTime
from vulkan_orm.models import ConsumerGroup, ExceptionQueue, Message, RangeClaim, Topic
from vulkan_orm.store.building import built_once
from vulkan_orm.store.clock import db_after, db_now
from vulkan_orm.store.dialects.base import Columns, Dialect, Rows
from vulkan_orm.store.publishing import document

# In the text of a statement: a plan made without the value could not use the partial index.
READY = ExceptionQueue.state == literal_column("'ready'")
RUNNING = ExceptionQueue.state == literal_column("'running'")
_CHOSEN: Columns = {
    "group_id": BigInteger(),
    "message_id": BigInteger(),
}
_BURIED: Columns = {**_CHOSEN, "payload": Text(), "headers": Text()}
#: A message id beyond all others.
NO_END = 2**63 - 1


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


def position(dialect: Dialect, group_id: int | ColumnElement[int]) -> Rows:
    """The group's position, locked until the claim commits."""
    statement = select(ConsumerGroup.position).where(ConsumerGroup.id == group_id)
    return dialect.locking(statement)


def nobody_holds() -> ColumnElement[bool]:
    """Whether a range was handed back, or its lease has ended."""
    return or_(RangeClaim.owner.is_(None), RangeClaim.lease_until < db_now())


@built_once
def waiting_range(dialect: Dialect, group_id: int) -> Rows:
    """The group's first range that nobody holds: handed back, or its lease ended."""
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
    columns = _new_range(literal(group_id), literal(first), literal(last), literal(owner), lease)
    return insert(RangeClaim).values(columns).returning(RangeClaim.id)


def _new_range(
    group: ColumnElement[int],
    first: ColumnElement[int],
    last: ColumnElement[int],
    owner: ColumnElement[str],
    lease: ColumnElement[float] | float,
) -> dict[str, ColumnElement[Any]]:
    return {
        "group_id": group,
        "first": first,
        "last": last,
        "progress": first - 1,
        "claims": literal_column("1"),
        "careful": literal_column("false", Boolean()),
        "owner": owner,
        "lease_until": db_after(lease),
    }


def advance(dialect: Dialect, group_id: int, position: int) -> Update:
    """Moves the group's position. The next hint goes to the next that sleeps."""
    return (
        update(ConsumerGroup)
        .where(ConsumerGroup.id == group_id)
        .values(position=position, **dialect.one_awake())
    )


@built_once
def unread(dialect: Dialect, waiting_first: bool) -> Rows:
    """What the log holds past the group's position, which is locked until the claim commits.

    Its commit need not wait for the disk: a claim that a crash of the server undoes is claimed
    again, and whoever had it can record nothing any more.

    With ``waiting_first`` nothing where a range waits for an owner, since those go first.
    Parameters: ``group``, ``topic``, ``upto``, ``limit``.
    """
    group = bindparam("group", type_=BigInteger())
    # Not joined: the planner would sort all that is unread instead of reading on from there.
    held = dialect.materialized(position(dialect, group).where(dialect.at_ease()), "held")
    waiting = select(RangeClaim.id).where(RangeClaim.group_id == group, nobody_holds())
    found = log(
        dialect,
        bindparam("topic", type_=BigInteger()),
        after=select(held.c.position).scalar_subquery(),
        upto=bindparam("upto", type_=BigInteger()),
        limit=bindparam("limit", type_=BigInteger()),
    )
    return found.where(~waiting.exists()) if waiting_first else found


@built_once
def claim_unread(dialect: Dialect, waiting_first: bool) -> Rows:
    """The same, and in the same statement the group moves on and the range is ours.

    Returns the range's id in a last column. Parameters: those of :func:`unread`, ``owner``,
    ``lease``.
    """
    found = unread(dialect, waiting_first).cte("unread").prefix_with("MATERIALIZED")
    ends = (
        select(func.min(found.c.id).label("first"), func.max(found.c.id).label("last"))
        .having(func.count() > 0)
        .cte("ends")
    )
    group = bindparam("group", type_=BigInteger())
    moved = (
        update(ConsumerGroup)
        .where(ConsumerGroup.id == group, select(ends.c.last).exists())
        .values(position=select(ends.c.last).scalar_subquery(), **dialect.one_awake())
        .returning(ConsumerGroup.id)
        .cte("moved")
    )
    columns = _new_range(
        group, ends.c.first, ends.c.last, bindparam("owner"), bindparam("lease", type_=Double())
    )
    added = (
        insert(RangeClaim)
        .from_select(list(columns), select(*columns.values()))
        .returning(RangeClaim.id)
        .cte("added")
    )
    return (
        select(*found.c, select(added.c.id).scalar_subquery().label("range"))
        .add_cte(moved)
        .order_by(found.c.id)
    )


def log(
    dialect: Dialect,
    topic_id: int | ColumnElement[int],
    *,
    after: int | ColumnElement[int],
    upto: int | ColumnElement[int] | None,
    limit: int | ColumnElement[int] | None,
) -> Rows:
    """Messages of a topic in order, as plainly as they can be read.

    Documents are text and instants as the driver has them; ``deliver_at`` only where still to come.
    """
    statement = (
        select(
            Message.id,
            Message.key,
            dialect.payload_text(Message.payload).label("payload"),
            dialect.payload_text(Message.headers).label("headers"),
            type_coerce(Message.published_at, PLAIN_INSTANT).label("published"),
            type_coerce(
                case((Message.deliver_at > db_now(), Message.deliver_at)), PLAIN_INSTANT
            ).label("deliver_at"),
            Message.max_retries,
            Message.max_delays,
        )
        .where(Message.topic_id == topic_id, Message.id > after)
        .order_by(Message.id)
        .limit(limit)
    )
    return statement if upto is None else statement.where(Message.id <= upto)


@built_once
def due_runs(dialect: Dialect, *, at_instant: bool) -> Rows:
    """What is due of a group, in the order it fell due, locked; what others lock is passed over.

    Parameters: ``of_group``, ``topic``, ``most``; and ``due`` for an instant not the present.
    """
    due = bindparam("due", type_=UTCDateTime()) if at_instant else db_now()
    return _waiting(dialect, READY, ExceptionQueue.can_run_after <= due).order_by(
        ExceptionQueue.can_run_after, ExceptionQueue.message_id
    )


def held_runs(dialect: Dialect, message_ids: Sequence[int] | None) -> Rows:
    """Held deliveries of a group by message id, locked.

    Parameters: ``of_group``, ``topic``, ``most``.
    """
    statement = _waiting(dialect, ExceptionQueue.state == "held")
    if message_ids is not None:
        statement = statement.where(ExceptionQueue.message_id.in_(message_ids))
    return statement.order_by(ExceptionQueue.message_id)


def _waiting(dialect: Dialect, *clauses: ColumnElement[bool]) -> Rows:
    """Rows of the queue with their messages: the log's, or the copy that a dead one keeps."""
    # Sub-selects, since a planner could think of a join that reads all of the log.
    mine = and_(Message.topic_id == bindparam("topic"), Message.id == ExceptionQueue.message_id)
    payload = select(dialect.payload_text(Message.payload)).where(mine).scalar_subquery()
    headers = select(dialect.payload_text(Message.headers)).where(mine).scalar_subquery()
    statement = (
        select(
            ExceptionQueue.message_id,
            ExceptionQueue.key,
            func.coalesce(payload, dialect.payload_text(ExceptionQueue.payload)).label("payload"),
            func.coalesce(headers, dialect.payload_text(ExceptionQueue.headers)).label("headers"),
            type_coerce(ExceptionQueue.published_at, PLAIN_INSTANT).label("published"),
            ExceptionQueue.max_retries,
            ExceptionQueue.max_delays,
            ExceptionQueue.attempts,
            ExceptionQueue.delays,
            ExceptionQueue.interruptions,
            ExceptionQueue.granted_retries,
            ExceptionQueue.granted_delays,
            ExceptionQueue.careful,
        )
        .where(ExceptionQueue.group_id == bindparam("of_group"), *clauses)
        .limit(bindparam("most", type_=Integer()))
    )
    return dialect.locking(statement, skip_locked=True)


@built_once
def start_runs(dialect: Dialect) -> Update:
    """Marks locked deliveries as running and counts the run, before it begins.

    Parameters: ``claimed_by``, ``lease``, document.
    """
    # The group in each row and not as a parameter: without statistics a planner takes the rows of
    # one group for few, reads them all, and looks through them for the ids.
    chosen = dialect.rows(document(), _CHOSEN, "chosen")
    return (
        update(ExceptionQueue)
        .where(
            ExceptionQueue.group_id == chosen.c.group_id,
            ExceptionQueue.message_id == chosen.c.message_id,
        )
        .values(
            on_hold=ExceptionQueue.state == "held",
            state="running",
            attempts=ExceptionQueue.attempts + 1,
            owner=bindparam("claimed_by"),
            lease_until=db_after(bindparam("lease", type_=Double())),
            claimed_at=db_now(),
        )
        .execution_options(synchronize_session=False)
    )


@built_once
def bury(dialect: Dialect) -> Update:
    """Makes locked deliveries dead, each with the copy of its message. Parameter: document."""
    chosen = dialect.rows(document(), _BURIED, "chosen")
    return (
        update(ExceptionQueue)
        .where(
            ExceptionQueue.group_id == chosen.c.group_id,
            ExceptionQueue.message_id == chosen.c.message_id,
        )
        .values(
            state="dead",
            payload=cast(chosen.c.payload, Json()),
            headers=cast(chosen.c.headers, Json()),
        )
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
