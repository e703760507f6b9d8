"""SQLite: one writer at a time, so ids commit in order."""

import sqlite3
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Connection,
    Double,
    Engine,
    FromClause,
    Integer,
    Label,
    SQLColumnExpression,
    Text,
    column,
    event,
    func,
    literal,
    literal_column,
    select,
    table,
    type_coerce,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import SingletonThreadPool, StaticPool
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import SelectBase
from sqlalchemy.types import TypeEngine

from vulkan_orm.columns import Json
from vulkan_orm.diagnostics import CONNECTION_SHARED, DatabaseError
from vulkan_orm.models import Base, Message, Topic
from vulkan_orm.store.clock import db_now
from vulkan_orm.store.dialects.base import Columns, Dialect, Rows

_ONE_CONNECTION = (StaticPool, SingletonThreadPool)
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class SQLite(Dialect):
    ids_commit_out_of_order = False
    single_writer = True
    settings = ("PRAGMA journal_mode = WAL", "PRAGMA busy_timeout = 10000")

    def insert(self, table: type[Base]) -> Any:
        return sqlite.insert(table)

    def rows(self, document: ColumnElement[str], columns: Columns, name: str) -> FromClause:
        members = func.json_each(document).table_valued("key", "value", name="member")
        typed = [_member(members.c.value, each, kind) for each, kind in columns.items()]
        return select(*typed).order_by(members.c.key).subquery(name)

    def payload_text(self, payload: SQLColumnExpression[Any]) -> ColumnElement[str]:
        return type_coerce(payload, Text)

    def instant(self, value: datetime) -> str:
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")

    def later(
        self, one: ColumnElement[datetime], other: ColumnElement[datetime]
    ) -> ColumnElement[datetime]:
        return func.max(one, func.coalesce(other, one))

    def seconds_since(self, instant: SQLColumnExpression[Any]) -> ColumnElement[float]:
        seconds: ColumnElement[float] = (_days(db_now()) - _days(instant)) * literal(86_400.0)
        return seconds

    def locking(self, statement: Rows, *, skip_locked: bool = False) -> Rows:
        return statement

    def drawn_id(self, place: ColumnElement[int]) -> ColumnElement[int]:
        return last_id() + place

    def topic_with_fence(self, topic: ColumnElement[str], installation: int) -> SelectBase:
        return select(Topic.id.label("id")).where(Topic.name == topic)

    def prepare(self, engine: Engine) -> None:
        # The stdlib driver sends no BEGIN before a SAVEPOINT, whose RELEASE would then commit.
        if not event.contains(engine, "savepoint", _begin_first):
            event.listen(engine, "savepoint", _begin_first)

    def check_idle(self, engine: Engine) -> None:
        pool = engine.pool
        if isinstance(pool, StaticPool):
            # Not taken from the pool: giving it back would roll back what is open on it.
            _refuse_company(pool.connection.driver_connection)
        elif isinstance(pool, SingletonThreadPool):
            # Taken twice in one thread, it is only counted, and left alone by the first return.
            taken = engine.raw_connection()
            try:
                _refuse_company(taken.driver_connection)
            finally:
                taken.close()

    def begin_write(self, connection: Connection) -> None:
        # A transaction that began as a reader cannot always become a writer by waiting. Nothing
        # has happened in this one yet, so one that an engine's own settings began can go.
        driver = connection.connection.driver_connection
        if isinstance(connection.engine.pool, _ONE_CONNECTION):
            _refuse_company(driver)
        elif _in_transaction(driver):
            connection.exec_driver_sql("ROLLBACK")
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def shared(self, engine: Engine) -> bool:
        url = engine.url
        in_memory = url.database in (None, "", ":memory:") or "memory" in str(url.query)
        return not (in_memory or isinstance(engine.pool, _ONE_CONNECTION))

    def is_contention(self, error: DBAPIError) -> bool:
        code = getattr(error.orig, "sqlite_errorcode", None)
        return code is not None and code & 0xFF in _BUSY


def _in_transaction(driver: Any) -> bool:
    return bool(getattr(driver, "in_transaction", False))


def _refuse_company(driver: Any) -> None:
    if _in_transaction(driver):
        raise DatabaseError(
            CONNECTION_SHARED, "Another transaction is open on the only connection."
        )


def _begin_first(connection: Connection, _name: str | None) -> None:
    if not _in_transaction(connection.connection.driver_connection):
        connection.exec_driver_sql("BEGIN")


def _days(instant: SQLColumnExpression[Any]) -> ColumnElement[float]:
    return func.julianday(instant, type_=Double())


def _member(value: ColumnElement[str], name: str, kind: TypeEngine[Any]) -> Label[Any]:
    # The arrow gives a member as JSON text, digits of a number untouched; json_extract as a value.
    path = f"$.{name}"
    found = value.op("->")(path) if isinstance(kind, Json) else func.json_extract(value, path)
    return type_coerce(found, Text() if isinstance(kind, Json) else kind).label(name)


def last_id() -> ColumnElement[int]:
    """The highest message id that was ever handed out; 0 before the first."""
    sequence = table("sqlite_sequence", column("name"), column("seq", Integer()))
    highest = select(sequence.c.seq).where(sequence.c.name == Message.__tablename__)
    return func.coalesce(highest.scalar_subquery(), literal_column("0"))
