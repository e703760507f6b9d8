"""Statements that write what became of deliveries: one statement a table, however many rows."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Delete,
    Double,
    Insert,
    String,
    Text,
    Update,
    bindparam,
    case,
    cast,
    delete,
    func,
    insert,
    literal_column,
    select,
    tuple_,
    update,
)
from sqlalchemy.sql.dml import ReturningDelete, ReturningUpdate
from sqlalchemy.sql.elements import ColumnElement

from vulkan_orm.columns import Json, UTCDateTime
from vulkan_orm.models import DeliveryLog, ExceptionQueue, RangeClaim
from vulkan_orm.store.building import built_once
from vulkan_orm.store.clock import db_after, db_now
from vulkan_orm.store.dialects.base import Columns, Dialect, Rows
from vulkan_orm.store.publishing import document

_RUN: Columns = {
    "group_id": BigInteger(),
    "message_id": BigInteger(),
    "attempts": BigInteger(),
    "owner": String(),
}
_VERDICT: Columns = {
    **_RUN,
    "state": String(),
    "delays": BigInteger(),
    "interruptions": BigInteger(),
    "wait": Double(),
    "until": UTCDateTime(),
    "careful": Boolean(),
    "last_error": Text(),
    # JSON in text, so that it goes into the document without being read.
    "payload": Text(),
    "headers": Text(),
}
_FIRST: Columns = {
    **_VERDICT,
    "key": String(),
    "max_retries": BigInteger(),
    "max_delays": BigInteger(),
    "published_at": UTCDateTime(),
}
_COPIED = (
    "group_id",
    "message_id",
    "key",
    "state",
    "attempts",
    "delays",
    "interruptions",
    "max_retries",
    "max_delays",
    "careful",
    "published_at",
    "last_error",
)
_LOG: Columns = {
    "group_id": BigInteger(),
    "message_id": BigInteger(),
    "attempt": BigInteger(),
    "outcome": String(),
    "became": String(),
    "duration": Double(),
    "owner": String(),
}
_ERROR: Columns = {
    "error_code": String(),
    "error_type": String(),
    "error_text": Text(),
    "traceback": Text(),
}


def _can_run_after(dialect: Dialect, row: Any) -> ColumnElement[Any]:
    return dialect.later(db_after(row.wait), row.until)


@built_once
def queue_first_failures(dialect: Dialect) -> Insert:
    """Rows for deliveries that left the log without simply succeeding. Parameter: document."""
    rows = dialect.rows(document(), _FIRST, "report")
    zero: ColumnElement[int] = literal_column("0")
    values: dict[str, ColumnElement[Any]] = {
        **{name: rows.c[name] for name in _COPIED},
        "payload": cast(rows.c.payload, Json()),
        "headers": cast(rows.c.headers, Json()),
        "can_run_after": _can_run_after(dialect, rows.c),
        "granted_retries": zero,
        "granted_delays": zero,
        "on_hold": literal_column("false", Boolean()),
        "first_failed_at": db_now(),
    }
    return insert(ExceptionQueue).from_select(list(values), select(*values.values()))


@built_once
def settle_runs(dialect: Dialect) -> ReturningUpdate[Any]:
    """What became of retries that are not done. Returns the ids it still owned.

    Parameter: document.
    """
    rows = dialect.rows(document(), _VERDICT, "report")
    return (
        update(ExceptionQueue)
        .where(*_still_owned(rows.c))
        .values(
            state=rows.c.state,
            delays=ExceptionQueue.delays + rows.c.delays,
            interruptions=ExceptionQueue.interruptions + rows.c.interruptions,
            can_run_after=_can_run_after(dialect, rows.c),
            careful=rows.c.careful,
            on_hold=literal_column("false", Boolean()),
            last_error=func.coalesce(rows.c.last_error, ExceptionQueue.last_error),
            payload=func.coalesce(cast(rows.c.payload, Json()), ExceptionQueue.payload),
            headers=func.coalesce(cast(rows.c.headers, Json()), ExceptionQueue.headers),
            owner=None,
            lease_until=None,
        )
        .returning(ExceptionQueue.message_id)
        .execution_options(synchronize_session=False)
    )


def _still_owned(row: Any) -> tuple[ColumnElement[bool], ...]:
    # What has an owner is running. To ask for the state as well would invite a planner to look
    # through the index of leases, in which every run of late has left an entry.
    return (
        ExceptionQueue.group_id == row.group_id,
        ExceptionQueue.message_id == row.message_id,
        ExceptionQueue.attempts == row.attempts,
        ExceptionQueue.owner == row.owner,
    )


@built_once
def finish_runs(dialect: Dialect) -> ReturningDelete[Any]:
    """Deletes the rows of retries that are done. Returns the ids it still owned.

    Parameter: document.
    """
    rows = dialect.rows(document(), _RUN, "report")
    run = tuple_(
        ExceptionQueue.group_id,
        ExceptionQueue.message_id,
        ExceptionQueue.attempts,
        ExceptionQueue.owner,
    )
    return (
        delete(ExceptionQueue)
        .where(run.in_(select(*rows.c)))
        .returning(ExceptionQueue.message_id)
        .execution_options(synchronize_session=False)
    )


@built_once
def log_outcomes(dialect: Dialect) -> Insert:
    """Rows of the delivery log, which refer to errors by number. Parameters: document, errors."""
    columns = {**_LOG, "age": Double(), "error": BigInteger()}
    rows = dialect.rows(document(), columns, "report")
    errors = dialect.rows(document("errors"), {**_ERROR, "number": BigInteger()}, "error")
    values: dict[str, ColumnElement[Any]] = {
        **{name: rows.c[name] for name in _LOG},
        **{name: errors.c[name] for name in _ERROR},
        # A worker measures how long ago the run began; when that was, the database says.
        "started_at": db_after(-rows.c.age),
        "logged_at": db_now(),
    }
    found = select(*values.values()).outerjoin_from(rows, errors, errors.c.number == rows.c.error)
    return insert(DeliveryLog).from_select(list(values), found)


@built_once
def finish_range() -> Delete:
    """Ends a range. Parameters: ``range``, ``held_by``, ``before``, as for :func:`move_range`."""
    return delete(RangeClaim).where(*_still_at())


def _still_at() -> tuple[ColumnElement[bool], ...]:
    return (
        RangeClaim.id == bindparam("range"),
        RangeClaim.owner == bindparam("held_by"),
        RangeClaim.progress < bindparam("before"),
    )


@built_once
def move_range() -> Update:
    """Records how far a range is done, and which message runs next (careful mode).

    Parameters: ``range``, ``held_by``, ``before``: the first message reported, since what is
    recorded already is not recorded again; ``done_to``, ``runs``, ``lease``.
    """
    return (
        update(RangeClaim)
        .where(*_still_at())
        .values(
            progress=bindparam("done_to"),
            running=bindparam("runs", type_=BigInteger()),
            lease_until=db_after(bindparam("lease", type_=Double())),
        )
    )


@built_once
def hand_back_range() -> Update:
    """Leaves the rest of a range to whoever claims next; what is recorded as done stays so.

    Parameters: ``range``, ``held_by``, ``before``, ``done_to``.
    """
    progress = bindparam("done_to", type_=BigInteger())
    done = case((RangeClaim.progress > progress, RangeClaim.progress), else_=progress)
    return (
        update(RangeClaim)
        .where(*_still_at())
        .values(progress=done, running=None, owner=None, lease_until=None)
    )


def range_progress(range_id: int, owner: str) -> Rows:
    return select(RangeClaim.progress).where(RangeClaim.id == range_id, RangeClaim.owner == owner)


def range_of(dialect: Dialect, group_id: int, message_id: int, owner: str) -> Rows:
    """The range in which an owner has a message still to do, locked until the outcome commits."""
    statement = select(RangeClaim.id).where(
        RangeClaim.group_id == group_id,
        RangeClaim.owner == owner,
        RangeClaim.progress < message_id,
        RangeClaim.last >= message_id,
    )
    return dialect.locking(statement)


def running(group_id: int, message_id: int, owner: str, attempts: int) -> Rows:
    """The run of a retry, while its owner has it."""
    return select(ExceptionQueue.message_id).where(
        ExceptionQueue.group_id == group_id,
        ExceptionQueue.message_id == message_id,
        ExceptionQueue.owner == owner,
        ExceptionQueue.attempts == attempts,
        ExceptionQueue.state == "running",
    )
