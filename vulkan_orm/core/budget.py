"""The budget arithmetic, once: written with operators alone, it serves integers and SQL columns."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from vulkan_orm.core.policy import RetryPolicy


def spent(attempts: Any, delays: Any) -> Any:
    """What a delivery has used up of its retry budget."""
    return attempts - delays


def delays_asked(delays: Any, interruptions: Any) -> Any:
    """The delays that a handler asked for: interruptions are delays nobody asked for."""
    return delays - interruptions


def within_budget(spent: Any, retries: Any, granted: Any) -> Any:
    """Whether a delivery may run (again): N retries after the first run, and what was granted."""
    return spent <= retries + granted


@dataclass(frozen=True, slots=True)
class Limits:
    """What applies to one delivery: the policy, narrowed by what its message asked for."""

    retries: int
    delays: int

    @classmethod
    def of(cls, policy: RetryPolicy, max_retries: int | None, max_delays: int | None) -> "Limits":
        return _narrowed(policy.max_retries, policy.max_delays, max_retries, max_delays)


# Kept, since most messages ask for nothing of their own and have the same.
@lru_cache(maxsize=256)
def _narrowed(retries: int, delays: int, max_retries: int | None, max_delays: int | None) -> Limits:
    asked = retries if max_retries is None else min(max_retries, retries)
    return Limits(asked, _clamp_delays(delays, max_delays))


def _clamp_delays(policy: int, asked: int | None) -> int:
    if not asked:
        return policy
    return min(asked, policy) if policy else asked


@dataclass(frozen=True, slots=True)
class Counters:
    """What a delivery has behind it. ``attempts`` includes the run in hand, if there is one."""

    attempts: int
    delays: int = 0
    interruptions: int = 0
    granted_retries: int = 0
    granted_delays: int = 0

    @property
    def spent(self) -> int:
        return int(spent(self.attempts, self.delays))

    @property
    def asked(self) -> int:
        return int(delays_asked(self.delays, self.interruptions))

    def may_run_after_failure(self, limits: Limits) -> bool:
        return bool(within_budget(self.spent, limits.retries, self.granted_retries))

    def may_delay(self, limits: Limits) -> bool:
        return not limits.delays or self.asked - self.granted_delays < limits.delays

    @property
    def failures(self) -> int:
        """How many failures the backoff counts: those since the last redrive."""
        return self.spent - self.granted_retries
