"""How long to wait, and how much to take at once."""

from hypothesis import given
from hypothesis import strategies as st

from vulkan_orm.core.pace import (
    FIRST_RANGE,
    MAX_PAUSE,
    MAX_RANGE,
    MIN_PAUSE,
    MIN_RANGE,
    RANGE_TARGET,
    held_pause,
    next_pause,
    next_range_size,
)

SECONDS = st.floats(0, 1e9)


def test_slow_handlers_get_small_ranges() -> None:
    """R44"""
    assert next_range_size(100, done=100, seconds=10 * RANGE_TARGET) == 10


def test_a_handler_that_takes_longer_than_the_target_gets_one_message_at_a_time() -> None:
    """R44: the target is no cap on the handler."""
    assert next_range_size(100, done=1, seconds=100.0) == MIN_RANGE


def test_a_range_of_quick_handlers_grows_fourfold_at_most() -> None:
    """R44"""
    assert next_range_size(10, done=10, seconds=1e-6) == 40


def test_a_range_that_took_no_time_at_all_grows_fourfold_at_most() -> None:
    """R44: clocks have steps."""
    assert next_range_size(10, done=10, seconds=0.0) == 40


def test_a_range_of_which_nothing_was_done_is_halved() -> None:
    """R44"""
    assert next_range_size(100, done=0, seconds=1.0) == 50


def test_a_range_that_cannot_be_halved_stays_at_one() -> None:
    """R44"""
    assert next_range_size(1, done=0, seconds=1.0) == MIN_RANGE


def test_steady_quick_handlers_reach_the_largest_range_within_a_few_ranges() -> None:
    """R44"""
    size = FIRST_RANGE
    for _ in range(3):
        size = next_range_size(size, done=size, seconds=size * 1e-5)
    assert size == MAX_RANGE


@given(st.integers(MIN_RANGE, MAX_RANGE), st.integers(0, MAX_RANGE), SECONDS)
def test_a_range_never_leaves_its_bounds(size: int, done: int, seconds: float) -> None:
    """R44"""
    assert MIN_RANGE <= next_range_size(size, done, seconds) <= MAX_RANGE


def test_there_is_no_rest_after_work() -> None:
    """R34"""
    assert next_pause(MAX_PAUSE, worked=True) == 0.0


def test_the_first_rest_is_the_shortest() -> None:
    """R34"""
    assert next_pause(0.0, worked=False) == MIN_PAUSE


def test_an_idle_consumer_rests_twice_as_long_each_time() -> None:
    """R34"""
    assert next_pause(MIN_PAUSE, worked=False) == 2 * MIN_PAUSE


@given(st.floats(0, 1e9))
def test_a_rest_never_exceeds_the_longest(pause: float) -> None:
    """R34"""
    assert MIN_PAUSE <= next_pause(pause, worked=False) <= MAX_PAUSE


@given(st.floats(0, 1e9))
def test_what_an_open_transaction_held_back_is_found_an_eighth_later_at_most(
    seconds: float,
) -> None:
    """R34: but for the shortest rest of two milliseconds."""
    assert 0.002 <= held_pause(seconds) <= max(0.002, seconds / 8)
    assert held_pause(seconds) <= MAX_PAUSE
