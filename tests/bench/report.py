"""What was measured, for people and for programs."""

import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench.costs import Cost
from tests.bench.measuring import Figure, Result
from tests.bench.setting import Setting

PACKAGES = ("vulkan-orm", "sqlalchemy", "psycopg", "pydantic")
SETTINGS = ("server_version", "fsync", "synchronous_commit")


def circumstances(setting: Setting, rounds: int) -> dict[str, str]:
    """When, where and with what: figures of another machine do not compare."""
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "rounds": str(rounds),
        "python": platform.python_version(),
    }
    facts |= {name: version(name) for name in PACKAGES}
    for name in SETTINGS:
        row = setting.bare.execute("SELECT current_setting(%s)", [name]).fetchone()
        facts[f"postgresql {name}"] = str(row[0]) if row else ""
    setting.bare.commit()
    return facts


def _processor() -> str:
    """Its model, where the system names it."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def table(results: Iterable[Result]) -> Iterator[str]:
    """Markdown, line by line as it is measured: each floor with the share that ours reaches."""
    yield "| way | a second, median [range] | ours / this |"
    yield "|---|---|---|"
    for result in results:
        yield f"| **{result.title}** ({result.count:,} {result.unit}) | | |"
        for floor in result.floors:
            yield f"| {floor.way} | {_span(floor)} | {result.ours.share_of(floor):.2f} |"
        yield f"| {result.ours.way} | **{_span(result.ours)}** | |"


def _span(figure: Figure) -> str:
    return f"{figure.median:,.0f} [{min(figure.rates):,.0f}-{max(figure.rates):,.0f}]"


def spent(costs: Sequence[Cost]) -> Iterator[str]:
    """Markdown: what is not a matter of time."""
    if not costs:
        return
    yield "| cost | measured |"
    yield "|---|---|"
    for cost in costs:
        yield f"| {cost.title} | {cost.told} |"
    yield ""


def targets(results: Sequence[Result], costs: Sequence[Cost]) -> Iterator[str]:
    """Markdown: what is to be reached, and whether it was."""
    yield "| target | beside | wanted | measured | met |"
    yield "|---|---|---|---|---|"
    for result in results:
        if result.least is not None:
            wanted = f"at least {result.least:g}"
            met = _met(result.share >= result.least)
            beside = result.floors[-1].way
            yield f"| {result.title} | {beside} | {wanted} | {result.share:.2f} | {met} |"
    for cost in costs:
        if cost.most is not None:
            wanted = f"at most {cost.most:g} {cost.unit}".strip()
            yield f"| {cost.title} | | {wanted} | {cost.told} | {_met(cost.value <= cost.most)} |"


def _met(truth: bool) -> str:
    return "yes" if truth else "**no**"


def document(
    facts: Mapping[str, str], results: Sequence[Result], costs: Sequence[Cost]
) -> dict[str, Any]:
    return {
        "circumstances": dict(facts),
        "results": [_described(result) for result in results],
        "costs": [asdict(cost) for cost in costs],
    }


def _described(result: Result) -> dict[str, Any]:
    floors = [
        {"way": floor.way, "rates": floor.rates, "share": result.ours.share_of(floor)}
        for floor in result.floors
    ]
    return {
        "title": result.title,
        "unit": result.unit,
        "count": result.count,
        "ours": {"way": result.ours.way, "rates": result.ours.rates},
        "floors": floors,
        "least": result.least,
    }
