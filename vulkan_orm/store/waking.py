"""Statements by which an idle worker learns whether there is something to do, and sleeps."""

from sqlalchemy import Update, case, func, or_, select, update

from vulkan_orm.models import MAX_SLEEPERS, ConsumerGroup, ExceptionQueue, Message, RangeClaim
from vulkan_orm.store.building import built_once
from vulkan_orm.store.claiming import READY, nobody_holds
from vulkan_orm.store.clock import db_after, db_now
from vulkan_orm.store.dialects.base import Dialect, Rows


@built_once
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
        ConsumerGroup.sleepers,
        dialect.seconds_since(ConsumerGroup.sleeps_until).label("overslept"),
    ).where(ConsumerGroup.id == group_id)


@built_once
def sleep(dialect: Dialect, group_id: int, channel: str, seconds: float) -> Update:
    """Names one more whom publishers wake, and lets all that are named sleep for so long."""
    ended = ConsumerGroup.sleeps_until < db_now()
    others = case((ended, None), else_=func.array_remove(ConsumerGroup.sleepers, channel))
    named = func.array_append(others, channel)
    room = or_(ended, func.coalesce(func.cardinality(others), 0) < MAX_SLEEPERS)
    return (
        update(ConsumerGroup)
        .where(ConsumerGroup.id == group_id, room, dialect.at_ease())
        .values(sleepers=named, sleeps_until=db_after(seconds))
    )


@built_once
def rise(dialect: Dialect, group_id: int, channel: str) -> Update:
    """Takes a name back."""
    return (
        update(ConsumerGroup)
        .where(ConsumerGroup.id == group_id, dialect.at_ease())
        .values(sleepers=func.array_remove(ConsumerGroup.sleepers, channel))
    )
