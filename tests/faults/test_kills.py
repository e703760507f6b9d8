"""Workers that are killed, stopped and frozen: real processes and real signals."""

import os
import signal
from functools import partial

import pytest

from tests.faults.crew import Crew, end
from tests.faults.support import Job, Site, wait_until

POISON = 25
GRACE = 0.5
# What a crowded machine may add.
SLACK = 4.0


def jobs(count: int, *, poison: int, kind: str, others: str = "ok") -> list[Job]:
    return [Job(n=n, kind=kind if n == poison else others) for n in range(1, count + 1)]


def all_but(count: int, *left_out: int) -> list[int]:
    return [n for n in range(1, count + 1) if n not in left_out]


def test_a_message_that_kills_its_worker_ends_dead_and_its_range_is_charged_nothing(
    site: Site, crew: Crew
) -> None:
    """C04, R45, R16: the 25th of 50 sends SIGKILL; a supervisor restarts the worker."""
    site.publish(*jobs(50, poison=POISON, kind="kill"))
    deaths = crew.supervise(max_retries=2)
    # The first cannot be attributed and charges nobody; then three runs, each logged.
    assert deaths == 4
    assert site.effects() == all_but(50, POISON)
    row = site.row()
    assert (row.state, row.attempts, row.delays, row.spent) == ("dead", 3, 0, 3)
    assert row.last_error is not None
    assert "worker lost" in row.last_error
    assert row.payload is not None
    assert site.outcomes() == {POISON: ["killed"] * 3 + ["dead"]}
    assert site.ranges() == []


def test_a_message_that_kills_its_worker_is_charged_alone_among_retries_claimed_together(
    site: Site, crew: Crew
) -> None:
    """R16a, C04: one of 100 due retries kills the process; its neighbours lose no retry."""
    poison = 50
    site.publish(*jobs(100, poison=poison, kind="fail-then-kill", others="fail-then-work"))
    deaths = crew.supervise(max_retries=2)
    assert deaths == 3
    assert site.effects() == all_but(100, poison)
    row = site.row()
    # One failure, one loss among others that nobody is charged for, two kills.
    assert (row.state, row.attempts, row.delays, row.interruptions) == ("dead", 4, 1, 1)
    outcomes = site.outcomes()
    assert outcomes.pop(poison) == ["exception", "interrupted", "killed", "killed", "dead"]
    assert sorted(outcomes) == all_but(100, poison)
    uncharged = (["exception", "succeeded"], ["exception", "interrupted", "succeeded"])
    assert all(each in uncharged for each in outcomes.values())


@pytest.mark.parametrize("isolation", ["range", "message"])
def test_effects_of_a_worker_killed_before_its_commit_are_gone_and_then_happen_once(
    site: Site, crew: Crew, isolation: str
) -> None:
    """C17 (a), R41: outcome and effects are one commit, so neither is there without the other."""
    site.publish(*jobs(5, poison=0, kind="ok"))
    killed = crew.start(die="before commit", isolation=isolation)
    assert end(killed) == -signal.SIGKILL
    assert site.effects() == []
    assert end(crew.start(offset=60.0, isolation=isolation)) == 0
    assert site.effects() == all_but(5)
    assert site.queue() == []
    assert site.log() == []


@pytest.mark.parametrize("isolation", ["range", "message"])
def test_a_worker_killed_after_its_commit_leaves_nothing_to_run_again(
    site: Site, crew: Crew, isolation: str
) -> None:
    """C17 (b): what was committed is done."""
    site.publish(*jobs(5, poison=0, kind="ok"))
    killed = crew.start(die="after commit", isolation=isolation)
    assert end(killed) == -signal.SIGKILL
    before = site.effects()
    assert before == all_but(5 if isolation == "range" else 1)
    assert end(crew.start(offset=60.0, isolation=isolation)) == 0
    assert site.effects() == all_but(5)
    assert crew.runs() == all_but(5)
    assert site.queue() == []


