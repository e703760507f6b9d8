"""Each guard that a loss or a stall was reproduced for, with it and without it.

A test that passes proves little unless it can fail: beside each one stands the same course of
events with the guard taken out, and the harm that comes of it.
"""

import asyncio
import contextlib
import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Delete, bindparam, delete, event, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tests.faults.support import AT_ONCE, GROUP, TOPIC, WRITE, Job, Site, later, wait_until
from vulkan_orm import Delay, MessageMeta, Outcome, RetryPolicy, StaleClaim, Vulkan
from vulkan_orm.consumers import calls, leases, running
from vulkan_orm.consumers.leases import Lease, LeaseKeeper
from vulkan_orm.consumers.loop import worker as crew_of
from vulkan_orm.consumers.shutdown import Stop
from vulkan_orm.core.outcomes import (
    Delayed,
    Ended,
    ErrorText,
    Failed,
    RunOutcome,
    Succeeded,
)
from vulkan_orm.models import RangeClaim
from vulkan_orm.service import settlement
from vulkan_orm.service.database import run
from vulkan_orm.service.deliveries import ClaimedRange, Delivery, Report
from vulkan_orm.service.engines import Engines
from vulkan_orm.service.repository import DeliveryRepository
from vulkan_orm.service.savepoints import MessageSavepoint
from vulkan_orm.service.settlement import Settlement
from vulkan_orm.service.watermark import Watermark
from vulkan_orm.store import clock, recovering, settling
from vulkan_orm.store.dialects.base import Dialect
from vulkan_orm.store.dialects.postgresql import PostgreSQL

A_WHILE = 600.0
ERROR = ErrorText("ValueError", "as the worker says")
NOT_OURS: Any = lambda *_: None  # noqa: E731


@pytest.fixture
def long_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges are not cut short, so that only what a test is about can end one."""
    for module in (calls, running):
        monkeypatch.setattr(module, "RANGE_TARGET", 60.0)


def five(site: Site) -> None:
    site.publish(*(Job(n=n) for n in range(1, 6)))


# The transaction that messages share.


def by_driver(session: Session, call: str) -> None:
    getattr(session.connection().connection.driver_connection, call)()


ENDINGS: dict[str, Callable[[Session], Any]] = {
    "text ROLLBACK": lambda session: session.execute(text("ROLLBACK")),
    "text COMMIT": lambda session: session.execute(text("/* done */ commit")),
    "driver rollback": lambda session: by_driver(session, "rollback"),
    "session.commit": lambda session: session.commit(),
    "session.rollback": lambda session: session.rollback(),
    "session.close": lambda session: session.close(),
    "nested left open": lambda session: session.begin_nested(),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("place", [1, 5])
def test_a_handler_that_ends_the_shared_transaction_harms_none_of_its_neighbours(
    site: Site, ending: str, place: int
) -> None:
    """R42, C17: their writes are there once; the culprit alone has a failed run, and a code."""
    five(site)
    _drain_with_culprit(site, ENDINGS[ending], place)
    others = [n for n in range(1, 6) if n != place]
    assert [n for n in site.effects() if n != place] == others
    assert set(site.outcomes()) == {place}
    row = site.row()
    assert (row.state, row.attempts) == ("dead", 1)
    assert site.log()[0].error_code in ("VK0031", "VK0032")


def test_without_the_check_of_savepoints_neighbours_are_acknowledged_without_their_effects(
    site: Site,
) -> None:
    """R42: what the sentinel savepoint prevents, where a driver lost the transaction silently."""
    five(site)
    _drain_with_culprit(site, ENDINGS["driver rollback"], 3, blind=True)
    assert site.effects() == [4, 5]
    assert site.queue() == []
    assert site.ranges() == []


def dialect_of_workers(engines: Engines) -> Any:
    """SQLAlchemy's dialect as it drives the connections of workers."""
    return engines.session().get_bind().dialect


