"""What counts as a usable delay or instant, decided in one place."""

from datetime import UTC, datetime, timedelta

from vulkan_orm.diagnostics import BAD_DELAY, UsageError

MAX_DELAY = timedelta(days=36_525)
# Year 9999 ends a day early so that no time zone can push an instant past datetime.max.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)


def as_delay(value: object) -> timedelta:
    """A timedelta or a number of seconds, checked.

    :raises UsageError: VK0008 for anything negative, not finite, too long or of another type.
    """
    if isinstance(value, timedelta):
        delay = value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        # Compared before it is converted: NaN, infinities and integers of any size fail here.
        if not 0 <= value <= MAX_DELAY.total_seconds():
            raise _refused(value)
        delay = timedelta(seconds=value)
    else:
        raise _refused(value)
    if not timedelta(0) <= delay <= MAX_DELAY:
        raise _refused(value)
    return delay


def as_instant(value: object) -> datetime:
    """An aware datetime in UTC, checked.

    :raises UsageError: VK0008 for a naive one, or one no database of ours can hold.
    """
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise _refused(value)
    if not EARLIEST <= value <= LATEST:
        raise _refused(value)
    return value.astimezone(UTC)


def _refused(value: object) -> UsageError:
    return UsageError(BAD_DELAY, f"{_shown(value)} is not a usable delay or instant.", value=value)


def _shown(value: object) -> str:
    # A repr may fail: an int of 5,000 digits has none.
    try:
        return repr(value)[:100]
    except Exception:
        return f"<{type(value).__name__}>"
