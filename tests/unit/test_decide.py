"""What becomes of a delivery after a run."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from vulkan_orm.core.budget import Counters, Limits
from vulkan_orm.core.decide import Dead, Gone, Ready, Verdict, decide
from vulkan_orm.core.outcomes import (
    AnyOutcome,
    Deferred,
    Delayed,
    Ended,
    ErrorText,
    Failed,
    Interrupted,
    Killed,
    Outcome,
    Succeeded,
)
from vulkan_orm.core.policy import RetryPolicy

ERROR = ErrorText("ValueError", "x")
AT_TWO = datetime(2030, 1, 1, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
FIRST_RUN = Counters(attempts=1)


def verdict(
    outcome: AnyOutcome,
    counters: Counters = FIRST_RUN,
    *,
    retries: int = 5,
    delays: int = 0,
    chance: float = 1.0,
    asked_by_operator: bool = False,
) -> Verdict:
    policy = RetryPolicy(max_retries=retries, max_delays=delays)
    return decide(
        outcome,
        counters,
        Limits.of(policy, None, None),
        policy,
        chance=chance,
        asked_by_operator=asked_by_operator,
    )


def test_a_success_leaves_nothing_to_do() -> None:
    assert verdict(Succeeded()) == Gone()


def test_a_terminal_is_dead_on_its_first_attempt() -> None:
    """R2"""
    assert verdict(Ended(ERROR)) == Dead(Outcome.TERMINAL)


def test_a_failure_is_ready_after_the_backoff() -> None:
    """R2"""
    assert verdict(Failed(ERROR)) == Ready(Outcome.EXCEPTION, wait=timedelta(seconds=1))


def test_a_failure_on_the_last_attempt_is_dead() -> None:
    """R2, R11, C14"""
    assert verdict(Failed(ERROR), Counters(attempts=6)) == Dead(Outcome.EXCEPTION)


def test_a_failure_without_retries_is_dead_at_once() -> None:
    """R11, C14"""
    assert verdict(Failed(ERROR), retries=0) == Dead(Outcome.EXCEPTION)


def test_the_backoff_of_a_failure_is_drawn_with_the_given_chance() -> None:
    """C58"""
    assert verdict(Failed(ERROR), chance=0.25) == Ready(
        Outcome.EXCEPTION, wait=timedelta(seconds=0.25)
    )


def test_a_delay_is_ready_after_its_wait_and_counted() -> None:
    """R8"""
    assert verdict(Delayed(ERROR, MINUTE)) == Ready(Outcome.DELAYED, wait=MINUTE, delays=1)


def test_a_delay_until_an_instant_is_ready_at_the_instant() -> None:
    """R6, R8"""
    assert verdict(Delayed(ERROR, until=AT_TWO)) == Ready(Outcome.DELAYED, until=AT_TWO, delays=1)


def test_a_delay_of_zero_is_ready_at_once_and_counted() -> None:
    """R6, C67"""
    assert verdict(Delayed(ERROR)) == Ready(Outcome.DELAYED, delays=1)


def test_jitter_does_not_touch_a_delay() -> None:
    """C58"""
    assert verdict(Delayed(ERROR, MINUTE), chance=0.0) == verdict(Delayed(ERROR, MINUTE))


def test_a_delay_on_the_last_attempt_is_no_failure() -> None:
    """R8, C19"""
    assert isinstance(verdict(Delayed(ERROR, MINUTE), Counters(attempts=6)), Ready)


def test_a_delay_beyond_the_cap_is_dead() -> None:
    """R12"""
    assert verdict(Delayed(ERROR, MINUTE), Counters(attempts=3, delays=2), delays=2) == Dead(
        Outcome.DELAYED
    )


def test_an_interrupted_run_is_ready_at_once_and_charged_nothing() -> None:
    """R15, R19"""
    assert verdict(Interrupted(ERROR)) == Ready(Outcome.INTERRUPTED, delays=1, interruptions=1)


def test_an_interrupted_run_on_the_last_attempt_is_ready() -> None:
    """R15"""
    assert isinstance(verdict(Interrupted(ERROR), Counters(attempts=6)), Ready)


def test_an_interrupted_run_at_the_cap_on_delays_is_ready() -> None:
    """R15"""
    at_cap = Counters(attempts=3, delays=2)
    assert isinstance(verdict(Interrupted(ERROR), at_cap, delays=2), Ready)


def test_a_run_that_was_lost_among_others_is_to_run_alone_next() -> None:
    """R16a: so that a crash loop ends."""
    assert verdict(Interrupted(ERROR, lost=True)) == Ready(
        Outcome.INTERRUPTED, delays=1, interruptions=1, careful=True
    )


def test_a_killed_run_is_ready_and_to_run_alone_next() -> None:
    """R16, R16a: the claim gate judges its budget, since recovery knows no policy."""
    assert verdict(Killed(ERROR)) == Ready(Outcome.KILLED, careful=True)


def test_a_killed_run_is_charged_like_a_failure() -> None:
    """R16"""
    killed = verdict(Killed(ERROR))
    assert isinstance(killed, Ready)
    assert (killed.delays, killed.interruptions) == (0, 0)


def test_a_deferred_delivery_is_ready_at_its_time_and_nothing_is_counted() -> None:
    """R15"""
    assert verdict(Deferred(AT_TWO), Counters(attempts=0)) == Ready(Outcome.DEFERRED, until=AT_TWO)


def test_a_delay_of_a_held_delivery_is_a_failure() -> None:
    """R17"""
    assert verdict(Delayed(ERROR, MINUTE), asked_by_operator=True) == verdict(Failed(ERROR))


def test_a_delay_of_a_held_delivery_beyond_its_budget_is_dead() -> None:
    """R17"""
    assert verdict(Delayed(ERROR, MINUTE), Counters(attempts=9), asked_by_operator=True) == Dead(
        Outcome.EXCEPTION
    )


def test_a_terminal_of_a_held_delivery_is_terminal() -> None:
    """R17"""
    assert verdict(Ended(ERROR), asked_by_operator=True) == Dead(Outcome.TERMINAL)


@pytest.mark.parametrize("outcome", [Succeeded(), Failed(ERROR), Ended(ERROR)])
def test_any_other_outcome_of_a_held_delivery_is_applied_as_ever(outcome: AnyOutcome) -> None:
    """R17"""
    assert verdict(outcome, asked_by_operator=True) == verdict(outcome)


@pytest.mark.parametrize("outcome", [Killed(ERROR), Interrupted(ERROR)])
def test_a_held_delivery_whose_run_did_not_end_is_held_again(outcome: AnyOutcome) -> None:
    """R17: a crash or a stop does not take a delivery off hold."""
    plain = verdict(outcome)
    assert isinstance(plain, Ready)
    assert verdict(outcome, asked_by_operator=True) == replace(plain, held=True)


def test_errors_after_very_many_delays_wait_like_first_errors() -> None:
    """C19: 200 delays, an error, 50 delays, an error; 252 runs of which two are spent."""
    first = verdict(Failed(ERROR), Counters(attempts=201, delays=200))
    second = verdict(Failed(ERROR), Counters(attempts=252, delays=250))
    assert first == Ready(Outcome.EXCEPTION, wait=timedelta(seconds=1))
    assert second == Ready(Outcome.EXCEPTION, wait=timedelta(seconds=2))


def test_forty_thousand_delays_are_no_reason_to_stop() -> None:
    """C67"""
    counters = Counters(attempts=40_001, delays=40_000)
    assert isinstance(verdict(Delayed(ERROR), counters), Ready)
