"""Figures beside the bare driver's floor, all in one run on one PostgreSQL.

It makes a database of its own and drops it. Only ratios within one run mean anything.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url

from tests.bench.bulk import Bulk
from tests.bench.costs import costs
from tests.bench.delivering import Delivering
from tests.bench.embedded import Embedded
from tests.bench.measuring import Comparison, Result, measure
from tests.bench.publishing import Publishing
from tests.bench.report import circumstances, document, spent, table, targets
from tests.bench.retrying import Retrying
from tests.bench.scaling import Scaling
from tests.bench.setting import Setting
from tests.databases import POSTGRESQL_VARIABLE, Cluster, postgresql_url

KINDS = (Publishing, Bulk, Delivering, Retrying, Embedded, Scaling)


def main(arguments: Sequence[str] | None = None) -> None:
    asked = _parser().parse_args(arguments)
    url = make_url(asked.database) if asked.database else postgresql_url()
    cluster = Cluster(url.set(drivername="postgresql+psycopg"))
    with cluster.database() as database, closing(Setting(database, depth=asked.depth)) as setting:
        facts = circumstances(setting, asked.rounds)
        print("; ".join(f"{name} {value}" for name, value in facts.items()), "\n", flush=True)
        comparisons = [each for kind in KINDS for each in kind(setting).comparisons()]
        chosen = [each for each in comparisons if asked.only in each.title]
        results: list[Result] = []
        for line in table(_measured(chosen, asked, results)):
            # At once: a run is long, and what cuts it off should not take what it has found.
            print(line, flush=True)
        print()
        sizes = {"rounds": asked.rounds, "messages": asked.messages, "memory": asked.memory}
        found = list(costs(setting, **sizes)) if asked.only in "costs" else []
        print("\n".join([*spent(found), *targets(results, found)]))
    if asked.json:
        text = json.dumps(document(facts, results, found), indent=2)
        asked.json.write_text(f"{text}\n", encoding="utf-8")


def _measured(
    comparisons: Sequence[Comparison], asked: argparse.Namespace, results: list[Result]
) -> Iterator[Result]:
    for each in comparisons:
        results.append(measure(each, rounds=asked.rounds, messages=asked.messages))
        yield results[-1]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=_positive, default=3)
    parser.add_argument(
        "--messages", type=_positive, default=5000, help="of slow work; quick work does more"
    )
    parser.add_argument(
        "--database", metavar="URL", help=f"the server (else {POSTGRESQL_VARIABLE}, else local)"
    )
    parser.add_argument("--depth", type=_positive, default=1_000_000, help="messages that wait")
    parser.add_argument(
        "--memory", type=_positive, default=100_000, help="messages for the measure of memory"
    )
    parser.add_argument("--only", default="", help="comparisons whose title holds this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also as JSON")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than one")
    return number


if __name__ == "__main__":
    main()
