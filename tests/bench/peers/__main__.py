"""Other queues on PostgreSQL beside ours, in one run: ``nox -s bench_peers``.

Each system runs in an environment of its own; only ratios within one run mean anything.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tests.bench.peers.crew import SYSTEMS
from tests.bench.peers.phases import PHASES, Bench, Result, measure
from tests.bench.report import circumstances
from tests.bench.setting import Setting
from tests.databases import Cluster, postgresql_url


def main(arguments: Sequence[str] | None = None) -> None:
    asked = _parser().parse_args(arguments)
    cluster = Cluster(postgresql_url())
    with cluster.database() as database, closing(Setting(database)) as setting:
        facts = circumstances(setting, asked.rounds)
    print("; ".join(f"{name} {value}" for name, value in facts.items()), "\n", flush=True)
    bench = Bench(cluster, asked.environments, asked.messages)
    chosen = asked.systems.split(",") if asked.systems else list(SYSTEMS)
    results = []
    for phase in PHASES:
        if asked.only in phase.title and phase.systems[0] in chosen:
            results.append(measure(bench, phase, rounds=asked.rounds, chosen=chosen))
            print("\n".join(_lines(results[-1])), file=sys.stderr, flush=True)
    print("\n".join(_table(results)))
    if asked.json:
        document = {each.phase.title: each.figures for each in results}
        text = json.dumps({"facts": facts, "results": document}, indent=2)
        asked.json.write_text(f"{text}\n", encoding="utf-8")


def _table(results: Sequence[Result]) -> Iterator[str]:
    yield "| system | median [range] | ours is so many times better | at least |"
    yield "|---|---|---|---|"
    for result in results:
        yield from _lines(result)


def _lines(result: Result) -> Iterator[str]:
    phase = result.phase
    yield f"| **{phase.title}** ({phase.unit}) | | | |"
    for name, figures in result.figures.items():
        middle = statistics.median(figures)
        shown = f"{_figure(middle)} [{_figure(min(figures))}-{_figure(max(figures))}]"
        if name == phase.systems[0]:
            yield f"| {name} | **{shown}** | | |"
            continue
        ratio = result.ratio(name)
        least = phase.least.get(name)
        told = "" if least is None else f"{least:g}: {'met' if ratio >= least else 'not met'}"
        yield f"| {name} | {shown} | {ratio:.2f} | {told} |"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=100_000, help="of the quickest systems")
    parser.add_argument("--environments", type=Path, default=Path(".nox/peers"), metavar="FOLDER")
    parser.add_argument("--systems", default="", help="these, separated by commas")
    parser.add_argument("--only", default="", help="phases whose title holds this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also as JSON")
    return parser


if __name__ == "__main__":
    main()