def _drain_with_culprit(
    site: Site, ending: Callable[[Session], Any], place: int, *, blind: bool = False
) -> None:
    def handle(job: Job, session: Session) -> None:
        session.execute(WRITE, {"n": job.n})
        if job.n == place:
            ending(session)

    worker = site.worker(handle, isolation="range", retry=RetryPolicy(max_retries=0))
    if blind:
        # As a database that says yes to the release of a savepoint it does not have.
        dialect = dialect_of_workers(worker.engines)
        dialect.do_release_savepoint = lambda connection, name: None
    worker.drain()


def refuse_at_commit(site: Site) -> None:
    site.execute("ALTER TABLE effect ADD UNIQUE (n) DEFERRABLE INITIALLY DEFERRED")
    site.execute("INSERT INTO effect VALUES (3)")


def test_a_range_whose_commit_is_refused_fails_only_the_message_that_was_the_cause(
    postgresql_site: Site,
) -> None:
    """R41a: the deferred constraint is checked at COMMIT, after all five have run."""
    site = postgresql_site
    five(site)
    refuse_at_commit(site)
    worker = site.worker(_write, retry=RetryPolicy(max_retries=0))
    worker.drain()
    assert site.effects() == [1, 2, 3, 4, 5]
    assert site.outcomes() == {3: ["exception"]}
    assert "UniqueViolation" in (site.row().last_error or "")


