"""Ways to do the same work, timed in turns: whatever loads the machine meanwhile loads them all."""

import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Way:
    """One way to do the work. ``run`` does it so many times and returns the seconds it took."""

    name: str
    run: Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours beside the floors: what the bare driver, or SQLAlchemy without us, takes for it."""

    title: str
    unit: str
    ours: Way
    floors: Sequence[Way]
    #: How many times the asked number of messages; quick work needs more of it to be measured.
    factor: int = 1
    #: The share of the last floor that ours is to reach.
    least: float | None = None
    #: Whether its ways run in new processes, which no warming up reaches.
    apart: bool = False

    @property
    def ways(self) -> Sequence[Way]:
        return [*self.floors, self.ours]


@dataclass(frozen=True, slots=True)
class Figure:
    """What one way did a second, one number a round."""

    way: str
    rates: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.rates)

    def share_of(self, other: "Figure") -> float:
        """This rate over the other's: the median of the rounds' own ratios."""
        pairs = zip(self.rates, other.rates, strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)


@dataclass(frozen=True, slots=True)
class Result:
    """A comparison, measured."""

    title: str
    unit: str
    count: int
    ours: Figure
    floors: Sequence[Figure]
    least: float | None = None

    @property
    def share(self) -> float:
        """What ours reaches of the last floor, which is the one that it is measured by."""
        return self.ours.share_of(self.floors[-1])


def measure(comparison: Comparison, *, rounds: int, messages: int) -> Result:
    """Runs each way a little to warm up, then all of them in every round, in changing order."""
    count = messages * comparison.factor
    figures = {way.name: Figure(way.name) for way in comparison.ways}
    for way in [] if comparison.apart else comparison.ways:
        way.run(min(count, 500))
    for turn in range(rounds):
        for way in comparison.ways if turn % 2 else reversed(comparison.ways):
            gc.collect()
            figures[way.name].rates.append(count / way.run(count))
    return Result(
        comparison.title,
        comparison.unit,
        count,
        figures[comparison.ours.name],
        [figures[way.name] for way in comparison.floors],
        comparison.least,
    )
