"""Statements for what an operator does to a delivery. Each acts only on the state it names."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, delete, select, update
from sqlalchemy.sql.dml import ReturningDelete, ReturningUpdate
from sqlalchemy.sql.elements import ColumnElement

from vulkan_orm.core.budget import delays_asked
from vulkan_orm.models import DeliveryLog, ExceptionQueue
from vulkan_orm.store.clock import db_now


def _chosen(
    group_id: int, message_ids: Sequence[int] | None, states: tuple[str, ...]
) -> list[ColumnElement[bool]]:
    clauses = [ExceptionQueue.group_id == group_id, ExceptionQueue.state.in_(states)]
    if message_ids is not None:
        clauses.append(ExceptionQueue.message_id.in_(message_ids))
    return clauses


def _changed(
    group_id: int, message_ids: Sequence[int] | None, states: tuple[str, ...], **values: Any
) -> ReturningUpdate[Any]:
    return (
        update(ExceptionQueue)
        .where(*_chosen(group_id, message_ids, states))
        .values(**values)
        .returning(ExceptionQueue.message_id)
        .execution_options(synchronize_session=False)
    )


def redrive(group_id: int, message_ids: Sequence[int] | None) -> ReturningUpdate[Any]:
    """Dead or held deliveries become ready with a fresh budget; the counters stay."""
    return _changed(
        group_id,
        message_ids,
        ("dead", "held"),
        state="ready",
        can_run_after=db_now(),
        granted_retries=ExceptionQueue.spent,
        granted_delays=delays_asked(ExceptionQueue.delays, ExceptionQueue.interruptions),
    )


def hold(group_id: int, message_ids: Sequence[int] | None) -> ReturningUpdate[Any]:
    return _changed(group_id, message_ids, ("ready", "dead"), state="held")


def release(group_id: int, message_ids: Sequence[int] | None) -> ReturningUpdate[Any]:
    return _changed(group_id, message_ids, ("held",), state="ready")


def discard(group_id: int, message_ids: Sequence[int] | None) -> ReturningDelete[Any]:
    return (
        delete(ExceptionQueue)
        .where(*_chosen(group_id, message_ids, ("ready", "held", "dead")))
        .returning(ExceptionQueue.message_id)
        .execution_options(synchronize_session=False)
    )


def dead(group_id: int, *, limit: int, after: int) -> Select[ExceptionQueue]:
    """Dead deliveries by message id, a page at a time."""
    return (
        select(ExceptionQueue)
        .where(
            ExceptionQueue.group_id == group_id,
            ExceptionQueue.state == "dead",
            ExceptionQueue.message_id > after,
        )
        .order_by(ExceptionQueue.message_id)
        .limit(limit)
    )


def history(group_id: int, message_id: int) -> Select[DeliveryLog]:
    """The log of one delivery."""
    return (
        select(DeliveryLog)
        .where(DeliveryLog.group_id == group_id, DeliveryLog.message_id == message_id)
        .order_by(DeliveryLog.id)
    )
