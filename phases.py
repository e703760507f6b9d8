"""What is measured, of whom, and what ours has to reach."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.bench.peers.running import Run, bulk, consume, latency
from tests.bench.peers.systems import (
    CHANCY,
    HUEY,
    OURS,
    OURS_ASYNC,
    OURS_SQLITE,
    PGQUEUER,
    PROCRASTINATE,
    System,
)


@dataclass(frozen=True, slots=True)
class Target:
    """How ours has to stand to a peer: so many times its rate, or no more of its time."""

    peer: System
    factor: float
    lower_is_better: bool = False

    def met(self, ratio: float) -> bool:
        return ratio <= self.factor if self.lower_is_better else ratio >= self.factor

    def __str__(self) -> str:
        return f"at {'most' if self.lower_is_better else 'least'} {self.factor:g}"


@dataclass(frozen=True, slots=True)
class Phase:
    """One kind of work, which gives a figure or several."""

    title: str
    run: Callable[[Run], dict[str, float]]
    ours: Sequence[System]
    peers: Sequence[System]
    targets: Sequence[Target] = ()
    #: How many messages, where it is not the system's own number.
    size: Callable[[System], int] = lambda system: system.jobs


_POSTGRESQL = (PGQUEUER, CHANCY, PROCRASTINATE)
_NO_WORSE = (Target(PGQUEUER, 1, lower_is_better=True), Target(CHANCY, 1, lower_is_better=True))

PHASES = (
    Phase("publish in bulk, 1,000 a call", bulk, [OURS], _POSTGRESQL, [Target(PGQUEUER, 2)]),
    Phase("consume, 1 process", consume, [OURS], _POSTGRESQL, [Target(PGQUEUER, 6)]),
    Phase("consume, 2 processes", partial(consume, processes=2), [OURS], _POSTGRESQL),
    Phase(
        "fail twice, then succeed",
        partial(consume, failing=True),
        [OURS],
        _POSTGRESQL,
        [Target(PGQUEUER, 6), Target(CHANCY, 6)],
        size=lambda system: system.failing,
    ),
    Phase(
        "commit to handler start, 50 a second",
        latency,
        [OURS, OURS_ASYNC],
        _POSTGRESQL,
        _NO_WORSE,
        size=lambda system: 500,
    ),
    Phase("consume on SQLite, 1 process", consume, [OURS_SQLITE], [HUEY], [Target(HUEY, 5)]),
)