def test_a_worker_killed_in_mid_recovery_keeps_nobody_from_recovering(
    site: Site, crew: Crew
) -> None:
    """C85, C08: recovery holds no lock that outlives its process."""
    site.publish(Job(n=1, kind="fail-then-hang"))
    hung = crew.start()
    wait_until(lambda: crew.runs() == [1, 1])
    hung.kill()
    end(hung)
    recovering = crew.start(offset=60.0, die="recovery")
    assert end(recovering) == -signal.SIGKILL
    assert site.row().state == "running"
    crew.release()
    assert end(crew.start(offset=60.0)) == 0
    assert site.effects() == [1]
    assert site.outcomes() == {1: ["exception", "interrupted", "succeeded"]}


def test_a_stop_in_mid_range_ends_what_runs_and_hands_the_rest_back_uncharged(
    site: Site, crew: Crew
) -> None:
    """C40, R47: SIGTERM while message 25 of 50 runs, which ends within the grace time."""
    site.publish(*jobs(50, poison=POISON, kind="hang"))
    worker = crew.start(mode="run")
    wait_until(lambda: POISON in crew.runs())
    worker.terminate()
    wait_until(crew.asked)
    crew.release()
    assert end(worker) == 0
    assert site.effects() == list(range(1, POISON + 1))
    (rest,) = site.ranges()
    assert (rest.owner, rest.progress, rest.careful) == (None, POISON, False)
    assert site.queue() == []
    assert end(crew.start()) == 0
    assert site.effects() == all_but(50)
    assert crew.runs() == all_but(50)
    assert site.log() == []


def test_a_stop_among_retries_gives_those_that_did_not_start_back_uncharged(
    site: Site, crew: Crew
) -> None:
    """C40, R15: the third of ten retries runs when SIGTERM comes."""
    kinds = ["fail-then-hang" if n == 3 else "fail-then-work" for n in range(1, 11)]
    site.publish(*(Job(n=n, kind=kind) for n, kind in enumerate(kinds, 1)))
    worker = crew.start(mode="run", max_retries=1)
    wait_until(lambda: crew.runs().count(3) == 2)
    worker.terminate()
    wait_until(crew.asked)
    crew.release()
    assert end(worker) == 0
    rest = site.queue()
    assert {(row.state, row.spent, row.careful) for row in rest} == {("ready", 1, False)}
    assert len(rest) == 10 - len(site.effects())
    assert 3 in site.effects()
    assert end(crew.start(max_retries=1)) == 0
    assert site.effects() == all_but(10)
    assert crew.runs().count(10) == 2
    assert site.queue() == []


def test_a_second_signal_stops_at_once_and_loses_nothing(site: Site, crew: Crew) -> None:
    """C40, R47: the handler hangs for ever and the grace time is long."""
    site.publish(*jobs(50, poison=POISON, kind="hang"))
    worker = crew.start(mode="run", grace=600.0)
    wait_until(lambda: POISON in crew.runs())
    worker.terminate()
    wait_until(crew.asked)
    assert worker.is_alive()
    worker.terminate()
    assert end(worker) == 0
    crew.release()
    assert end(crew.start()) == 0
    assert site.effects() == all_but(50)
    assert all(row.outcome == "interrupted" for row in site.log())
    assert site.queue() == []


@pytest.mark.parametrize("kind", ["hang", "hang-writing"])
def test_a_stop_ends_within_its_grace_time_although_a_handler_hangs(
    site: Site, crew: Crew, kind: str
) -> None:
    """C40, R47: exit within grace and two seconds, also where the handler holds SQLite's lock."""
    site.publish(*jobs(10, poison=5, kind=kind))
    worker = crew.start(mode="run", grace=GRACE)
    wait_until(lambda: 5 in crew.runs())
    worker.terminate()
    assert end(worker, GRACE + 2 + SLACK) == 0
    crew.release()
    # On SQLite a hanging writer keeps the range from being given back; its lease ends instead.
    assert end(crew.start(offset=60.0)) == 0
    assert site.effects() == all_but(10)
    assert site.queue() == []
    assert "killed" not in {row.outcome for row in site.log()}


