"""Publishers and workers side by side, and a ledger that has to balance: ``nox -s stress``.

It makes a database of its own on PostgreSQL and drops it. With ``--kills`` a worker is killed now
and then and replaced.
"""

import argparse
import multiprocessing
import random
import sys
import time
from collections.abc import Sequence
from multiprocessing.context import SpawnProcess

from sqlalchemy import NullPool, create_engine

from tests.databases import Cluster, migrate, postgresql_url
from tests.stress.ledger import discrepancies, unsettled
from tests.stress.roles import Share, metadata, publish, work

_processes = multiprocessing.get_context("spawn")


def stress(
    url: str, *, messages: int, publishers: int, workers: int, kills: int, patience: float
) -> list[str]:
    """Runs it to the end, and tells what does not balance."""
    engine = create_engine(url, poolclass=NullPool)
    migrate(url)
    metadata.create_all(engine)
    crew = [_start(work, url) for _ in range(workers)]
    share = -(-messages // publishers)
    shares = [
        Share(url, first, min(share, messages - first), seed=first)
        for first in range(0, messages, share)
    ]
    publishing = [_start(publish, each) for each in shares]
    deadline = time.monotonic() + patience
    try:
        while unsettled(engine, messages) > 0 and time.monotonic() < deadline:
            time.sleep(0.2)
            if kills and random.random() < 0.1:
                kills -= 1
                victim = random.randrange(workers)
                crew[victim].kill()
                crew[victim] = _start(work, url)
    finally:
        for process in publishing:
            process.join(max(0.0, deadline - time.monotonic()))
        for process in crew:
            process.terminate()
        for process in [*crew, *publishing]:
            process.join(60)
            process.kill()
    failed = [f"a publisher ended with {each.exitcode}" for each in publishing if each.exitcode]
    found = [*failed, *discrepancies(engine, messages)]
    engine.dispose()
    return found


def _start(role: object, argument: object) -> SpawnProcess:
    process = _processes.Process(target=role, args=(argument,), daemon=True)  # type: ignore[arg-type]
    process.start()
    return process


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--publishers", type=int, default=8)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--patience", type=float, default=1800, help="seconds")
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    with Cluster(postgresql_url()).database() as database:
        found = stress(database.sync_url, **vars(asked))
    print(f"{asked.messages} messages in {time.monotonic() - began:.0f} s; kills: {asked.kills}")
    print("\n".join(found) or "The ledger balances.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
