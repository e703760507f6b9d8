"""Which delays and instants can be honoured."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vulkan_orm.core.instants import EARLIEST, LATEST, MAX_DELAY, as_delay, as_instant
from vulkan_orm.diagnostics import BAD_DELAY, UsageError

FAR_EAST = timezone(timedelta(hours=14))
FAR_WEST = timezone(-timedelta(hours=12))


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("given_", "meant"),
    [
        (0, timedelta(0)),
        (0.0, timedelta(0)),
        (-0.0, timedelta(0)),
        (30, timedelta(seconds=30)),
        (0.0001, timedelta(microseconds=100)),
        (timedelta(minutes=5), timedelta(minutes=5)),
        (timedelta(0), timedelta(0)),
        (MAX_DELAY, MAX_DELAY),
        (MAX_DELAY.total_seconds(), MAX_DELAY),
    ],
)
def test_a_usable_delay_is_taken_as_it_is(given_: object, meant: timedelta) -> None:
    """R6, C67: zero is allowed."""
    assert as_delay(given_) == meant


@pytest.mark.parametrize(
    "value",
    [
        -5,
        -1e-9,
        timedelta(microseconds=-1),
        float("nan"),
        float("inf"),
        float("-inf"),
        10**12,
        10**400,
        timedelta.max,
        MAX_DELAY + timedelta(microseconds=1),
        "5",
        None,
        True,
        [5],
        Unshowable(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unusable_delay_is_refused_where_it_is_made(value: object) -> None:
    """R6, C67"""
    with pytest.raises(UsageError) as refused:
        as_delay(value)
    assert refused.value.condition is BAD_DELAY


def test_a_number_too_long_to_be_shown_is_refused_as_any_other() -> None:
    """R6, C67: Python has no text for an integer of 5,000 digits."""
    with pytest.raises(UsageError):
        as_delay(10**5_000)


@given(st.one_of(st.floats(), st.integers(), st.timedeltas()))
def test_a_delay_is_either_within_its_bounds_or_refused(value: Any) -> None:
    """R6, C67"""
    try:
        delay = as_delay(value)
    except UsageError:
        return
    assert timedelta(0) <= delay <= MAX_DELAY


@pytest.mark.parametrize(
    "value",
    [
        EARLIEST,
        LATEST,
        datetime(2038, 1, 20, tzinfo=UTC),
        datetime(2030, 1, 1, 2, tzinfo=FAR_EAST),
    ],
)
def test_a_usable_instant_is_the_same_instant_in_utc(value: datetime) -> None:
    """R6, C67"""
    assert as_instant(value) == value
    assert as_instant(value).tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        datetime(2030, 1, 1),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=FAR_WEST),
        datetime.min.replace(tzinfo=FAR_EAST),
        "2030-01-01T00:00:00Z",
        1_900_000_000,
        datetime(2030, 1, 1, tzinfo=UTC).date(),
    ],
    ids=repr,
)
def test_an_instant_that_is_naive_or_cannot_be_stored_is_refused(value: object) -> None:
    """R6, C67"""
    with pytest.raises(UsageError) as refused:
        as_instant(value)
    assert refused.value.condition is BAD_DELAY


@given(st.datetimes(), st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
def test_an_instant_of_any_zone_is_either_within_its_bounds_or_refused(
    naive: datetime, offset: timedelta
) -> None:
    """R6, C67"""
    try:
        instant = as_instant(naive.replace(tzinfo=timezone(offset)))
    except UsageError:
        return
    assert EARLIEST <= instant <= LATEST
