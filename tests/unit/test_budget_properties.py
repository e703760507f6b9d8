"""Whole lives of deliveries over `decide`, with counters kept as the store keeps them (R23)."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from hypothesis import assume, example, given
from hypothesis import strategies as st

from vulkan_orm.core.budget import Counters, Limits, within_budget
from vulkan_orm.core.decide import Dead, Gone, Ready, Verdict, decide
from vulkan_orm.core.outcomes import (
    Delayed,
    Ended,
    ErrorText,
    Failed,
    Interrupted,
    Killed,
    RunOutcome,
    Succeeded,
)
from vulkan_orm.core.policy import MAX_COUNT, RetryPolicy

ERROR = ErrorText("ValueError", "x")
FAILED, DELAYED, ENDED = Failed(ERROR), Delayed(ERROR, timedelta(minutes=1)), Ended(ERROR)
KILLED, STOPPED, LOST = Killed(ERROR), Interrupted(ERROR), Interrupted(ERROR, lost=True)

COUNTS = st.integers(0, 6)
ANY_COUNT = st.integers(0, MAX_COUNT)
ASKED = st.none() | ANY_COUNT
RUNS = st.lists(
    st.sampled_from([FAILED, DELAYED, KILLED, STOPPED, LOST, ENDED, Succeeded()]), max_size=40
)
UNFINISHED = st.lists(st.sampled_from([FAILED, DELAYED, KILLED, STOPPED, LOST]), max_size=40)
UNCHARGED = st.lists(st.sampled_from([DELAYED, STOPPED, LOST]), max_size=4)


@dataclass
class Delivery:
    """One row: what a claim adds, what a verdict adds, what a redrive sets."""

    policy: RetryPolicy
    counters: Counters = field(default_factory=lambda: Counters(attempts=0))
    state: str = "ready"

    @property
    def limits(self) -> Limits:
        return Limits.of(self.policy, None, None)

    @property
    def in_budget(self) -> bool:
        counters = self.counters
        return bool(within_budget(counters.spent, self.limits.retries, counters.granted_retries))

    def claim(self) -> bool:
        """Whether it may run; what is over budget is made dead instead (R16)."""
        if self.state != "ready":
            return False
        if not self.in_budget:
            self.state = "dead"
            return False
        self.counters = replace(self.counters, attempts=self.counters.attempts + 1)
        return True

    def settle(self, outcome: RunOutcome, *, asked_by_operator: bool = False) -> Verdict:
        verdict = decide(
            outcome,
            self.counters,
            self.limits,
            self.policy,
            chance=1.0,
            asked_by_operator=asked_by_operator,
        )
        match verdict:
            case Gone():
                self.state = "gone"
            case Dead():
                self.state = "dead"
            case Ready(delays=delays, interruptions=interruptions):
                self.counters = replace(
                    self.counters,
                    delays=self.counters.delays + delays,
                    interruptions=self.counters.interruptions + interruptions,
                )
        return verdict

    def run(self, outcome: RunOutcome) -> Verdict | None:
        return self.settle(outcome) if self.claim() else None

    def deliver(self, outcome: RunOutcome) -> Verdict:
        """A held delivery, run on request: no gate is asked (R17)."""
        self.counters = replace(self.counters, attempts=self.counters.attempts + 1)
        self.state = "ready"
        return self.settle(outcome, asked_by_operator=True)

    def redrive(self) -> None:
        if self.state != "dead":
            return
        self.state = "ready"
        self.counters = replace(
            self.counters,
            granted_retries=self.counters.spent,
            granted_delays=self.counters.asked,
        )


def delivery(retries: int = 5, delays: int = 0) -> Delivery:
    return Delivery(RetryPolicy(max_retries=retries, max_delays=delays, jitter=False))


def runs_to_dead(row: Delivery, outcome: RunOutcome) -> int:
    runs = 0
    while row.run(outcome) is not None:
        runs += 1
    assert row.state == "dead"
    return runs


@given(COUNTS, COUNTS, RUNS, st.sets(st.integers(0, 40)))
def test_attempts_count_every_run_and_never_fall(
    retries: int, delays: int, outcomes: list[RunOutcome], redriven: set[int]
) -> None:
    """R9"""
    row = delivery(retries, delays)
    for step, outcome in enumerate(outcomes):
        before = row.counters.attempts
        ran = row.run(outcome) is not None
        assert row.counters.attempts == before + ran
        if step in redriven:
            row.redrive()
            assert row.counters.attempts == before + ran


@given(COUNTS, UNFINISHED)
def test_a_delay_spends_nothing(retries: int, outcomes: list[RunOutcome]) -> None:
    """R8, R10, C19"""
    row = delivery(retries)
    for outcome in outcomes:
        row.run(outcome)
    assume(row.state == "ready" and row.in_budget)
    before = row.counters.spent
    assert isinstance(row.run(DELAYED), Ready)
    assert row.counters.spent == before


@given(COUNTS, COUNTS, UNFINISHED, st.sampled_from([STOPPED, LOST]))
def test_an_interruption_spends_no_retry_and_no_delay(
    retries: int, delays: int, outcomes: list[RunOutcome], interruption: RunOutcome
) -> None:
    """R15, R16a"""
    row = delivery(retries, delays)
    for outcome in outcomes:
        row.run(outcome)
    assume(row.state == "ready" and row.in_budget)
    before = row.counters
    assert isinstance(row.run(interruption), Ready)
    assert (row.counters.spent, row.counters.asked) == (before.spent, before.asked)


@given(COUNTS, COUNTS, UNFINISHED, st.sets(st.integers(0, 40)))
def test_spent_never_exceeds_the_limit_by_more_than_the_run_in_hand(
    retries: int, delays: int, outcomes: list[RunOutcome], redriven: set[int]
) -> None:
    """R10, R11"""
    row = delivery(retries, delays)
    for step, outcome in enumerate(outcomes):
        row.run(outcome)
        assert row.counters.spent <= retries + row.counters.granted_retries + 1
        if step in redriven:
            row.redrive()


@given(COUNTS, st.integers(1, 6), UNFINISHED, st.sets(st.integers(0, 40)))
def test_the_delays_asked_never_exceed_the_cap(
    retries: int, delays: int, outcomes: list[RunOutcome], redriven: set[int]
) -> None:
    """R12"""
    row = delivery(retries, delays)
    for step, outcome in enumerate(outcomes):
        row.run(outcome)
        assert row.counters.asked <= delays + row.counters.granted_delays
        if step in redriven:
            row.redrive()


@given(COUNTS)
def test_exactly_one_more_failing_run_than_retries_leads_to_dead(retries: int) -> None:
    """R11, C14"""
    assert runs_to_dead(delivery(retries), FAILED) == retries + 1


@given(COUNTS)
def test_exactly_one_more_killed_run_than_retries_leads_to_dead(retries: int) -> None:
    """R11, R16"""
    assert runs_to_dead(delivery(retries), KILLED) == retries + 1


@given(COUNTS, st.lists(UNCHARGED, min_size=7, max_size=7), st.sampled_from([FAILED, KILLED]))
def test_neither_delays_nor_interruptions_change_how_many_failures_lead_to_dead(
    retries: int, between: list[list[RunOutcome]], failure: RunOutcome
) -> None:
    """R8, R11, R15, C14, C19"""
    row = delivery(retries)
    for failures in range(retries + 1):
        for outcome in between[failures]:
            assert isinstance(row.run(outcome), Ready)
        assert row.run(failure) is not None
    assert row.run(FAILED) is None
    assert row.state == "dead"


@given(COUNTS, COUNTS, UNFINISHED, st.sampled_from([FAILED, KILLED]))
@example(0, 1, [DELAYED, DELAYED], FAILED)
def test_a_redrive_gives_a_whole_budget_of_retries_again(
    retries: int, delays: int, life: list[RunOutcome], failure: RunOutcome
) -> None:
    """R50, C14, C41: whatever it died of."""
    row = delivery(retries, delays)
    for outcome in [*life, ENDED]:
        row.run(outcome)
    assert row.state == "dead"
    row.redrive()
    assert runs_to_dead(row, failure) == retries + 1


@given(COUNTS, st.integers(1, 6), UNFINISHED)
def test_a_redrive_gives_a_whole_budget_of_delays_again(
    retries: int, delays: int, life: list[RunOutcome]
) -> None:
    """R50, C41"""
    row = delivery(retries, delays)
    for outcome in [*life, ENDED]:
        row.run(outcome)
    row.redrive()
    assert runs_to_dead(row, DELAYED) == delays + 1


@given(COUNTS, COUNTS, UNFINISHED)
def test_the_first_failure_after_a_redrive_waits_like_a_first_failure(
    retries: int, delays: int, life: list[RunOutcome]
) -> None:
    """R50, C41"""
    assume(retries > 0)
    row = delivery(retries, delays)
    for outcome in [*life, ENDED]:
        row.run(outcome)
    row.redrive()
    failed = row.run(FAILED)
    assert isinstance(failed, Ready)
    assert failed.wait == row.policy.backoff_base


@given(st.integers(1, 6), st.lists(st.sampled_from([STOPPED, LOST]), max_size=40))
def test_interruptions_never_count_against_the_cap_on_delays(
    delays: int, interruptions: list[RunOutcome]
) -> None:
    """R15"""
    row = delivery(delays=delays)
    for outcome in interruptions:
        assert isinstance(row.run(outcome), Ready)
    assert runs_to_dead(row, DELAYED) == delays + 1


@given(COUNTS, st.lists(st.sampled_from([FAILED, DELAYED, KILLED, STOPPED, LOST]), max_size=20))
def test_the_wait_of_a_failure_depends_on_the_failures_alone(
    retries: int, life: list[RunOutcome]
) -> None:
    """R10, C19"""
    row, failures = delivery(retries), 0
    for outcome in life:
        verdict = row.run(outcome)
        if verdict is None:
            break
        failures += outcome in (FAILED, KILLED)
        if outcome == FAILED and isinstance(verdict, Ready):
            assert verdict.wait == row.policy.backoff(failures, chance=1.0)


@given(COUNTS, UNFINISHED, st.sampled_from([FAILED, DELAYED]))
def test_a_held_delivery_that_fails_beyond_its_budget_is_dead_and_can_be_redriven(
    retries: int, life: list[RunOutcome], outcome: RunOutcome
) -> None:
    """R17, R50: an operator may ask for a run whatever was spent."""
    row = delivery(retries)
    for earlier in [*life, ENDED]:
        row.run(earlier)
    row.counters = replace(row.counters, attempts=row.counters.attempts + retries)
    assert isinstance(row.deliver(outcome), Dead) == (row.counters.spent > retries)
    row.state = "dead"
    row.redrive()
    assert runs_to_dead(row, FAILED) == retries + 1


@given(ANY_COUNT, ASKED)
def test_a_message_never_widens_the_retries_of_its_group(policy: int, message: int | None) -> None:
    """R13"""
    limits = Limits.of(RetryPolicy(max_retries=policy), message, None)
    assert limits.retries <= policy


@given(ANY_COUNT, ANY_COUNT)
def test_a_message_gets_the_retries_it_asks_for_within_the_policy(
    policy: int, message: int
) -> None:
    """R13"""
    limits = Limits.of(RetryPolicy(max_retries=policy), message, None)
    assert limits.retries == message or message > policy


@given(st.integers(1, MAX_COUNT), ASKED)
def test_a_message_never_widens_a_cap_on_delays(policy: int, message: int | None) -> None:
    """R13: 0 is no cap, so it never comes out where there is one."""
    limits = Limits.of(RetryPolicy(max_delays=policy), None, message)
    assert 1 <= limits.delays <= policy


@given(ASKED)
def test_a_message_may_cap_its_delays_where_the_policy_does_not(message: int | None) -> None:
    """R13"""
    assert Limits.of(RetryPolicy(max_delays=0), None, message).delays == (message or 0)


@given(COUNTS, COUNTS, UNFINISHED)
def test_a_policy_lowered_by_a_deploy_strands_no_row(
    before: int, after: int, life: list[RunOutcome]
) -> None:
    """R16: what is over the new budget is dead when it is next claimed."""
    row = delivery(before)
    for outcome in life:
        row.run(outcome)
    row.policy = RetryPolicy(max_retries=after)
    over = not row.in_budget
    assume(row.state == "ready")
    ran = row.run(FAILED)
    assert (ran is None) == over
    assert row.state in {"ready", "dead"}
    assert (row.state == "dead") == (row.counters.spent > after)
