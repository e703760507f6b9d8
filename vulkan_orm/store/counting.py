"""Statements that only ask."""

from sqlalchemy import Select, and_, func, select

from vulkan_orm.models import ConsumerGroup, ExceptionQueue, Message, Meta, RangeClaim, Topic
from vulkan_orm.store.clock import db_now
from vulkan_orm.store.dialects.base import Rows


def meta() -> Rows:
    return select(Meta.schema_version, Meta.identity, Meta.installation)


def topic_names() -> Select[str]:
    return select(Topic.name).order_by(Topic.name)


def group_names(topic: str) -> Select[str]:
    return (
        select(ConsumerGroup.name)
        .join(Topic, Topic.id == ConsumerGroup.topic_id)
        .where(Topic.name == topic)
        .order_by(ConsumerGroup.name)
    )


def groups() -> Rows:
    return (
        select(
            Topic.name.label("topic"),
            Topic.id.label("topic_id"),
            ConsumerGroup.name.label("group"),
            ConsumerGroup.id.label("group_id"),
            ConsumerGroup.position,
        )
        .join(ConsumerGroup, ConsumerGroup.topic_id == Topic.id)
        .order_by(Topic.name, ConsumerGroup.name)
    )


def ahead(group_id: int) -> Select[int]:
    """Messages beyond the group's position."""
    return (
        select(func.count())
        .select_from(Message)
        .join(ConsumerGroup, ConsumerGroup.topic_id == Message.topic_id)
        .where(ConsumerGroup.id == group_id, Message.id > ConsumerGroup.position)
    )


def in_ranges(group_id: int) -> Select[int]:
    """Messages in the group's open ranges that have not been done."""
    open_range = and_(Message.id > RangeClaim.progress, Message.id <= RangeClaim.last)
    return (
        select(func.count())
        .select_from(RangeClaim)
        .join(ConsumerGroup, ConsumerGroup.id == RangeClaim.group_id)
        .join(Message, and_(Message.topic_id == ConsumerGroup.topic_id, open_range))
        .where(RangeClaim.group_id == group_id)
    )


def states(group_id: int) -> Select[str, int]:
    return (
        select(ExceptionQueue.state, func.count().label("amount"))
        .where(ExceptionQueue.group_id == group_id)
        .group_by(ExceptionQueue.state)
    )


def newest(topic_id: int) -> Select[int]:
    return select(func.max(Message.id)).where(Message.topic_id == topic_id)


def now() -> Rows:
    return select(db_now())
