"""The reader's half of the fence, for databases whose ids commit out of order.

Two statements, to be run one after the other and never as one: with a single snapshot for the
look and the read, a message that commits in between is skipped.
"""

from typing import Any

from sqlalchemy import BigInteger, Select, String, and_, cast, column, func, literal, select, table

from vulkan_orm.models import MESSAGE_ID
from vulkan_orm.store.building import built_once
from vulkan_orm.store.dialects.base import Rows

_LOCKS = table(
    "pg_locks",
    column("locktype"),
    column("database"),
    column("classid"),
    column("objid"),
    column("objsubid"),
    column("virtualtransaction", String()),
    column("pid"),
    column("mode"),
    column("granted"),
)
_DATABASES = table("pg_database", column("oid"), column("datname"))
_SEQUENCES = table("pg_sequence", column("seqrelid"), column("seqcache", BigInteger()))
_ACTIVITY = table(
    "pg_stat_activity",
    column("pid"),
    column("application_name", String()),
    column("state", String()),
    column("xact_start"),
)


@built_once
def log_end() -> Rows:
    """How far the sequence is, and whether what it says can be relied on here."""
    sequence = table(
        MESSAGE_ID.name,
        column("last_value", BigInteger()),
        column("is_called"),
        schema=MESSAGE_ID.schema,
    )
    name = (
        literal(MESSAGE_ID.name)
        if not MESSAGE_ID.schema
        else literal(f"{MESSAGE_ID.schema}.{MESSAGE_ID.name}")
    )
    return select(
        sequence.c.last_value,
        sequence.c.is_called,
        _SEQUENCES.c.seqcache,
        func.pg_is_in_recovery().label("on_standby"),
    ).select_from(sequence.join(_SEQUENCES, _SEQUENCES.c.seqrelid == func.to_regclass(name)))


def _publishing(installation: int, topic_id: int) -> Any:
    database = (
        select(_DATABASES.c.oid)
        .where(_DATABASES.c.datname == func.current_database())
        .scalar_subquery()
    )
    return and_(
        _LOCKS.c.locktype == "advisory",
        _LOCKS.c.database == database,
        cast(_LOCKS.c.classid, BigInteger) == installation,
        cast(_LOCKS.c.objid, BigInteger) == topic_id,
        _LOCKS.c.objsubid == 2,
        _LOCKS.c.mode == "ShareLock",
        _LOCKS.c.granted,
        # A transaction of our own that published must not wait for itself.
        _LOCKS.c.pid.is_distinct_from(func.pg_backend_pid()),
    )


@built_once
def publishers(installation: int, topic_id: int) -> Select[str]:
    """The transactions that published to the topic and are still open."""
    return select(_LOCKS.c.virtualtransaction).where(_publishing(installation, topic_id))


def publishers_named(installation: int, topic_id: int) -> Rows:
    """The same, with what helps to find them, the oldest first."""
    age = func.extract("epoch", func.clock_timestamp() - _ACTIVITY.c.xact_start)
    return (
        select(
            _LOCKS.c.pid,
            _ACTIVITY.c.application_name,
            _ACTIVITY.c.state,
            age.label("seconds"),
        )
        .select_from(_LOCKS.outerjoin(_ACTIVITY, _ACTIVITY.c.pid == _LOCKS.c.pid))
        .where(_publishing(installation, topic_id))
        .order_by(age.desc())
    )
