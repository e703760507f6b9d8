"""PostgreSQL."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    Connection,
    Double,
    FromClause,
    Integer,
    Label,
    SQLColumnExpression,
    Table,
    Text,
    column,
    func,
    literal_column,
    select,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import SelectBase

from vulkan_orm.models import MAX_SLEEPERS, MESSAGE_ID, Base, ConsumerGroup, Topic
from vulkan_orm.store.clock import db_now
from vulkan_orm.store.dialects import copying
from vulkan_orm.store.dialects.base import Columns, Dialect, Rows

_CONTENTION = frozenset({"40001", "40P01", "55P03"})


class PostgreSQL(Dialect):
    ids_commit_out_of_order = True
    single_writer = False
    writes_while_reading = True
    hearing_drivers = frozenset({"psycopg", "psycopg_async", "asyncpg"})
    worker_isolation = "READ COMMITTED"

    def __init__(self, *, silent: bool = False) -> None:
        self._silent = silent

    def insert(self, table: type[Base]) -> Any:
        return postgresql.insert(table)

    def rows(self, document: ColumnElement[str], columns: Columns, name: str) -> FromClause:
        typed = [column(each, kind) for each, kind in columns.items()]
        function = func.jsonb_to_recordset(sql_cast(document, JSONB))
        return cast(
            FromClause,
            function.table_valued(*typed, name=name).render_derived(with_types=True),
        )

    def payload_text(self, payload: SQLColumnExpression[Any]) -> ColumnElement[str]:
        return sql_cast(payload, Text)

    def instant(self, value: datetime) -> str:
        return value.isoformat()

    def later(
        self, one: ColumnElement[datetime], other: ColumnElement[datetime]
    ) -> ColumnElement[datetime]:
        return func.greatest(one, other)

    def seconds_since(self, instant: SQLColumnExpression[Any]) -> ColumnElement[float]:
        return sql_cast(func.extract("epoch", db_now() - instant), Double)

    def drawn_id(self, place: ColumnElement[int]) -> ColumnElement[int]:
        return MESSAGE_ID.next_value()

    def topic_with_fence(self, topic: ColumnElement[str], installation: int) -> SelectBase:
        # Materialized, so that the lock is taken before the row is there to draw an id for.
        lock = func.pg_advisory_xact_lock_shared(
            sql_cast(installation, Integer), sql_cast(Topic.id, Integer)
        )
        owed = [lock.label("fence")] if self._silent else [lock.label("fence"), _hints()]
        fence = (
            select(Topic.id.label("id"), *owed)
            .where(Topic.name == topic)
            .cte("fence")
            .prefix_with("MATERIALIZED")
        )
        # Asked for by name, so that no planner leaves them out.
        there = [fence.c[each.name].is_not(None) for each in owed]
        return select(sql_cast(fence.c.id, BigInteger).label("id")).where(*there)

    def one_awake(self) -> Mapping[str, Any]:
        return {"sleepers": ConsumerGroup.sleepers[2:MAX_SLEEPERS]}

    def silent(self) -> Dialect:
        return _SILENT

    def hint(self, channel: str) -> Rows:
        return select(func.pg_notify(channel, ""))

    def at_ease(self) -> ColumnElement[bool]:
        return func.set_config("synchronous_commit", "off", literal_column("true")).is_not(None)

    def materialized(self, statement: SelectBase, name: str) -> FromClause:
        return statement.cte(name).prefix_with("MATERIALIZED")

    def copies(self, connection: Connection) -> bool:
        return copying.is_possible(connection)

    def copy(
        self,
        connection: Connection,
        table: Table,
        columns: Sequence[str],
        parts: Iterable[bytes],
    ) -> None:
        copying.copy(connection, table, columns, parts)

    def is_contention(self, error: DBAPIError) -> bool:
        code = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
        return code in _CONTENTION


_SILENT = PostgreSQL(silent=True)


def _hints() -> Label[int]:
    """One notification for each group of the topic that has sleepers; most of the time none."""
    first = ConsumerGroup.sleepers[1]
    told = func.count(func.pg_notify(first, sql_cast(ConsumerGroup.id, Text)))
    return (
        select(told)
        .where(
            ConsumerGroup.topic_id == Topic.id,
            ConsumerGroup.sleeps_until > db_now(),
            first.is_not(None),
        )
        .correlate(Topic)
        .scalar_subquery()
        .label("hints")
    )
