"""What a delivery has spent, and what it may still do."""

import pytest
from sqlalchemy import column
from sqlalchemy.dialects import sqlite

from vulkan_orm.core.budget import Counters, Limits, delays_asked, spent, within_budget
from vulkan_orm.core.policy import RetryPolicy


def limits(
    max_retries: int | None = None,
    max_delays: int | None = None,
    *,
    policy_retries: int = 5,
    policy_delays: int = 0,
) -> Limits:
    policy = RetryPolicy(max_retries=policy_retries, max_delays=policy_delays)
    return Limits.of(policy, max_retries, max_delays)


def sql(expression: object) -> str:
    return str(
        expression.compile(  # type: ignore[attr-defined]
            dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}
        )
    )


def test_spent_is_attempts_minus_delays() -> None:
    """R10"""
    assert Counters(attempts=7, delays=4).spent == 3


def test_interruptions_are_delays_that_nobody_asked_for() -> None:
    """R15"""
    assert Counters(attempts=7, delays=4, interruptions=3).asked == 1


def test_spent_is_the_same_arithmetic_in_sql() -> None:
    """R10: one definition, in Python and in SQL."""
    assert sql(spent(column("attempts"), column("delays"))) == "attempts - delays"


def test_the_gate_is_the_same_arithmetic_in_sql() -> None:
    """R10"""
    gate = within_budget(column("spent"), column("retries"), column("granted"))
    assert sql(gate) == "spent <= retries + granted"


def test_the_delays_asked_are_the_same_arithmetic_in_sql() -> None:
    """R15"""
    asked = delays_asked(column("delays"), column("interruptions"))
    assert sql(asked) == "delays - interruptions"


@pytest.mark.parametrize(("message", "applies"), [(None, 5), (0, 0), (3, 3), (5, 5), (9, 5)])
def test_a_message_may_ask_for_fewer_retries_and_never_for_more(
    message: int | None, applies: int
) -> None:
    """R13, C14"""
    assert limits(max_retries=message).retries == applies


@pytest.mark.parametrize(
    ("policy", "message", "applies"),
    [
        (0, None, 0),
        (0, 0, 0),
        (0, 3, 3),
        (5, None, 5),
        (5, 0, 5),
        (5, 3, 3),
        (5, 5, 5),
        (5, 9, 5),
    ],
)
def test_no_cap_on_delays_never_beats_a_cap(policy: int, message: int | None, applies: int) -> None:
    """R13: 0 is no cap."""
    assert limits(max_delays=message, policy_delays=policy).delays == applies


def test_a_policy_without_retries_allows_one_run() -> None:
    """R11, C14"""
    assert not Counters(attempts=1).may_run_after_failure(limits(policy_retries=0))


def test_after_the_last_retry_nothing_may_run() -> None:
    """R11, C14"""
    five = limits(policy_retries=5)
    assert Counters(attempts=5).may_run_after_failure(five)
    assert not Counters(attempts=6).may_run_after_failure(five)


def test_a_redrive_grants_a_fresh_budget_of_retries() -> None:
    """R50, C41"""
    one = limits(policy_retries=1)
    assert Counters(attempts=3, granted_retries=2).may_run_after_failure(one)
    assert not Counters(attempts=4, granted_retries=2).may_run_after_failure(one)


def test_the_backoff_counts_from_the_last_redrive() -> None:
    """R50, C41"""
    assert Counters(attempts=9, delays=2, granted_retries=6).failures == 1


def test_delays_do_not_inflate_the_backoff() -> None:
    """R10, C19"""
    assert Counters(attempts=202, delays=200).failures == 2


def test_a_delay_is_allowed_below_the_cap_and_refused_at_it() -> None:
    """R12"""
    two = limits(policy_delays=2)
    assert Counters(attempts=2, delays=1).may_delay(two)
    assert not Counters(attempts=3, delays=2).may_delay(two)


def test_without_a_cap_every_delay_is_allowed() -> None:
    """R12, C67"""
    assert Counters(attempts=40_001, delays=40_000).may_delay(limits(policy_delays=0))


def test_interruptions_do_not_count_against_the_cap_on_delays() -> None:
    """R15"""
    assert Counters(attempts=9, delays=8, interruptions=7).may_delay(limits(policy_delays=2))


def test_a_redrive_grants_a_fresh_budget_of_delays() -> None:
    """R50, C41"""
    two = limits(policy_delays=2)
    assert Counters(attempts=5, delays=3, granted_delays=2).may_delay(two)
    assert not Counters(attempts=6, delays=4, granted_delays=2).may_delay(two)
