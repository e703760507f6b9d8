"""Other Python queues and ours in one interleaved run: ``nox -s bench_peers``.

It installs the peers, each in an environment of its own, and makes a database for every run on
PostgreSQL, or a SQLite file, and drops it. Only ratios within one run mean anything. Ours works
with what its environment has; the peers' loops are uvloop.
"""

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from tests.bench.peers.phases import PHASES, Phase
from tests.bench.peers.report import Figures, document, table
from tests.bench.peers.running import fresh
from tests.bench.peers.systems import PEERS, System
from tests.databases import Cluster, postgresql_url

def main(arguments: Sequence[str] | None = None) -> None:
    asked = _parser().parse_args(arguments)
    cluster = Cluster(postgresql_url())
    peers = [PEERS[name] for name in asked.peers]
    for peer in peers:
        peer.install(asked.venvs)
    facts = _circumstances(peers)
    print("; ".join(f"{name} {value}" for name, value in facts.items()), "\n", flush=True)
    measured = [
        (phase, _measure(phase, peers, cluster, asked))
        for phase in PHASES
        if asked.only in phase.title
    ]
    print("\n".join(table(measured)))
    if asked.json:
        text = json.dumps(document(facts, measured), indent=2)
        asked.json.write_text(f"{text}\n", encoding="utf-8")


def _measure(
    phase: Phase, peers: Sequence[System], cluster: Cluster, asked: argparse.Namespace
) -> Figures:
    """Every system in every round, in changing order."""
    systems = [*(peer for peer in phase.peers if peer in peers), *phase.ours]
    figures = Figures()
    for turn in range(asked.rounds):
        for system in systems if turn % 2 else reversed(systems):
            count = min(phase.size(system), asked.jobs or phase.size(system))
            with fresh(system, asked.venvs, cluster, count) as run:
                figures.add(system, count, phase.run(run))
    return figures


def _circumstances(peers: Sequence[System]) -> dict[str, str]:
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
    }
    facts |= {name: version(name) for name in ("vulkan-orm", "sqlalchemy", "psycopg", "pydantic")}
    facts |= {peer.name: peer.packages[0].partition("==")[2] for peer in peers}
    url = make_url(postgresql_url()).set(drivername="postgresql")
    with closing(psycopg.connect(url.render_as_string(hide_password=False))) as connection:
        for name in ("server_version", "fsync", "synchronous_commit"):
            row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
            facts[f"postgresql {name}"] = str(row[0]) if row else ""
    return facts


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("--rounds", type=_positive, default=3)
    parser.add_argument("--only", default="", help="phases whose title holds this")
    parser.add_argument(
        "--peers", nargs="*", choices=list(PEERS), default=list(PEERS), help="none for ours alone"
    )
    parser.add_argument("--jobs", type=_positive, help="at most so many a run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also as JSON")
    parser.add_argument(
        "--venvs", type=Path, metavar="FOLDER", default=Path(tempfile.gettempdir(), "vulkan-peers")
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than one")
    return number


if __name__ == "__main__":
    main()