def test_without_that_guard_the_whole_range_comes_to_nothing(
    postgresql_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R41a: it fails as one, however often it is tried."""

    class NeverRaised(Exception):
        pass

    site = postgresql_site
    five(site)
    refuse_at_commit(site)
    monkeypatch.setattr(running, "DBAPIError", NeverRaised)
    worker = site.worker(_write, retry=RetryPolicy(max_retries=0))
    for _ in range(3):
        with pytest.raises(IntegrityError):
            worker.drain()
    assert site.effects() == [3]
    assert len(site.ranges()) == 1


def _write(job: Job, session: Session) -> None:
    session.execute(WRITE, {"n": job.n})


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_whose_answer_was_lost_is_looked_up_before_anything_runs_again(
    postgresql_site: Site, committed: bool
) -> None:
    """C17 (c): the connection breaks during COMMIT; the claim tells whether it happened."""
    site = postgresql_site
    site.publish(Job(n=1), Job(n=2))
    runs: list[int] = []
    breaks = _CommitThatBreaks(committed=committed)

    def handle(job: Job, session: Session) -> None:
        runs.append(job.n)
        _write(job, session)
        breaks.armed = len(runs) == 2

    worker = site.worker(handle)
    breaks.install(worker.engines)
    worker.drain()
    assert site.effects() == [1, 2]
    assert runs == ([1, 2] if committed else [1, 2, 1, 2])
    assert site.log() == []


class _CommitThatBreaks:
    """Closes the connection after or before the next COMMIT, once."""

    def __init__(self, *, committed: bool) -> None:
        self.armed = False
        self._committed = committed

    def install(self, engines: Engines) -> None:
        dialect = dialect_of_workers(engines)
        commit = dialect.do_commit

        def do_commit(connection: Any) -> None:
            if self.armed and not self._committed:
                connection.driver_connection.close()
            else:
                commit(connection)
            if self.armed:
                self.armed = False
                connection.driver_connection.close()
                raise psycopg.OperationalError("server closed the connection unexpectedly")

        dialect.do_commit = do_commit


@pytest.mark.usefixtures("long_transactions")
def test_a_transaction_never_has_more_than_sixty_writing_savepoints(
    postgresql_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """design.md: beyond 64 subtransactions every other session reads slower."""
    assert max(_savepoints(postgresql_site, monkeypatch)) <= 60


@pytest.mark.usefixtures("long_transactions")
def test_without_that_cap_a_range_opens_as_many_as_it_has_messages(
    postgresql_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """design.md: what the cap prevents."""
    monkeypatch.setattr(calls, "MAX_SAVEPOINTS", 1_000_000)
    assert max(_savepoints(postgresql_site, monkeypatch)) > 64


def _savepoints(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many savepoints each transaction of a drain opened."""
    site.publish(*(Job(n=n) for n in range(150)))
    worker = site.worker(_write)
    counts = [0]
    take = MessageSavepoint.take

    def counted(savepoint: MessageSavepoint) -> str:
        counts[-1] += 1
        return take(savepoint)

    monkeypatch.setattr(MessageSavepoint, "take", counted)
    event.listen(worker.engines.sync_engine, "begin", lambda _: counts.append(0))
    worker.drain()
    assert site.effects() == list(range(150))
    return counts


# The clock.


def test_a_delay_counts_from_the_outcome_and_not_from_the_start_of_the_transaction(
    postgresql_site: Site,
) -> None:
    """R8, design.md: a Delay of a second after a transaction of longer is not already due."""
    ends = _delay_after_long_transaction(postgresql_site)
    assert len(ends) == 1
    assert postgresql_site.row().can_run_after - ends[0] >= timedelta(seconds=1)


def test_by_the_transaction_s_clock_that_delay_would_be_over_before_it_began(
    postgresql_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """design.md: what clock_timestamp() prevents."""
    specs: dict[str, Any] = clock._DatabaseClock._compiler_dispatcher.specs  # type: ignore[attr-defined]
    ours = specs["postgresql"]

    def now(*arguments: Any, **options: Any) -> str:
        spelt: str = ours(*arguments, **options)
        return spelt.replace("clock_timestamp()", "now()")

    monkeypatch.setitem(specs, "postgresql", now)
    # And so the drain runs it again, at once.
    assert len(_delay_after_long_transaction(postgresql_site)) > 1


def _delay_after_long_transaction(site: Site) -> list[datetime]:
    """When the runs of a message ended that asks for a delay shorter than its transaction."""
    ends: list[datetime] = []

    def handle(job: Job, session: Session) -> None:
        session.execute(text("SELECT now()"))
        ended = session.scalar(text("SELECT clock_timestamp() FROM pg_sleep(1.1)"))
        assert ended is not None
        ends.append(ended)
        raise Delay(1)

    site.publish(Job(n=1))
    site.worker(handle).drain()
    return ends


# Whose run it is.


def overtaken(site: Site, path: str) -> list[int]:
    """Runs of a message whose claim another worker takes over while its handler runs."""
    state = {"overtaken": False}
    runs: list[int] = []

    def handle(job: Job, session: Session, meta: MessageMeta) -> None:
        if path == "retry" and meta.attempts == 0:
            raise ValueError("the first run fails")
        runs.append(job.n)
        if not state["overtaken"]:
            state["overtaken"] = True
            with later(A_WHILE):
                thief.drain()
        _write(job, session)

    site.publish(Job(n=1))
    thief = site.worker(handle)
    with contextlib.suppress(StaleClaim):
        site.worker(handle).drain()
    return runs


@pytest.mark.parametrize("path", ["range", "retry"])
def test_a_worker_that_was_overtaken_is_refused_and_its_effects_are_undone(
    site: Site, path: str
) -> None:
    """R18, G3: two runs, since the first looked dead; one effect."""
    assert overtaken(site, path) == [1, 1]
    assert site.effects() == [1]
    assert site.queue() == []


def test_without_proof_of_the_range_the_effects_happen_twice(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R18: what the ownership of the range commit prevents."""

    def trust(
        self: Settlement, claimed: ClaimedRange, before: int, statement: Any, values: Any
    ) -> None:
        proof = {"range": claimed.id, "held_by": claimed.owner, "before": before}
        run(self.session, statement, {**proof, **values})

    monkeypatch.setattr(Settlement, "_own", trust)
    overtaken(site, "range")
    assert site.effects() == [1, 1]


def test_without_proof_of_the_run_the_effects_happen_twice(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R18: what the ownership of a retry prevents."""
    monkeypatch.setattr(settlement, "_all_ours", NOT_OURS)
    monkeypatch.setattr(Settlement, "_log", NOT_OURS)
    overtaken(site, "retry")
    assert site.effects() == [1, 1]


def test_a_range_that_somebody_took_over_is_not_finished_by_who_had_it(site: Site) -> None:
    """R18: the claim that is deleted is one's own, whoever is quicker."""
    late, thief = _two_owners_of_a_range(site)
    with pytest.raises(StaleClaim), site.repository() as repository:
        _finish(repository, late)
    (claim,) = site.ranges()
    assert claim.owner == thief.owner
    with site.repository() as repository:
        _finish(repository, thief)
    assert site.ranges() == []


def test_without_the_owner_in_that_delete_the_claim_of_another_is_gone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R18: what the owner in it prevents."""

    def finish() -> Delete:
        return delete(RangeClaim).where(RangeClaim.id == bindparam("range"))

    monkeypatch.setattr(settling, "finish_range", finish)
    late, _ = _two_owners_of_a_range(site)
    with site.repository() as repository:
        _finish(repository, late)
    assert site.ranges() == []


def _two_owners_of_a_range(site: Site) -> tuple[ClaimedRange, ClaimedRange]:
    site.publish(Job(n=1))
    return _claim(site), _claim(site, after=A_WHILE)


def _claim(site: Site, *, after: float = 0.0, lease: float = 60.0) -> ClaimedRange:
    group = site.group()
    with later(after), site.repository() as repository:
        claimed = repository.claim_range(
            group, uuid4().hex, limit=100, lease=lease, watermark=Watermark()
        )
    assert claimed is not None
    return claimed


def _finish(repository: DeliveryRepository, claimed: ClaimedRange) -> None:
    reports = [Report(each, Succeeded()) for each in claimed.deliveries]
    repository.settle_range(claimed, reports, AT_ONCE, progress=claimed.last, lease=60.0)


def claim_retries(site: Site, count: int = 1, **options: float) -> Sequence[Delivery]:
    """Due retries of a group that another has run once, claimed by a worker of its own name."""
    group = site.group()
    if not site.queue():
        site.publish(*(Job(n=n) for n in range(1, count + 1)))
        claimed = _claim(site)
        with site.repository() as repository:
            reports = [Report(each, Failed(ERROR)) for each in claimed.deliveries]
            repository.settle_range(claimed, reports, AT_ONCE, progress=claimed.last, lease=60.0)
    with later(options.get("after", 0.0)), site.repository() as repository:
        return repository.claim_due(group, AT_ONCE, uuid4().hex, limit=100, lease=60.0)


def recover(site: Site, after: float = A_WHILE) -> int:
    with later(after), site.repository() as repository:
        return repository.recover()


@pytest.mark.parametrize("stale", ["owner", "attempt"])
def test_a_report_needs_both_the_owner_and_the_attempt_of_the_run(site: Site, stale: str) -> None:
    """R18: neither a recovered run nor an earlier attempt can speak for the present one."""
    late, current = _two_owners_of_a_run(site)
    if stale == "attempt":
        late = replace(current, counters=late.counters)
    with pytest.raises(StaleClaim), site.repository() as repository:
        repository.apply_outcome(late, Ended(ERROR), AT_ONCE)
    row = site.row()
    assert (row.state, row.owner, row.attempts) == ("running", current.owner, 3)


@pytest.mark.parametrize("missing", ["owner", "attempts"])
def test_without_either_of_them_a_late_report_ends_the_run_of_another(
    site: Site, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """R18: what each of the two prevents."""
    _leave_out(monkeypatch, missing)
    monkeypatch.setattr(Settlement, "_log", NOT_OURS)
    late, current = _two_owners_of_a_run(site)
    if missing == "attempts":
        late = replace(current, counters=late.counters)
    else:
        late = replace(late, counters=current.counters)
    with site.repository() as repository:
        repository.apply_outcome(late, Ended(ERROR), AT_ONCE)
    assert site.row().state == "dead"


def _two_owners_of_a_run(site: Site) -> tuple[Delivery, Delivery]:
    (late,) = claim_retries(site)
    assert recover(site) == 1
    (current,) = claim_retries(site, after=A_WHILE)
    return late, current


def _leave_out(monkeypatch: pytest.MonkeyPatch, *columns: str) -> None:
    still_owned = settling._still_owned

    def fewer(row: Any) -> tuple[Any, ...]:
        clauses = still_owned(row)
        left = tuple(each for each in clauses if each.left.name not in columns)
        assert len(left) == len(clauses) - len(columns)
        return left

    monkeypatch.setattr(settling, "_still_owned", fewer)
    # As it is now, and not as it was built before.
    monkeypatch.setattr(settling, "settle_runs", inspect.unwrap(settling.settle_runs))


# Recovery.


class Recovery(DeliveryRepository):
    """A recovery with something that happens between its SELECT and its UPDATE."""

    between: Callable[[], None] | None = None

    def apply_outcomes(self, *arguments: Any, **options: Any) -> Any:
        if self.between is not None:
            between, self.between = self.between, None
            between()
        return super().apply_outcomes(*arguments, **options)


def recover_around(site: Site, between: Callable[[], None]) -> int:
    with later(A_WHILE), Session(site.engine) as session, session.begin():
        recovery = Recovery(session)
        recovery.between = between
        return recovery.recover()


def settle(site: Site, delivery: Delivery, outcome: RunOutcome) -> None:
    with Session(site.engine) as session, session.begin():
        session.execute(text("SET LOCAL lock_timeout = '200ms'"))
        DeliveryRepository(session).apply_outcome(delivery, outcome, AT_ONCE)


def without_row_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def locking(self: Dialect, statement: Any, *, skip_locked: bool = False) -> Any:
        return statement

    monkeypatch.setattr(PostgreSQL, "locking", locking)


def test_a_report_that_comes_while_recovery_writes_waits_and_is_then_refused(
    postgresql_site: Site,
) -> None:
    """C02, R18: what recovery has chosen is locked until it is written."""
    site = postgresql_site
    (delivery,) = claim_retries(site)

    def report() -> None:
        with pytest.raises(DBAPIError, match="lock timeout"):
            settle(site, delivery, Ended(ERROR))

    assert recover_around(site, report) == 1
    with pytest.raises(StaleClaim):
        settle(site, delivery, Ended(ERROR))
    row = site.row()
    assert (row.state, row.careful, row.spent) == ("ready", True, 1)


OUTCOMES: dict[str, tuple[RunOutcome, str | None]] = {
    "success": (Succeeded(), None),
    "permanent": (Ended(ERROR), "dead"),
    "delay": (Delayed(ERROR, timedelta(hours=1)), "ready"),
    "failure": (Failed(ERROR), "ready"),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_outcome_recorded_between_recovery_s_look_and_its_write_stands(
    postgresql_site: Site, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    """C02: even where nothing was locked, the write checks owner, attempt and state again."""
    site = postgresql_site
    said, state = OUTCOMES[outcome]
    (delivery,) = claim_retries(site)
    without_row_locks(monkeypatch)
    with contextlib.suppress(StaleClaim):
        recover_around(site, lambda: settle(site, delivery, said))
    assert [row.state for row in site.queue()] == ([] if state is None else [state])
    assert all(not row.careful and row.attempts == 2 for row in site.queue())
    assert len(site.log()) == 2
    assert site.log()[-1].error_type != "WorkerLost"


def test_without_lock_and_check_recovery_revives_what_its_worker_has_ended(
    postgresql_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C02: what the two of them prevent."""
    site = postgresql_site
    (delivery,) = claim_retries(site)
    without_row_locks(monkeypatch)
    _leave_out(monkeypatch, "owner", "attempts")
    monkeypatch.setattr(Settlement, "_log", NOT_OURS)
    recover_around(site, lambda: settle(site, delivery, Ended(ERROR)))
    assert site.row().state == "ready"


def test_recovery_leaves_a_run_alone_whose_outcome_is_about_to_commit(
    postgresql_site: Site,
) -> None:
    """C02: the lease has ended, but the worker is a step ahead."""
    site = postgresql_site
    (delivery,) = claim_retries(site)
    with Session(site.engine) as session, session.begin():
        DeliveryRepository(session).apply_outcome(delivery, Ended(ERROR), AT_ONCE)
        assert recover(site) == 0
    assert recover(site) == 0
    assert site.row().state == "dead"


def test_of_two_recoveries_at_once_each_run_is_taken_back_by_one(site: Site) -> None:
    """C86: one pass has chosen and not committed when the other looks."""
    claim_retries(site, 3)
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(recover(site, 0.0)))
    with later(A_WHILE):
        with site.repository() as repository:
            found.append(repository.recover())
            other.start()
            if site.database.name == "postgresql":
                other.join()
        other.join()
    assert sorted(found) == [0, 3]
    assert [row.outcome for row in site.log()] == ["exception", "interrupted"] * 3
    assert all((row.delays, row.interruptions) == (1, 1) for row in site.queue())


def test_without_locks_the_second_recovery_would_take_the_same_runs_again(
    postgresql_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C86: only the log's key is then left to stop it."""
    site = postgresql_site
    claim_retries(site)
    without_row_locks(monkeypatch)
    _leave_out(monkeypatch, "owner", "attempts")
    with pytest.raises(IntegrityError, match="uq_delivery_log_attempt"):
        recover_around_raw(site)


def recover_around_raw(site: Site) -> None:
    with later(A_WHILE), Session(site.engine) as session, session.begin():
        repository = DeliveryRepository(session)
        dialect = PostgreSQL()
        rows = session.execute(recovering.expired_runs(dialect, 10)).all()
        assert recover(site, 0.0) == 1
        repository.apply_outcomes([settlement._lost(row) for row in rows], AT_ONCE)


def test_recovery_goes_on_after_a_row_that_cannot_be_written(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """C85, G6: one damaged row keeps nobody else's from being taken back."""
    first, *_ = claim_retries(site, 3)
    # Its attempt is in the log already, so that no outcome can be recorded for it.
    with site.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO delivery_log (group_id, message_id, attempt, outcome, became,"
                " logged_at) VALUES (:g, :m, 2, 'exception', 'ready', CURRENT_TIMESTAMP)"
            ),
            {"g": first.group.id, "m": first.message_id},
        )
    with caplog.at_level(logging.CRITICAL):
        assert recover(site) == 2
    states = {row.message_id: row.state for row in site.queue()}
    assert states.pop(first.message_id) == "running"
    assert set(states.values()) == {"ready"}


def test_an_owner_is_named_after_one_start_of_one_worker(site: Site) -> None:
    """C08: a restarted process of the same name cannot keep the old one's runs alive."""
    engines = site.vulkan().engines
    with crew_of(engines, Stop()) as one, crew_of(engines, Stop()) as another:
        assert one.name.rsplit(":", 1)[0] == another.name.rsplit(":", 1)[0]
        owners = {each.next_owner() for each in (one, another) for _ in range(3)}
    assert len(owners) == 6


# Leases.


@pytest.fixture
def no_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaseKeeper, "_renew", lambda self, due: time.sleep(0.05))


@pytest.mark.usefixtures("no_renewal", "long_transactions")
def test_a_message_is_started_only_while_its_claim_s_lease_is_good(site: Site) -> None:
    """C22: the first takes longer than the lease, and renewal does not work."""
    assert _start_behind_slow_one(site) == ["first 1", "other 1", "other 2"]
    assert site.effects() == [1, 2]
    assert site.queue() == []


@pytest.mark.usefixtures("no_renewal", "long_transactions")
def test_without_that_check_a_message_runs_that_somebody_else_has_run(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C22: what the check of the lease before each start prevents."""
    monkeypatch.setattr(Lease, "good_at", lambda self, now: True)
    assert _start_behind_slow_one(site) == ["first 1", "other 1", "other 2", "first 2"]


def _start_behind_slow_one(site: Site) -> list[str]:
    """Which worker ran which message, when the first one's lease ends in mid-range."""
    site.publish(Job(n=1), Job(n=2))
    runs: list[str] = []

    def handle_as(name: str) -> Callable[..., None]:
        def handle(job: Job, session: Session) -> None:
            runs.append(f"{name} {job.n}")
            if len(runs) == 1:
                ends = time.monotonic() + 1.05
                with later(A_WHILE):
                    other.drain()
                wait_until(lambda: time.monotonic() > ends)
            _write(job, session)

        return handle

    other = site.worker(handle_as("other"))
    # One that is not refused before the second message can start.
    options: dict[str, Any] = {"lease": timedelta(seconds=1), "isolation": "range"}
    with contextlib.suppress(StaleClaim):
        site.worker(handle_as("first"), **options).drain()
    return runs


class LongRun:
    """Two workers and a handler that blocks for more than three leases."""

    lease = timedelta(seconds=1)
    span = 3.3

    def __init__(self) -> None:
        self.runs = 0
        self.ended = 0

    def block(self) -> None:
        self.runs += 1
        # The time of a slow handler: nobody is waited for.
        time.sleep(self.span)
        self.ended += 1

    def run(self, workers: Sequence[Vulkan]) -> int:
        threads = [threading.Thread(target=_run_to_stop, args=(each,)) for each in workers]
        for thread in threads:
            thread.start()
        wait_until(lambda: self.ended)
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join()
        return self.runs


def _run_to_stop(worker: Vulkan) -> None:
    if not worker.engines.is_async:
        worker.run()
        return

    async def run_and_dispose() -> None:
        await worker.arun()
        await worker.engine.dispose()

    asyncio.run(run_and_dispose())


def _sync_workers(site: Site, long: LongRun, *, writes_first: bool) -> list[Vulkan]:
    def handle(job: Job, session: Session) -> None:
        if writes_first:
            _write(job, session)
        long.block()
        if not writes_first:
            _write(job, session)

    return [site.worker(handle, lease=long.lease) for _ in range(2)]


def _async_workers(site: Site, long: LongRun) -> list[Vulkan]:
    async def handle(job: Job, session: AsyncSession) -> None:
        # Blocks its loop on purpose, as a sync client in async code does.
        long.block()
        await session.execute(WRITE, {"n": job.n})

    made = []
    for _ in range(2):
        vulkan = Vulkan(create_async_engine(site.database.async_url))
        topic = vulkan.topic(TOPIC, Job)
        topic.consumer(group=GROUP, retry=AT_ONCE, lease=long.lease)(handle)
        made.append(vulkan)
    return made


@pytest.mark.parametrize("writes_first", [False, True])
def test_a_handler_longer_than_its_lease_runs_once(site: Site, writes_first: bool) -> None:
    """C05, R44: its lease is renewed while it lives, from outside its thread."""
    site.publish(Job(n=1))
    long = LongRun()
    assert long.run(_sync_workers(site, long, writes_first=writes_first)) == 1
    assert site.effects() == [1]
    assert site.log() == []


def test_a_handler_that_blocks_its_loop_longer_than_its_lease_runs_once(site: Site) -> None:
    """C28, R44: renewal does not depend on the handlers' loop."""
    site.publish(Job(n=1))
    long = LongRun()
    assert long.run(_async_workers(site, long)) == 1
    assert site.effects() == [1]


@pytest.mark.usefixtures("no_renewal")
def test_without_renewal_such_a_handler_is_run_again_beside_itself(postgresql_site: Site) -> None:
    """C05: what the keeper of leases prevents."""
    site = postgresql_site
    site.publish(Job(n=1))
    long = LongRun()
    assert long.run(_sync_workers(site, long, writes_first=False)) > 1


@pytest.fixture
def keeper(site: Site) -> Iterator[LeaseKeeper]:
    made = LeaseKeeper(site.vulkan().engines)
    yield made
    made.close()


def test_a_short_lease_is_renewed_in_time_beside_a_long_one(
    site: Site, keeper: LeaseKeeper
) -> None:
    """C05: leases of different length in one worker."""
    site.publish(Job(n=1))
    claimed = _claim(site, lease=2.0)
    (before,) = site.ranges()
    keeper.hold("a long one", 3600.0, time.monotonic())
    # The keeper sleeps until the long one is due.
    changed: Any = keeper._changed
    wait_until(lambda: changed._waiters)
    lease = keeper.hold(claimed.owner, 2.0, time.monotonic())
    wait_until(lambda: site.ranges()[0].lease_until != before.lease_until, 2.0)
    assert lease.good


def test_a_lease_is_renewed_with_more_than_half_of_it_left() -> None:
    """C05."""
    lease = Lease("owner", 3.0, taken=100.0)
    assert lease.good_until - lease.renew_at > 1.5


def test_the_keeper_of_leases_outlives_renewals_that_fail(
    site: Site, keeper: LeaseKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C82: the database is locked many times in a row, and then it is not."""
    apart = Engines.apart
    failures = iter(range(5))

    def fail(self: Engines, work: Any) -> Any:
        if next(failures, None) is not None:
            raise DBAPIError("UPDATE", None, Exception("database is locked"))
        return apart(self, work)

    site.publish(Job(n=1))
    claimed = _claim(site, lease=3.0)
    monkeypatch.setattr(Engines, "apart", fail)
    (before,) = site.ranges()
    lease = keeper.hold(claimed.owner, 3.0, time.monotonic())
    wait_until(lambda: site.ranges()[0].lease_until != before.lease_until)
    assert not lease.lost


def test_a_lease_that_cannot_be_renewed_is_known_to_be_lost(
    site: Site, keeper: LeaseKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    """C82, R18: nothing is started under a claim that is somebody else's."""
    site.publish(Job(n=1))
    late = _claim(site, lease=1.0)
    thief = _claim(site, after=A_WHILE)
    with caplog.at_level(logging.WARNING, logger=leases.logger.name):
        lease = keeper.hold(late.owner, 1.0, time.monotonic())
        wait_until(lambda: lease.lost)
    assert not lease.good
    assert late.owner in caplog.text
    assert site.ranges()[0].owner == thief.owner


@pytest.mark.parametrize("path", ["range", "retry"])
def test_handlers_that_write_for_longer_than_their_lease_keep_their_claim(
    site: Site, path: str
) -> None:
    """R44, C05: with one writer, renewal has to wait for the very handler it is for."""
    site.publish(*(Job(n=n) for n in range(1, 4)))
    runs: list[int] = []

    def handle(job: Job, session: Session, meta: MessageMeta) -> None:
        if path == "retry" and meta.attempts == 0:
            raise ValueError("the first run fails")
        runs.append(job.n)
        _write(job, session)
        time.sleep(1.2)

    tally = site.worker(handle, lease=timedelta(seconds=1)).drain()
    assert tally[Outcome.SUCCEEDED] == 3
    assert "interrupted" not in {row.outcome for row in site.log()}
    assert runs == [1, 2, 3]
    assert site.effects() == [1, 2, 3]
    assert site.ranges() == []
    assert site.queue() == []


@pytest.mark.timeout(30)
@pytest.mark.parametrize("error", [StopIteration, KeyError, SystemExit])
def test_a_sync_handler_beside_a_loop_may_raise_anything(
    site: Site, error: type[BaseException]
) -> None:
    """R19, G6: StopIteration too, which no asyncio future takes."""
    site.publish(Job(n=1), Job(n=2))

    def handle(job: Job) -> None:
        if job.n == 1:
            raise error

    async def drain() -> dict[Outcome, int]:
        vulkan = Vulkan(create_async_engine(site.database.async_url))
        vulkan.topic(TOPIC, Job).consumer(group=GROUP, retry=RetryPolicy(max_retries=0))(handle)
        tally = await vulkan.adrain()
        await vulkan.engine.dispose()
        return dict(tally)

    assert asyncio.run(drain()) == {
        Outcome.SUCCEEDED: 1,
        Outcome.EXCEPTION: 1,
    }
