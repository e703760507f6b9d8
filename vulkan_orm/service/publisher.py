"""Appending messages to a topic, inside the caller's transaction."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import Connection, Insert, Select, TwoPhaseTransaction
from sqlalchemy.engine import Result
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from vulkan_orm.diagnostics import IDEMPOTENCY_CONFLICT, DatabaseError
from vulkan_orm.models import Base, Message
from vulkan_orm.service.codec import Codec, to_json
from vulkan_orm.service.database import Database, connection_of, database_of, ids
from vulkan_orm.service.drafts import Draft, check
from vulkan_orm.store import clock, publishing
from vulkan_orm.store.dialects import Dialect
from vulkan_orm.store.rows import COLUMNS, Row, WithOptions, copied, member

T = TypeVar("T")
MAX_ROWS = 5_000
# Characters; a JSON document on PostgreSQL may have 256 MB, as it is stored there.
MAX_DOCUMENT = 16_000_000
# Measured: of 1,000 COPY is as quick as a document, of 3,000 a fifth quicker, of 12,000 a quarter.
MIN_COPIED = 2_000
_SNAPSHOT_LEVELS = ("REPEATABLE READ", "SERIALIZABLE")


def publish(
    session: Session,
    topic: str,
    codec: Codec[T],
    messages: Iterable[T | Draft[T]],
    *,
    retention: timedelta | None = None,
    hints: bool = True,
) -> list[int]:
    """Appends the messages in order and returns their ids in the same order.

    Everything is checked before the first statement, so a refusal harms no transaction.

    :param hints: whether workers that sleep are woken by the commit.
    """
    rows = [check(each, codec, retention) for each in messages]
    if not rows:
        return []
    connection = connection_of(session)
    database = database_of(session)
    if not hints or _in_two_phases(connection):
        database = replace(database, dialect=database.dialect.silent())
    found: list[int] = []
    # Plain and keyed messages by turns, each in a few statements, so that all are in order.
    for keyed, part in groupby(rows, lambda row: _key(row) is not None):
        append = _append_once if keyed else _append
        found += append(connection, database, topic, list(part))
    return found


def _key(row: Row) -> str | None:
    return row.idempotency_key if isinstance(row, WithOptions) else None


def _in_two_phases(connection: Connection) -> bool:
    # PostgreSQL refuses to prepare a transaction that gives a hint.
    return isinstance(connection.get_transaction(), TwoPhaseTransaction)


@lru_cache(maxsize=64)
def _appending(dialect: Dialect, installation: int, ids_given: bool, _offset: float) -> Insert:
    """The statement, built once: building it takes longer than running it."""
    return publishing.append(dialect, installation, ids_given=ids_given)


@lru_cache(maxsize=64)
def _drawing(dialect: Dialect, installation: int, _offset: float) -> Select[Any, Any, Any]:
    return publishing.draw(dialect, installation)


def _append(
    connection: Connection, database: Database, topic: str, rows: Sequence[Row]
) -> list[int]:
    if len(rows) >= MIN_COPIED and database.dialect.copies(connection):
        return _copy(connection, database, topic, rows)
    return _append_members(
        connection, database, topic, [member(row, database.dialect) for row in rows]
    )


def _copy(connection: Connection, database: Database, topic: str, rows: Sequence[Row]) -> list[int]:
    dialect = database.dialect
    statement = _drawing(dialect, database.installation, clock.offset())
    parameters = {"topic": topic, "count": len(rows)}
    drawn = connection.execute(statement, parameters).one_or_none()
    if drawn is None:
        connection.execute(publishing.add_topic(dialect, topic))
        drawn = connection.execute(statement, parameters).one()
    # Nothing says in which order an array is made.
    found = sorted(drawn.ids)
    lines = copied(rows, found, drawn.topic_id, drawn.published_at)
    dialect.copy(connection, Base.metadata.tables[Message.__tablename__], COLUMNS, lines)
    return found


def _append_members(
    connection: Connection,
    database: Database,
    topic: str,
    members: Iterable[str],
    *,
    ids_given: bool = False,
) -> list[int]:
    statement = _appending(database.dialect, database.installation, ids_given, clock.offset())
    found: list[int] = []
    for document in _documents(members):
        parameters = {"topic": topic, "document": document}
        got = ids(connection.execute(statement, parameters))
        if not got:
            connection.execute(publishing.add_topic(database.dialect, topic))
            got = ids(connection.execute(statement, parameters))
        # Ids are drawn in the order of the rows; the order of RETURNING is nobody's promise.
        found += sorted(got)
    return found


def _documents(members: Iterable[str]) -> Iterator[str]:
    """JSON arrays of the members, none so large that a database would refuse it."""
    part: list[str] = []
    size = 0
    for each in members:
        if part and (len(part) >= MAX_ROWS or size + len(each) > MAX_DOCUMENT):
            yield f"[{','.join(part)}]"
            part, size = [], 0
        part.append(each)
        size += len(each)
    if part:
        yield f"[{','.join(part)}]"


def _append_once(
    connection: Connection, database: Database, topic: str, rows: Sequence[Row]
) -> list[int]:
    first: dict[str, Row] = {}
    keys = [key for row in rows if (key := _key(row)) is not None]
    for key, row in zip(keys, rows, strict=True):
        first.setdefault(key, row)
    wanted = list(first)
    new = _take_keys(connection, database, topic, wanted)
    known = _taken(connection, topic, [key for key in wanted if key not in new])
    if not new and not known:
        # Neither new nor taken: the topic itself is missing.
        connection.execute(publishing.add_topic(database.dialect, topic))
        new = _take_keys(connection, database, topic, wanted)
    given = [member(first[key], database.dialect, message_id) for key, message_id in new.items()]
    _append_members(connection, database, topic, given, ids_given=True)
    found = known | new
    return [found[key] for key in keys]


def _take_keys(
    connection: Connection, database: Database, topic: str, keys: Sequence[str]
) -> dict[str, int]:
    statement = publishing.take_keys(database.dialect, database.installation)
    places = [{"place": place, "key": key} for place, key in enumerate(keys, start=1)]
    document = to_json(places, "idempotency_key")
    parameters = {"topic": topic, "document": document}
    concurrent = database.dialect.ids_commit_out_of_order
    if not concurrent or connection.get_isolation_level() not in _SNAPSHOT_LEVELS:
        return _ids_by_key(connection.execute(statement, parameters))
    return _take_keys_of_snapshot(connection, database, statement, parameters)


def _take_keys_of_snapshot(
    connection: Connection, database: Database, statement: Any, parameters: dict[str, str]
) -> dict[str, int]:
    """With a snapshot, a key that somebody took since cannot be seen, only collided with."""
    try:
        # On the connection: a savepoint of the session would flush the caller's objects.
        with connection.begin_nested():
            return _ids_by_key(connection.execute(statement, parameters))
    except DBAPIError as error:
        if database.dialect.is_contention(error):
            raise DatabaseError(
                IDEMPOTENCY_CONFLICT, "Another transaction took an idempotency key of this publish."
            ) from error
        raise


def _taken(connection: Connection, topic: str, keys: list[str]) -> dict[str, int]:
    if not keys:
        return {}
    return _ids_by_key(connection.execute(publishing.keys_taken(keys), {"topic": topic}))


def _ids_by_key(found: Result[Any]) -> dict[str, int]:
    return {row.key: row.message_id for row in found}
