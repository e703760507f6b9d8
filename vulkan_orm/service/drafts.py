"""Messages about to be published, and what checking makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypedDict, TypeVar

from vulkan_orm.core.instants import as_delay, as_instant
from vulkan_orm.core.policy import MAX_COUNT
from vulkan_orm.diagnostics import BAD_OPTION, BEYOND_RETENTION, PayloadError, UsageError
from vulkan_orm.models import KEY_LENGTH
from vulkan_orm.service.codec import Codec, check_headers, check_text
from vulkan_orm.store.rows import Row, WithOptions

T = TypeVar("T")


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


def check(each: T | Draft[T], codec: Codec[T], retention: timedelta | None) -> Row:
    """The message as it will be stored.

    :raises PayloadError: VK0020 to VK0023, naming the field.
    :raises UsageError: VK0007 and VK0008 for options that cannot be.
    """
    if not isinstance(each, Draft):
        return codec.encode(each)
    payload = codec.encode(each.payload)
    if each.key is not None:
        check_text(each.key, "key", KEY_LENGTH)
    if each.idempotency_key is not None:
        check_text(each.idempotency_key, "idempotency_key", KEY_LENGTH)
    headers = check_headers(each.headers) if each.headers else None
    for name in ("max_retries", "max_delays"):
        _check_limit(getattr(each, name), name)
    deliver_at, delay = _due(each, retention)
    return WithOptions(
        payload,
        each.key,
        headers,
        deliver_at,
        delay,
        each.idempotency_key,
        each.max_retries,
        each.max_delays,
    )


def _check_limit(value: object, name: str) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
        raise UsageError(BAD_OPTION, f"{name} must be a whole number from 0 to {MAX_COUNT}.")


def _due(
    draft: Draft[Any], retention: timedelta | None
) -> tuple[datetime | None, timedelta | None]:
    if draft.deliver_at is not None and draft.delay is not None:
        raise UsageError(BAD_OPTION, "deliver_at and delay exclude each other.")
    if draft.delay is not None:
        delay = as_delay(draft.delay)
        _check_retention(delay, retention)
        return None, delay
    if draft.deliver_at is not None:
        instant = as_instant(draft.deliver_at)
        _check_retention(instant - datetime.now(UTC), retention)
        return instant, None
    return None, None


def _check_retention(wait: timedelta, retention: timedelta | None) -> None:
    if retention is not None and wait >= retention:
        raise PayloadError(
            BEYOND_RETENTION, f"The topic keeps messages for {retention}; this one waits {wait}."
        )
