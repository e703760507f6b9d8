"""Messages on their way into the log: as members of a JSON document, and as lines of a COPY.

A payload is JSON text from the moment it was checked, and is never parsed again on the way.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from vulkan_orm.store.dialects.base import Dialect


class WithOptions(NamedTuple):
    """A message that has more than a payload. Payload and headers are JSON text."""

    payload: str
    key: str | None
    headers: str | None
    deliver_at: datetime | None
    delay: timedelta | None
    idempotency_key: str | None
    max_retries: int | None
    max_delays: int | None


#: Most messages are a payload and nothing else: for them no object but its text is made.
Row = str | WithOptions

COLUMNS = (
    "topic_id",
    "id",
    "payload",
    "published_at",
    "key",
    "headers",
    "deliver_at",
    "max_retries",
    "max_delays",
)
# Text reaches the driver in parts of so many lines: more copies of it at once gain nothing.
_LINES = 1_000
_NULL = "\\N"
_BACKSLASH, _TWO = "\\", "\\\\"
_ESCAPED = str.maketrans({_BACKSLASH: _TWO, "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def member(row: Row, dialect: Dialect, message_id: int | None = None) -> str:
    """An object of a JSON document, with what is not null alone."""
    start = "{" if message_id is None else f'{{"id":{message_id},'
    if isinstance(row, str):
        return f'{start}"payload":{row}}}'
    fields = {
        "payload": row.payload,
        "key": None if row.key is None else json.dumps(row.key, ensure_ascii=False),
        "headers": row.headers,
        "deliver_at": None if row.deliver_at is None else f'"{dialect.instant(row.deliver_at)}"',
        "delay": None if row.delay is None else repr(row.delay.total_seconds()),
        "max_retries": row.max_retries,
        "max_delays": row.max_delays,
    }
    return start + ",".join(f'"{n}":{v}' for n, v in fields.items() if v is not None) + "}"


def copied(
    rows: Sequence[Row], ids: Iterable[int], topic_id: int, published_at: datetime
) -> Iterator[bytes]:
    """The rows in the text format of PostgreSQL's COPY, with COLUMNS."""
    at = f"\t{published_at.isoformat()}\t"
    nothing = f"{at}{_fields([None] * 5)}\n"

    def line(message_id: int, row: Row) -> str:
        start = f"{topic_id}\t{message_id}\t"
        if isinstance(row, str):
            # JSON text holds no control characters: a backslash is all there is to escape.
            return f"{start}{row.replace(_BACKSLASH, _TWO)}{nothing}"
        return f"{start}{_with_options(row, at, published_at)}"

    numbered = zip(ids, rows, strict=True)
    while part := list(islice(numbered, _LINES)):
        yield "".join([line(*each) for each in part]).encode()


def _with_options(row: WithOptions, at: str, published_at: datetime) -> str:
    due = row.deliver_at if row.delay is None else published_at + row.delay
    fields = [row.key, row.headers, due and due.isoformat(), row.max_retries, row.max_delays]
    return f"{_fields([row.payload])}{at}{_fields(fields)}\n"


def _fields(values: Iterable[object]) -> str:
    return "\t".join(_NULL if v is None else str(v).translate(_ESCAPED) for v in values)
