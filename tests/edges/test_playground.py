"""R57: the playground's scenarios, their verdicts, and what is packaged with them."""

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from tests.databases import Database
from vulkan_orm import UsageError
from vulkan_orm.playground import programme, run
from vulkan_orm.playground.stage import SCENARIOS, Stage, scenario
from vulkan_orm.store import clock

NUMBERS = [each.number for each in programme.choose(None)]


@pytest.fixture
def broken() -> Iterator[str]:
    """A scenario whose expectation does not hold."""

    @scenario("90", "A broken promise", question="Does it hold?", here="It does not.")
    def promise(stage: Stage) -> None:
        stage.check("one is one", 1, 1)
        stage.check("one is two", 1, 2)

    yield "90"
    del SCENARIOS["90"]


@pytest.fixture
def raising() -> Iterator[str]:
    """A scenario that does not play to its end."""

    @scenario("91", "A broken stage", question="Does it end?", here="It does not.")
    def collapse(stage: Stage) -> None:
        stage.wait_until(stage.now())
        raise LookupError("the floor gave way")

    yield "91"
    del SCENARIOS["91"]


@pytest.fixture
def unchecked() -> Iterator[str]:
    """A scenario that checks nothing."""

    @scenario("92", "Empty words", question="Is it so?", here="Nobody looked.")
    def claim(stage: Stage) -> None:
        stage.tell("All is well.")

    yield "92"
    del SCENARIOS["92"]


def test_there_are_at_least_ten_scenarios_numbered_without_a_gap() -> None:
    """R57"""
    assert [f"{each:02}" for each in range(1, len(NUMBERS) + 1)] == NUMBERS
    assert len(NUMBERS) >= 10


@pytest.mark.parametrize("number", NUMBERS)
def test_every_scenario_passes_on_the_embedded_default(
    number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """R57"""
    assert run([number]) == 0
    printed = capsys.readouterr().out
    assert f"{number} passed" in printed
    assert "FAILED" not in printed


def test_all_pass_one_after_the_other_in_one_postgresql_database(
    postgresql: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    """R57"""
    assert run(["01", "04", "07", "12"], database=postgresql.sync_url) == 0
    assert "All 4 scenarios passed." in capsys.readouterr().out


def test_a_scenario_shows_question_code_rows_checks_and_the_trap(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """R57"""
    run(["04"])
    printed = capsys.readouterr().out
    assert "Which of them uses up retries?" in printed
    assert 'raise Terminal("card declined")' in printed
    assert "delivery_log of payments/desk" in printed
    assert "ok  on attempt one" in printed
    assert "A trap elsewhere: " in printed
    assert "Right here: " in printed


def test_a_broken_expectation_fails_the_verdict_and_the_exit_code(
    broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([broken, "02"]) == 1
    printed = capsys.readouterr().out
    assert "NO  one is two: expected 2, found 1" in printed
    assert "90 FAILED (1 of 2 checks)" in printed
    assert "02 passed" in printed
    assert "1 of 2 FAILED: 90" in printed


def test_a_scenario_that_raises_fails_and_leaves_the_clock_as_it_was(
    raising: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = clock.offset()
    assert run([raising]) == 1
    assert "91 FAILED (0 of 1 checks)" in capsys.readouterr().out
    assert clock.offset() == before


def test_a_scenario_that_checks_nothing_has_not_passed(unchecked: str) -> None:
    assert run([unchecked]) == 1


def test_the_list_names_every_scenario_and_plays_none(
    broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(list_only=True) == 0
    printed = capsys.readouterr().out
    assert [number for number in [*NUMBERS, broken] if f"{number}  " not in printed] == []
    assert "passed" not in printed


def test_a_number_is_understood_without_its_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["2"], list_only=True) == 0
    assert "02  A rollback publishes nothing" in capsys.readouterr().out


def test_an_unknown_number_is_refused_naming_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"scenario 77; known: 01, 02"):
        run(["77"])


def test_a_given_database_keeps_what_was_played_and_is_not_played_in_again(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    assert run(["03"], database=url) == 0
    engine = create_engine(url)
    assert inspect(engine).has_table("delivery_log")
    engine.dispose()
    with pytest.raises(UsageError, match="wants an empty database"):
        run(["03"], database=url)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite+aiosqlite:///never.db"])
def test_a_database_that_a_worker_could_not_reach_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="sync driver"):
        run(["01"], database=url)


def test_the_packaged_webhooks_are_a_handful_of_real_ones_with_their_licence() -> None:
    data = files("vulkan_orm.playground") / "data"
    text = (data / "github_webhooks.jsonl").read_text("utf-8")
    hooks = [json.loads(line) for line in text.splitlines()]
    assert 8 <= len(hooks) <= 12
    assert len({hook["event"] for hook in hooks}) >= 8
    assert len(text.encode()) < 150_000
    licence = (data / "github_webhooks.LICENSE").read_text("utf-8")
    assert "@octokit/webhooks-examples" in licence
    assert "The MIT License" in licence
    assert "Copyright (c) 2018 Gregor Martynus" in licence
