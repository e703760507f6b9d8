"""What was measured, for people and for programs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.bench.measuring import Figure
from tests.bench.peers.phases import Phase, Target
from tests.bench.peers.systems import System


class Figures:
    """The figures of a phase: by measure, then by system."""

    def __init__(self) -> None:
        self.counts: dict[System, int] = {}
        self.measures: dict[str, dict[System, Figure]] = {}

    def add(self, system: System, count: int, found: Mapping[str, float]) -> None:
        self.counts[system] = count
        for measure, value in found.items():
            figures = self.measures.setdefault(measure, {})
            figures.setdefault(system, Figure(system.title)).rates.append(value)


Measured = Sequence[tuple[Phase, Figures]]


def table(measured: Measured) -> Iterator[str]:
    """Markdown: a line for each system, with how ours stands to it and what was aimed at."""
    yield "| what | median [range] | ours / this | target |"
    yield "|---|---|---|---|"
    for phase, figures in measured:
        for measure, found in figures.measures.items():
            yield f"| **{phase.title}, {measure}** | | | |"
            for system in sorted(found, key=lambda each: each in phase.ours):
                yield _line(phase, figures, found, system)


def _line(
    phase: Phase, figures: Figures, found: Mapping[System, Figure], system: System
) -> str:
    name = f"{system.title} ({figures.counts[system]:,})"
    if system in phase.ours:
        return f"| {name} | **{_span(found[system])}** | | |"
    ratios = [(ours, found[ours].share_of(found[system])) for ours in phase.ours]
    shown = ", ".join(f"{ratio:.2f}" for _, ratio in ratios)
    aims = [target for target in phase.targets if target.peer == system]
    told = [_verdict(target, [ratio for _, ratio in ratios]) for target in aims]
    return f"| {name} | {_span(found[system])} | {shown} | {', '.join(told)} |"


def _verdict(target: Target, ratios: Sequence[float]) -> str:
    met = " / ".join("met" if target.met(ratio) else "NOT met" for ratio in ratios)
    return f"{target}: {met}"


def _span(figure: Figure) -> str:
    low, high = min(figure.rates), max(figure.rates)
    digits = 0 if figure.median >= 100 else 1
    return f"{figure.median:,.{digits}f} [{low:,.{digits}f}-{high:,.{digits}f}]"


def document(facts: Mapping[str, str], measured: Measured) -> dict[str, Any]:
    return {
        "circumstances": dict(facts),
        "results": [
            {
                "phase": phase.title,
                "measure": measure,
                "systems": [
                    {
                        "name": system.name,
                        "count": figures.counts[system],
                        "values": figure.rates,
                        "ours": system in phase.ours,
                    }
                    for system, figure in found.items()
                ],
            }
            for phase, figures in measured
            for measure, found in figures.measures.items()
        ],
    }
