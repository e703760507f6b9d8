"""One pure decision: what becomes of a delivery after a run."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, assert_never

from vulkan_orm.core.budget import Counters, Limits
from vulkan_orm.core.outcomes import (
    AnyOutcome,
    Deferred,
    Delayed,
    Ended,
    Failed,
    Interrupted,
    Killed,
    Outcome,
    Succeeded,
)
from vulkan_orm.core.policy import RetryPolicy


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing is left to do: the row, if there was one, is deleted."""

    state: ClassVar[str] = "gone"
    outcome: Outcome = Outcome.SUCCEEDED


@dataclass(slots=True)
class Ready:
    """To be run (again) ``wait`` from now, and not before ``until``; the later counts.

    ``held``: not unless an operator asks again.
    """

    outcome: Outcome
    wait: timedelta = timedelta(0)
    until: datetime | None = None
    delays: int = 0
    interruptions: int = 0
    careful: bool = False
    held: bool = False

    @property
    def state(self) -> str:
        return "held" if self.held else "ready"


@dataclass(frozen=True, slots=True)
class Dead:
    """Not to be run again unless somebody redrives it."""

    state: ClassVar[str] = "dead"
    outcome: Outcome


Verdict = Gone | Ready | Dead
_GONE = Gone()


def decide(
    outcome: AnyOutcome,
    counters: Counters,
    limits: Limits,
    policy: RetryPolicy,
    *,
    chance: float,
    asked_by_operator: bool = False,
) -> Verdict:
    """What becomes of a delivery whose run ended so.

    :param counters: with the run in hand counted.
    :param chance: the draw for the backoff's jitter, from 0 to 1.
    :param asked_by_operator: a held delivery that was run on request; a delay is a failure there,
        and a run that never ended is held again.
    """
    match outcome:
        case Succeeded():
            return _GONE
        case Ended():
            return Dead(Outcome.TERMINAL)
        case Interrupted(lost=lost):
            return Ready(
                Outcome.INTERRUPTED, delays=1, interruptions=1, careful=lost, held=asked_by_operator
            )
        case Deferred(until=until):
            return Ready(Outcome.DEFERRED, until=until)
        case Delayed(wait=wait, until=until) if not asked_by_operator:
            if not counters.may_delay(limits):
                return Dead(Outcome.DELAYED)
            return Ready(Outcome.DELAYED, wait=wait, until=until, delays=1)
        case Failed() | Delayed():
            return _after_failure(counters, limits, policy, chance)
        case Killed():
            # No policy is needed to recover: the claim gate and the backstop judge the budget.
            return Ready(Outcome.KILLED, careful=True, held=asked_by_operator)
        case _:
            assert_never(outcome)


def _after_failure(
    counters: Counters, limits: Limits, policy: RetryPolicy, chance: float
) -> Ready | Dead:
    if not counters.may_run_after_failure(limits):
        return Dead(Outcome.EXCEPTION)
    return Ready(Outcome.EXCEPTION, wait=policy.backoff(counters.failures, chance=chance))
