"""How often and how soon a policy tries again."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from vulkan_orm.core.instants import MAX_DELAY
from vulkan_orm.core.policy import MAX_COUNT, RetryPolicy

STEADY = RetryPolicy(jitter=False)
WAITS = st.timedeltas(timedelta(0), MAX_DELAY)
FACTORS = st.floats(1.0, 1_000_000)
FAILURES = st.integers(0, 10**9)
CHANCES = st.floats(0, 1)


def seconds(policy: RetryPolicy, failures: int) -> float:
    return policy.backoff(failures, chance=1.0).total_seconds()


def test_the_wait_doubles_with_each_failure() -> None:
    """R2, C19: the first failure waits as long as a first retry."""
    assert [seconds(STEADY, failures) for failures in range(1, 6)] == [1, 2, 4, 8, 16]


def test_the_wait_stops_growing_at_the_documented_maximum() -> None:
    """C16"""
    assert seconds(STEADY, 11) == seconds(STEADY, 2_000) == 900


def test_a_factor_of_one_always_waits_the_same() -> None:
    policy = RetryPolicy(backoff_factor=1.0, jitter=False)
    assert seconds(policy, 1) == seconds(policy, 10**6) == 1


def test_a_base_of_zero_never_waits() -> None:
    """C16"""
    assert seconds(RetryPolicy(backoff_base=timedelta(0)), 10**6) == 0


def test_a_maximum_of_zero_never_waits() -> None:
    """C16"""
    policy = RetryPolicy(backoff_base=timedelta(0), backoff_max=timedelta(0))
    assert seconds(policy, 10**6) == 0


def test_a_base_above_the_maximum_is_refused() -> None:
    """A wait that would be cut from the first failure on is a mistake."""
    with pytest.raises(ValidationError, match="backoff_max"):
        RetryPolicy(backoff_base=timedelta(days=1))


@pytest.mark.parametrize("factor", [2.0, 5.0, 10.0])
@pytest.mark.parametrize("failures", [16, 2_000, 10**6])
def test_very_many_failures_wait_for_the_maximum(factor: float, failures: int) -> None:
    """C16: the power overflows long before the budget ends."""
    policy = RetryPolicy(backoff_factor=factor, jitter=False)
    assert policy.backoff(failures, chance=1.0) == policy.backoff_max


@given(WAITS, WAITS, FACTORS, st.booleans(), FAILURES, CHANCES)
def test_the_wait_is_never_negative_nor_above_the_maximum(
    one: timedelta, other: timedelta, factor: float, jitter: bool, failures: int, chance: float
) -> None:
    """C16"""
    base, longest = sorted((one, other))
    policy = RetryPolicy(
        backoff_base=base, backoff_max=longest, backoff_factor=factor, jitter=jitter
    )
    assert timedelta(0) <= policy.backoff(failures, chance=chance) <= longest


@given(WAITS, FACTORS, FAILURES, CHANCES)
def test_jitter_never_lengthens_a_wait(
    base: timedelta, factor: float, failures: int, chance: float
) -> None:
    """C58"""
    options = {"backoff_base": base, "backoff_factor": factor, "backoff_max": MAX_DELAY}
    drawn = RetryPolicy.model_validate({**options, "jitter": True})
    steady = RetryPolicy.model_validate({**options, "jitter": False})
    assert drawn.backoff(failures, chance=chance) <= steady.backoff(failures, chance=chance)


@given(WAITS, FACTORS, st.integers(1, 10**6))
def test_one_more_failure_never_shortens_the_wait(
    base: timedelta, factor: float, failures: int
) -> None:
    policy = RetryPolicy(
        backoff_base=base, backoff_factor=factor, backoff_max=MAX_DELAY, jitter=False
    )
    assert policy.backoff(failures, chance=1.0) <= policy.backoff(failures + 1, chance=1.0)


def test_full_jitter_spreads_over_the_whole_wait() -> None:
    """C58"""
    policy = RetryPolicy()
    waits = [policy.backoff(5, chance=chance).total_seconds() for chance in (0.0, 0.5, 1.0)]
    assert waits == [0.0, 8.0, 16.0]


def test_jitter_can_be_switched_off() -> None:
    """C58"""
    assert STEADY.backoff(5, chance=0.0) == STEADY.backoff(5, chance=1.0)


def test_a_policy_says_by_default_what_the_documents_say() -> None:
    assert RetryPolicy().model_dump() == {
        "max_retries": 5,
        "max_delays": 0,
        "backoff_base": timedelta(seconds=1),
        "backoff_factor": 2.0,
        "backoff_max": timedelta(minutes=15),
        "jitter": True,
    }


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        STEADY.max_retries = 7  # type: ignore[misc]


@pytest.mark.parametrize(
    "options",
    [
        {"max_retries": -1},
        {"max_retries": MAX_COUNT + 1},
        {"max_delays": -1},
        {"backoff_base": timedelta(seconds=-1)},
        {"backoff_base": timedelta.max},
        {"backoff_max": timedelta.max},
        {"backoff_max": float("inf")},
        {"backoff_base": float("nan")},
        {"backoff_factor": 0.5},
        {"backoff_factor": float("inf")},
        {"backoff_factor": float("nan")},
        {"backoff_factor": 10**400},
        {"max_retrys": 3},
    ],
    ids=repr,
)
def test_a_policy_that_could_not_be_honoured_is_refused(options: dict[str, Any]) -> None:
    """C16"""
    with pytest.raises(ValidationError):
        RetryPolicy.model_validate(options)
