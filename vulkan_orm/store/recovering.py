"""Statements that find what dead workers left behind."""

from sqlalchemy import select

from vulkan_orm.models import ExceptionQueue
from vulkan_orm.store.claiming import RUNNING
from vulkan_orm.store.clock import db_now
from vulkan_orm.store.dialects.base import Dialect, Rows


def expired_runs(dialect: Dialect, limit: int) -> Rows:
    """Running deliveries whose lease has ended, locked; those that somebody settles are skipped."""
    statement = (
        select(
            ExceptionQueue.group_id,
            ExceptionQueue.message_id,
            ExceptionQueue.attempts,
            ExceptionQueue.owner,
            ExceptionQueue.careful,
            ExceptionQueue.on_hold,
            ExceptionQueue.claimed_at,
            dialect.seconds_since(ExceptionQueue.claimed_at).label("seconds"),
        )
        .where(RUNNING, ExceptionQueue.lease_until < db_now())
        .order_by(ExceptionQueue.lease_until)
        .limit(limit)
    )
    return dialect.locking(statement, skip_locked=True)
