"""The statements of the hot paths, as each database gets them, against reviewed snapshots.

After a change that is meant: VULKAN_TEST_SNAPSHOTS=write pytest tests/unit/test_statements.py,
and read what `git diff` says.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import ClauseElement, make_url

from vulkan_orm.store import claiming, fencing, publishing, recovering, settling, waking
from vulkan_orm.store.dialects import Dialect, dialect_of

SNAPSHOTS = Path(__file__).parent / "snapshots"
WRITE = os.environ.get("VULKAN_TEST_SNAPSHOTS") == "write"
INSTALLATION = 42


def compiler(url: str) -> Any:
    dialect: Any = make_url(url).get_dialect()
    return dialect(paramstyle="named")


COMPILERS = {
    "postgresql": compiler("postgresql+psycopg://"),
    "sqlite": compiler("sqlite://"),
}

EVERYWHERE: dict[str, Callable[[Dialect], ClauseElement]] = {
    # Publishing
    "publish": lambda d: publishing.append(d, INSTALLATION, ids_given=False),
    "publish_with_ids": lambda d: publishing.append(d, INSTALLATION, ids_given=True),
    "take_idempotency_keys": lambda d: publishing.take_keys(d, INSTALLATION),
    "idempotency_keys_taken": lambda _: publishing.keys_taken(["a", "b"]),
    # The range path
    "range_waiting": lambda d: claiming.waiting_range(d, 1),
    "range_take": lambda _: claiming.take_range(1, "owner", 30.0, careful=True),
    "group_position": lambda d: claiming.position(d, 1),
    "group_advance": lambda d: claiming.advance(d, 1, 100),
    "range_add": lambda _: claiming.add_range(1, 1, 100, "owner", 30.0),
    "log_read": lambda d: claiming.log(d, 1, after=0, upto=100, limit=100),
    "log_unread": lambda d: claiming.unread(d, True),
    "range_move": lambda _: settling.move_range(),
    "range_finish": lambda _: settling.finish_range(),
    "range_hand_back": lambda _: settling.hand_back_range(),
    "range_prove": lambda d: settling.range_of(d, 1, 10, "owner"),
    "range_renew": lambda _: claiming.renew_range("owner", 30.0),
    # The retry path
    "retry_due": lambda d: claiming.due_runs(d, at_instant=False),
    "retry_due_at": lambda d: claiming.due_runs(d, at_instant=True),
    "retry_start": claiming.start_runs,
    "retry_bury": claiming.bury,
    "retry_renew": lambda _: claiming.renew_runs("owner", 30.0),
    "held_claim": lambda d: claiming.held_runs(d, [1, 2]),
    # Waking up
    "look": lambda d: waking.look(d, 1, 1),
    # Outcomes
    "outcome_first_failures": settling.queue_first_failures,
    "outcome_settle": settling.settle_runs,
    "outcome_finish": settling.finish_runs,
    "outcome_log": settling.log_outcomes,
    "recover_runs": lambda d: recovering.expired_runs(d, 100),
}
POSTGRESQL: dict[str, Callable[[Dialect], ClauseElement]] = {
    "log_claim_unread": lambda d: claiming.claim_unread(d, True),
    "draw_ids": lambda d: publishing.draw(d, INSTALLATION),
    "fence_log_end": lambda _: fencing.log_end(),
    "fence_publishers": lambda _: fencing.publishers(INSTALLATION, 1),
    "sleep": lambda d: waking.sleep(d, 1, "channel", 60.0),
    "rise": lambda d: waking.rise(d, 1, "channel"),
}
CASES = [
    *((database, name) for database in COMPILERS for name in EVERYWHERE),
    *(("postgresql", name) for name in POSTGRESQL),
]


BREAKS = re.compile(r" (?=(?:SELECT|FROM|JOIN|SET|WHERE|AND|ORDER BY|ON CONFLICT|RETURNING)\b)")


def sql(database: str, name: str) -> str:
    build = EVERYWHERE.get(name) or POSTGRESQL[name]
    text = str(build(dialect_of(database)).compile(dialect=COMPILERS[database]))
    lines = (line.strip() for line in BREAKS.sub("\n", text).splitlines())
    return "\n".join(line for line in lines if line) + "\n"


@pytest.mark.parametrize(("database", "name"), CASES)
def test_a_statement_is_the_one_that_was_reviewed(database: str, name: str) -> None:
    file = SNAPSHOTS / database / f"{name}.sql"
    found = sql(database, name)
    if WRITE:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(found, encoding="utf-8")

    assert file.read_text(encoding="utf-8") == found


def test_there_are_no_snapshots_of_statements_that_are_gone() -> None:
    found = {(file.parent.name, file.stem) for file in SNAPSHOTS.rglob("*.sql")}
    assert found == set(CASES)


@pytest.mark.parametrize("database", COMPILERS)
def test_what_a_partial_index_needs_stands_in_the_text(database: str) -> None:
    """A plan that is made without the parameters' values could not use it."""
    assert "state = 'ready'" in sql(database, "retry_due")
    assert "state = 'ready'" in sql(database, "retry_due_at")
    assert "state = 'running'" in sql(database, "recover_runs")
    assert "state = 'running'" in sql(database, "retry_renew")


def test_the_fence_is_taken_before_an_id_is_drawn() -> None:
    """R33: in one statement, from a common table that must be there first."""
    for name in ("publish", "draw_ids", "take_idempotency_keys"):
        found = sql("postgresql", name)
        assert "AS MATERIALIZED" in found
        assert "pg_advisory_xact_lock_shared" in found.split("nextval")[0]


def test_readers_look_at_no_clock_of_the_transaction() -> None:
    """`now()` is when a transaction began: a delay after a long range would be due already."""
    for database, name in CASES:
        assert " now()" not in sql(database, name).lower()
        assert "current_timestamp" not in sql(database, name).lower()
