"""What is measured of every system, in turns."""

import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url

from tests.bench.peers import protocol
from tests.bench.peers.crew import SYSTEMS, Crew, System
from tests.databases import Cluster

# Slow systems get a part of the work, so that none takes minutes.
SHARES = {"procrastinate": 0.03, "chancy": 0.2, "huey": 0.05, "vulkan_sqlite": 0.5}


@dataclass(frozen=True, slots=True)
class Bench:
    """Where systems run, and how much they do."""

    cluster: Cluster
    environments: Path
    messages: int

    @contextmanager
    def crew(self, system: System, mode: str = "consume") -> Iterator[Crew]:
        """A system set up on a database of its own."""
        with tempfile.TemporaryDirectory() as folder, self.cluster.database() as database:
            url = make_url(database.sync_url).set(drivername="postgresql")
            chosen = url.render_as_string(hide_password=False)
            if system.on_sqlite:
                chosen = f"sqlite:///{folder}/bench.db"
            crew = Crew(system, chosen, Path(folder), self.environments, mode)
            crew.do("setup")
            yield crew

    def amount(self, system: System) -> int:
        share = SHARES.get(system.name, 1.0)
        return (
            max(protocol.BULK, int(self.messages * share)) if self.messages > 100 else self.messages
        )


def bulk(bench: Bench, system: System) -> float:
    amount = bench.amount(system)
    with bench.crew(system) as crew:
        return amount / float(crew.do("bulk", amount))


def consume(processes: int) -> Callable[[Bench, System], float]:
    def run(bench: Bench, system: System) -> float:
        amount = bench.amount(system)
        with bench.crew(system) as crew:
            crew.do("bulk", amount)
            crew.settle_down()
            with crew.working(processes):
                return amount / crew.wait_for(amount)

    return run


def fail(bench: Bench, system: System) -> float:
    """Finished jobs a second, each of which fails twice before."""
    amount = max(1, bench.amount(system) // 12)
    with bench.crew(system, "fail") as crew:
        crew.do("bulk", amount)
        crew.settle_down()
        with crew.working(1):
            return amount / crew.wait_for(amount * (protocol.FAILURES + 1))


def latency(quantile: float) -> Callable[[Bench, System], float]:
    """Milliseconds from commit to handler, at fifty messages a second."""

    def run(bench: Bench, system: System) -> float:
        amount = min(500, bench.messages)
        with bench.crew(system, "latency") as crew, crew.working(1):
            # One that is through tells that the worker has begun, and gone idle again.
            crew.do("produce", 1)
            crew.wait_for(1)
            crew.do("produce", amount)
            crew.wait_for(amount + 1)
            found = sorted(protocol.latencies(crew.folder, amount))
        return 1000 * found[min(int(len(found) * quantile), len(found) - 1)]

    return run


@dataclass(frozen=True, slots=True)
class Phase:
    """One measure: who takes part, ours first, and what ours is to reach beside each."""

    title: str
    unit: str
    measure: Callable[[Bench, System], float]
    systems: Sequence[str]
    least: dict[str, float]
    lower_is_better: bool = False


_ALL = ("vulkan", "pgqueuer", "procrastinate", "chancy")
_LATENCY = ("vulkan", "vulkan_async", "pgqueuer", "procrastinate", "chancy")
PHASES = (
    Phase("publish, 1,000 a call", "a second", bulk, _ALL, {"pgqueuer": 2.0}),
    Phase("consume, one process", "a second", consume(1), _ALL, {"pgqueuer": 6.0}),
    Phase("consume, two processes", "a second", consume(2), _ALL, {}),
    Phase(
        "fail twice, then succeed", "a second", fail, _ALL, {"pgqueuer": 6.0, "chancy": 6.0}
    ),
    Phase(
        "commit to handler, p50", "ms", latency(0.5), _LATENCY, {"pgqueuer": 1.0, "chancy": 1.0},
        lower_is_better=True,
    ),
    Phase(
        "commit to handler, p99", "ms", latency(0.99), _LATENCY, {"pgqueuer": 1.0, "chancy": 1.0},
        lower_is_better=True,
    ),
    Phase("SQLite: consume, one process", "a second", consume(1), ("vulkan_sqlite", "huey"),
          {"huey": 5.0}),
)  # fmt: skip


@dataclass(slots=True)
class Result:
    """A phase, measured: a figure a round for each system."""

    phase: Phase
    figures: dict[str, list[float]]

    def ratio(self, peer: str) -> float:
        """How many times better ours is: the median of the rounds' own ratios."""
        ours = self.figures[self.phase.systems[0]]
        pairs = zip(ours, self.figures[peer], strict=True)
        if self.phase.lower_is_better:
            return statistics.median(theirs / mine for mine, theirs in pairs)
        return statistics.median(mine / theirs for mine, theirs in pairs)


def measure(bench: Bench, phase: Phase, *, rounds: int, chosen: Sequence[str]) -> Result:
    """Every system in every round, in changing order."""
    names = [name for name in phase.systems if name in chosen]
    figures: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names if turn % 2 else reversed(names):
            figures[name].append(phase.measure(bench, SYSTEMS[name]))
    return Result(phase, figures)
