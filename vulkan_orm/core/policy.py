"""How often and how soon a failed delivery is tried again."""

import math
from datetime import timedelta
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vulkan_orm.core.instants import MAX_DELAY

MAX_COUNT = 1_000_000


class RetryPolicy(BaseModel):
    """A group's policy. It lives in code: a deploy that changes it changes it for what waits too.

    ``max_retries`` counts retries after the first run: N means N + 1 failing runs.
    ``max_delays`` is the ceiling on requested delays; 0 means no cap. Waits are timedeltas;
    with ``jitter`` (full jitter) each backoff is drawn between nothing and its length.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_retries: int = Field(default=5, ge=0, le=MAX_COUNT)
    max_delays: int = Field(default=0, ge=0, le=MAX_COUNT)
    backoff_base: timedelta = Field(default=timedelta(seconds=1), ge=timedelta(0), le=MAX_DELAY)
    backoff_factor: float = Field(default=2.0, ge=1.0, le=1_000_000, allow_inf_nan=False)
    backoff_max: timedelta = Field(default=timedelta(minutes=15), ge=timedelta(0), le=MAX_DELAY)
    jitter: bool = True

    @model_validator(mode="after")
    def _base_fits(self) -> Self:
        if self.backoff_base > self.backoff_max:
            raise ValueError(
                f"backoff_base ({self.backoff_base}) is longer than backoff_max "
                f"({self.backoff_max}); raise backoff_max too"
            )
        return self

    def backoff(self, failures: int, *, chance: float) -> timedelta:
        """The wait after the given number of failures (1 is the first).

        :param chance: from 0 to 1, the draw that full jitter multiplies with.
        """
        wait = self._ceiling(max(failures, 1) - 1)
        return wait * chance if self.jitter else wait

    def _ceiling(self, exponent: int) -> timedelta:
        if not self.backoff_base or not self.backoff_max:
            return min(self.backoff_base, self.backoff_max)
        # Compared as logarithms, since the power itself overflows long before the budget ends.
        room = math.log(self.backoff_max / self.backoff_base)
        if exponent * math.log(self.backoff_factor) >= room:
            return self.backoff_max
        return min(self.backoff_base * self.backoff_factor**exponent, self.backoff_max)
