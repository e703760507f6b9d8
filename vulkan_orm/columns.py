"""Column types that mean the same on every database."""

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, Text, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

from vulkan_orm.diagnostics import BAD_DELAY, UsageError


class UTCDateTime(TypeDecorator[datetime]):
    """An aware datetime, stored as UTC with microseconds; naive ones are refused."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.utcoffset() is None:
            raise UsageError(BAD_DELAY, f"{value!r} has no time zone.", value=value)
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else in_utc(value)


def in_utc(value: datetime) -> datetime:
    """A stored instant as drivers give it, aware and in UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


#: An instant as the driver has it, for :func:`in_utc` where somebody asks.
PLAIN_INSTANT = DateTime(timezone=True)


class Json(TypeDecorator[Any]):
    """A JSON document: JSONB where there is one, text elsewhere.

    Text and not the database's JSON type, because SQLite gives that one numeric affinity and
    would rewrite a payload that is a bare number.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        native = JSONB() if dialect.name == "postgresql" else Text()
        return dialect.type_descriptor(native)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        return json.dumps(value, allow_nan=False, ensure_ascii=False)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        return json.loads(value)
