"""Appending messages to a topic, inside the caller's transaction."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import groupby
from typing import Any, Generic, TypedDict, TypeVar

from sqlalchemy import Insert, TwoPhaseTransaction, inspect
from sqlalchemy.engine import Result
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from vulkan_orm.core.instants import as_delay, as_instant
from vulkan_orm.core.policy import MAX_COUNT
from vulkan_orm.diagnostics import (
    BAD_OPTION,
    BEYOND_RETENTION,
    IDEMPOTENCY_CONFLICT,
    DatabaseError,
    PayloadError,
    UsageError,
)
from vulkan_orm.models import KEY_LENGTH, Meta
from vulkan_orm.service.codec import Codec, check_headers, check_text, to_json
from vulkan_orm.service.database import Database, connection_of, database_of, ids, run
from vulkan_orm.store import clock, publishing
from vulkan_orm.store.dialects import Dialect, dialect_of

T = TypeVar("T")
MAX_ROWS = 5_000
# Characters; a JSON document on PostgreSQL may have 256 MB, as it is stored there.
MAX_DOCUMENT = 16_000_000
_SNAPSHOT_LEVELS = ("REPEATABLE READ", "SERIALIZABLE")


@dataclass(frozen=True, slots=True)
class Draft(Generic[T]):
    """A message about to be published, with options of its own.

    :param key: what the message is about; orders and supersedes within a group.
    :param deliver_at: an aware instant before which no group runs it; ``delay`` counts from the
        publish on the database's clock instead.
    :param idempotency_key: publishing it again in the topic adds nothing.
    :param max_retries: and ``max_delays``: less than a group's policy allows, never more.
    """

    payload: T
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    deliver_at: datetime | None = None
    delay: timedelta | float | None = None
    idempotency_key: str | None = None
    max_retries: int | None = None
    max_delays: int | None = None


class DraftOptions(TypedDict, total=False):
    """The options of a draft, for ``publish``."""

    key: str | None
    headers: Mapping[str, str]
    deliver_at: datetime | None
    delay: timedelta | float | None
    idempotency_key: str | None
    max_retries: int | None
    max_delays: int | None


def publish(
    session: Session,
    topic: str,
    codec: Codec[T],
    drafts: Sequence[Draft[T]],
    *,
    retention: timedelta | None = None,
    hints: bool = True,
) -> list[int]:
    """Appends the drafts in order and returns their message ids in the same order.

    Everything is checked before the first statement, so a refusal harms no transaction.

    :param hints: whether workers that sleep are woken by the commit.
    """
    dialect = dialect_of(session.get_bind(inspect(Meta)).dialect.name)
    rows = [_row(draft, codec, dialect, retention) for draft in drafts]
    if not rows:
        return []
    database = database_of(session)
    if not hints or _in_two_phases(session):
        database = replace(database, dialect=database.dialect.silent())
    found: list[int] = []
    # Plain and keyed drafts by turns, each in a few statements, so that all are in order.
    for keyed, part in groupby(zip(drafts, rows, strict=True), _has_key):
        pairs = list(part)
        part_rows = [row for _, row in pairs]
        if keyed:
            keys = [str(draft.idempotency_key) for draft, _ in pairs]
            found += _append_once(session, database, topic, part_rows, keys)
        else:
            found += _append(session, database, topic, part_rows)
    return found


def _in_two_phases(session: Session) -> bool:
    # PostgreSQL refuses to prepare a transaction that gives a hint.
    return isinstance(connection_of(session).get_transaction(), TwoPhaseTransaction)


def _has_key(pair: tuple[Draft[Any], object]) -> bool:
    return pair[0].idempotency_key is not None


def _row(
    draft: Draft[T], codec: Codec[T], dialect: Dialect, retention: timedelta | None
) -> dict[str, str]:
    """A draft as JSON texts by column, which the document joins without parsing them again."""
    row = {"payload": codec.encode(draft.payload)}
    if draft.key is not None:
        row["key"] = to_json(check_text(draft.key, "key", KEY_LENGTH), "key")
    if draft.headers:
        row["headers"] = check_headers(draft.headers)
    if draft.idempotency_key is not None:
        check_text(draft.idempotency_key, "idempotency_key", KEY_LENGTH)
    for name in ("max_retries", "max_delays"):
        limit = getattr(draft, name)
        if limit is not None:
            row[name] = str(_limit(limit, name))
    return row | _due(draft, dialect, retention)


def _limit(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
        raise UsageError(BAD_OPTION, f"{name} must be a whole number from 0 to {MAX_COUNT}.")
    return value


def _due(draft: Draft[Any], dialect: Dialect, retention: timedelta | None) -> dict[str, str]:
    if draft.deliver_at is not None and draft.delay is not None:
        raise UsageError(BAD_OPTION, "deliver_at and delay exclude each other.")
    if draft.delay is not None:
        wait = as_delay(draft.delay)
        _check_retention(wait, retention)
        return {"delay": repr(wait.total_seconds())}
    if draft.deliver_at is not None:
        instant = as_instant(draft.deliver_at)
        _check_retention(instant - datetime.now(UTC), retention)
        return {"deliver_at": f'"{dialect.instant(instant)}"'}
    return {}


def _check_retention(wait: timedelta, retention: timedelta | None) -> None:
    if retention is not None and wait >= retention:
        raise PayloadError(
            BEYOND_RETENTION, f"The topic keeps messages for {retention}; this one waits {wait}."
        )


@lru_cache(maxsize=64)
def _appending(dialect: Dialect, installation: int, ids_given: bool, _offset: float) -> Insert:
    """The statement, built once: building it takes longer than running it."""
    return publishing.append(dialect, installation, ids_given=ids_given)


def _append(
    session: Session,
    database: Database,
    topic: str,
    rows: Sequence[Mapping[str, str]],
    *,
    ids_given: bool = False,
) -> list[int]:
    statement = _appending(database.dialect, database.installation, ids_given, clock.offset())
    found: list[int] = []
    for document in _documents(rows):
        parameters = {"topic": topic, "document": document}
        got = ids(run(session, statement, parameters))
        if not got:
            run(session, publishing.add_topic(database.dialect, topic))
            got = ids(run(session, statement, parameters))
        # Ids are drawn in the order of the rows; the order of RETURNING is nobody's promise.
        found += sorted(got)
    return found


def _documents(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """JSON arrays of the rows, none so large that a database would refuse it."""
    part: list[str] = []
    size = 0
    for row in rows:
        member = "{" + ",".join(f'"{name}":{text}' for name, text in row.items()) + "}"
        if part and (len(part) >= MAX_ROWS or size + len(member) > MAX_DOCUMENT):
            yield f"[{','.join(part)}]"
            part, size = [], 0
        part.append(member)
        size += len(member)
    if part:
        yield f"[{','.join(part)}]"


def _append_once(
    session: Session,
    database: Database,
    topic: str,
    rows: Sequence[dict[str, str]],
    keys: Sequence[str],
) -> list[int]:
    first: dict[str, dict[str, str]] = {}
    for row, key in zip(rows, keys, strict=True):
        first.setdefault(key, row)
    wanted = list(first)
    new = _take_keys(session, database, topic, wanted)
    known = _taken(session, topic, [key for key in wanted if key not in new])
    if not new and not known:
        # Neither new nor taken: the topic itself is missing.
        run(session, publishing.add_topic(database.dialect, topic))
        new = _take_keys(session, database, topic, wanted)
    given = [{**first[key], "id": str(message_id)} for key, message_id in new.items()]
    _append(session, database, topic, given, ids_given=True)
    found = known | new
    return [found[key] for key in keys]


def _take_keys(
    session: Session, database: Database, topic: str, keys: Sequence[str]
) -> dict[str, int]:
    statement = publishing.take_keys(database.dialect, database.installation)
    places = [{"place": place, "key": key} for place, key in enumerate(keys, start=1)]
    document = to_json(places, "idempotency_key")
    parameters = {"topic": topic, "document": document}
    concurrent = database.dialect.ids_commit_out_of_order
    if not concurrent or connection_of(session).get_isolation_level() not in _SNAPSHOT_LEVELS:
        return _ids_by_key(run(session, statement, parameters))
    return _take_keys_of_snapshot(session, database, statement, parameters)


def _take_keys_of_snapshot(
    session: Session, database: Database, statement: Any, parameters: dict[str, str]
) -> dict[str, int]:
    """With a snapshot, a key that somebody took since cannot be seen, only collided with."""
    try:
        # On the connection: a savepoint of the session would flush the caller's objects.
        with connection_of(session).begin_nested():
            return _ids_by_key(run(session, statement, parameters))
    except DBAPIError as error:
        if database.dialect.is_contention(error):
            raise DatabaseError(
                IDEMPOTENCY_CONFLICT, "Another transaction took an idempotency key of this publish."
            ) from error
        raise


def _taken(session: Session, topic: str, keys: list[str]) -> dict[str, int]:
    if not keys:
        return {}
    found = run(session, publishing.keys_taken(keys), {"topic": topic})
    return _ids_by_key(found)


def _ids_by_key(found: Result[Any]) -> dict[str, int]:
    return {row.key: row.message_id for row in found}
