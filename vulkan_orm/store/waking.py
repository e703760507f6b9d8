"""Statements by which an idle worker learns whether there is something to do, and sleeps."""

from sqlalchemy import Update, and_, or_, select, update

from vulkan_orm.models import ConsumerGroup, ExceptionQueue, Message, RangeClaim
from vulkan_orm.store.claiming import READY, nobody_holds
from vulkan_orm.store.clock import db_after, db_now
from vulkan_orm.store.dialects.base import Dialect, Rows


def look(dialect: Dialect, group_id: int, topic_id: int) -> Rows:
    """One row: what a group's idle worker has to know, at no cost that grows with the log.

    ``unread`` is the first message beyond the position, whether or not the fence lets it be read;
    ``overdue`` the seconds since the first retry fell due, negative where it has yet to.
    """
    unread = (
        select(Message.id)
        .where(Message.topic_id == topic_id, Message.id > ConsumerGroup.position)
        .order_by(Message.id)
        .limit(1)
        .correlate(ConsumerGroup)
        .scalar_subquery()
    )
    waiting = select(RangeClaim.id).where(RangeClaim.group_id == group_id, nobody_holds()).exists()
    first_due = (
        select(ExceptionQueue.can_run_after)
        .where(ExceptionQueue.group_id == group_id, READY)
        .order_by(ExceptionQueue.can_run_after)
        .limit(1)
        .scalar_subquery()
    )
    return select(
        ConsumerGroup.position,
        unread.label("unread"),
        waiting.label("waiting"),
        dialect.seconds_since(first_due).label("overdue"),
        ConsumerGroup.sleeper,
        dialect.seconds_since(ConsumerGroup.sleeps_until).label("overslept"),
    ).where(ConsumerGroup.id == group_id)


def sleep(dialect: Dialect, group_id: int, channel: str, seconds: float) -> Update:
    """Names the one whom publishers wake, unless another is named for now."""
    free = or_(
        ConsumerGroup.sleeper.is_(None),
        ConsumerGroup.sleeper == channel,
        ConsumerGroup.sleeps_until < db_now(),
    )
    return (
        update(ConsumerGroup)
        .where(ConsumerGroup.id == group_id, free, dialect.at_ease())
        .values(sleeper=channel, sleeps_until=db_after(seconds))
    )


def rise(dialect: Dialect, group_id: int, channel: str) -> Update:
    """Takes the name back, so that publishers need not give hints."""
    mine = and_(ConsumerGroup.id == group_id, ConsumerGroup.sleeper == channel)
    return (
        update(ConsumerGroup).where(mine, dialect.at_ease()).values(sleeper=None, sleeps_until=None)
    )