def test_a_stop_ends_within_its_grace_time_although_a_sync_handler_hangs_beside_a_loop(
    site: Site, async_crew: Crew
) -> None:
    """C40: an asyncio worker does not wait for the thread of a handler that never ends."""
    site.publish(Job(n=1, kind="hang"))
    worker = async_crew.start(mode="run", grace=GRACE, handler="plain")
    wait_until(lambda: async_crew.runs() == [1])
    worker.terminate()
    assert end(worker, GRACE + 2 + SLACK) == 0
    async_crew.release()
    assert end(async_crew.start(offset=60.0, handler="plain")) == 0
    assert async_crew.runs() == [1, 1]
    assert "killed" not in {row.outcome for row in site.log()}


def test_an_idle_worker_stops_when_it_is_asked(site: Site, crew: Crew) -> None:
    """C40: SIGTERM while nothing is there to do."""
    site.publish(Job(n=1))
    worker = crew.start(mode="run")
    wait_until(lambda: site.effects() == [1])
    worker.terminate()
    assert end(worker) == 0


@pytest.mark.parametrize("path", ["range", "retry"])
def test_rollouts_that_cut_a_run_charge_nobody(site: Site, crew: Crew, path: str) -> None:
    """C70 (a), C40, R15: five deploys with one retry allowed, and the message is not dead."""
    _roll_out(site, crew, path)


def test_rollouts_of_an_async_worker_that_cut_a_run_charge_nobody(
    site: Site, async_crew: Crew
) -> None:
    """C70 (a), R15, R19: the handler is cancelled, which is an interruption."""
    _roll_out(site, async_crew, "range")
    outcomes = site.outcomes()[1]
    assert outcomes[:5] == ["interrupted"] * 5


def _roll_out(site: Site, crew: Crew, path: str) -> None:
    site.publish(Job(n=1, kind="hang" if path == "range" else "fail-then-hang"))
    first = 0 if path == "range" else 1
    for rollout in range(1, 6):
        worker = crew.start(mode="run", grace=0.1, max_retries=1)
        wait_until(partial(_has_run, crew, rollout + first))
        worker.terminate()
        assert end(worker) == 0
    for row in site.queue():
        assert (row.state, row.spent) == ("ready", first)
    crew.release()
    assert end(crew.start(max_retries=1)) == 0
    assert site.effects() == [1]
    assert site.queue() == []
    assert "killed" not in site.outcomes().get(1, [])


def _has_run(crew: Crew, times: int) -> bool:
    return len(crew.runs()) >= times


@pytest.mark.parametrize("path", ["range", "retry"])
def test_a_worker_that_slept_past_its_lease_reports_too_late_and_changes_nothing(
    site: Site, crew: Crew, path: str
) -> None:
    """C82, R18: SIGSTOP in mid-handler, another worker does it all, SIGCONT."""
    site.publish(Job(n=1, kind="hang" if path == "range" else "fail-then-hang"), Job(n=2))
    started = [1] if path == "range" else [1, 2, 1]
    sleeper = crew.start(mode="run", lease=1.0)
    wait_until(lambda: crew.runs() == started)
    os.kill(sleeper.pid or 0, signal.SIGSTOP)
    crew.release()
    assert end(crew.start(offset=60.0, lease=1.0)) == 0
    assert site.effects() == [1, 2]
    log = site.outcomes()
    os.kill(sleeper.pid or 0, signal.SIGCONT)
    wait_until(lambda: "VK0030" in crew.said(sleeper))
    assert site.outcomes() == log
    # It goes on: the worker is not the worse for it.
    site.publish(Job(n=3))
    wait_until(lambda: 3 in site.effects())
    sleeper.terminate()
    assert end(sleeper) == 0
    assert site.effects() == [1, 2, 3]
    assert site.queue() == []
