"""The command ``vulkan``, in process and as a process, on both databases and in both colours."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, select
from sqlalchemy.orm import Session
from typer.testing import CliRunner, Result

from tests.databases import Database, sqlite_database
from vulkan_orm import DeliveryRepository, Vulkan
from vulkan_orm.cli.acting import operator
from vulkan_orm.cli.app import app, run
from vulkan_orm.cli.output import one_line, several_lines
from vulkan_orm.models import DeliveryLog, ExceptionQueue

DEADLINE = 60.0
COMMANDS = [
    *("work", "drain", "status", "dead"),
    *("redrive", "hold", "release", "discard", "deliver"),
    *("upgrade", "playground"),
]
NAME = "shop"

SHOP = """
import os
from vulkan_orm import RetryPolicy, Terminal, Vulkan

bind = os.environ["SHOP_URL"]
if os.environ.get("SHOP_COLOUR") == "async":
    from sqlalchemy.ext.asyncio import create_async_engine

    bind = create_async_engine(bind)
vulkan = Vulkan(bind)
idle = Vulkan(bind)
payments = vulkan.topic("payments", dict)
number = 17

def judge(payment):
    if payment.get("dead"):
        raise Terminal(payment["dead"])
    if payment.get("bad"):
        raise ValueError(payment["bad"])
"""
SYNC = """
@payments.consumer(group="billing", retry=RetryPolicy(max_retries=3))
def charge(payment: dict) -> None:
    judge(payment)
"""
ASYNC = """
@payments.consumer(group="billing", retry=RetryPolicy(max_retries=3))
async def charge(payment: dict) -> None:
    judge(payment)
"""


@dataclass(frozen=True, slots=True)
class Shop:
    """A small host application in the current directory, and its database seen from outside."""

    url: str

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["--app", f"{NAME}:vulkan", *arguments])

    def json(self, *arguments: str) -> Any:
        result = self(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    @contextmanager
    def session(self) -> Iterator[Session]:
        engine = create_engine(self.url, poolclass=NullPool)
        with Session(engine) as session, session.begin():
            yield session

    def publish(self, *payloads: dict[str, Any]) -> list[int]:
        with self.session() as session:
            vulkan = Vulkan(session.get_bind().engine)
            return vulkan.topic("payments", dict[str, Any]).publish_many(session, payloads)

    def dead(self, *texts: str) -> list[int]:
        """Dead deliveries with those errors."""
        ids = self.publish(*({"dead": text} for text in texts))
        assert self("drain").exit_code == 0
        return ids

    def states(self) -> dict[int, str]:
        with self.session() as session:
            rows = session.execute(select(ExceptionQueue.message_id, ExceptionQueue.state))
            return {row.message_id: row.state for row in rows}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory whose modules can be imported, and are forgotten afterwards."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delenv("VULKAN_APP", raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    sys.modules.pop(NAME, None)
    return here


@pytest.fixture(params=["sync", "async"])
def shop(
    request: pytest.FixtureRequest,
    folder: Path,
    migrated: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shop]:
    yield from opened(request.param, folder, migrated, monkeypatch)


@pytest.fixture
def one_shop(
    folder: Path, migrated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    """For what concerns neither databases nor colours."""
    file = tmp_path / "own.db"
    file.write_bytes(migrated_file.read_bytes())
    yield from opened("sync", folder, sqlite_database(file), monkeypatch)


def opened(
    colour: str, folder: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    sync = colour == "sync"
    (folder / f"{NAME}.py").write_text(SHOP + (SYNC if sync else ASYNC))
    monkeypatch.setenv("SHOP_URL", database.sync_url if sync else database.async_url)
    monkeypatch.setenv("SHOP_COLOUR", colour)
    yield Shop(database.sync_url)
    sys.modules.pop(NAME, None)


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger without handlers; what a command adds is taken away again."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers.clear()
    yield root
    root.handlers[:] = before
    root.setLevel(level)


def complaint(result: Result, code: int = 2) -> str:
    """What stands on stderr, after checking that nothing is on stdout and the exit code fits."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    return result.stderr


# Naming the application


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, "No application is named"),
        ("", "No application is named"),
        ("shop", "'shop' is not of the form module:object"),
        (":vulkan", "not of the form"),
        ("shop:", "not of the form"),
        ("shoop:vulkan", "ModuleNotFoundError: No module named 'shoop'."),
        ("broken:vulkan", "ZeroDivisionError: division by zero ("),
        ("garbled:vulkan", "SyntaxError"),
        ("leaving:vulkan", "SystemExit: 3 ("),
        (".shop:vulkan", "could not be imported"),
        ("shop:vulcan", "'shop' has no 'vulcan'; it has vulkan, idle."),
        ("shop:vulkan.no.such", "'shop' has no 'vulkan.no.such'"),
        ("shop:number", "'shop:number' is of type int, not a Vulkan; it has vulkan, idle."),
        ("os:path", "is of type module, not a Vulkan."),
    ],
)
def test_an_application_that_cannot_be_loaded_is_vk0011_and_says_what_is_wrong(
    name: str | None, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_URL", "sqlite://")
    (folder / "shop.py").write_text(SHOP)
    (folder / "broken.py").write_text("number = 1\nnumber / 0\n")
    (folder / "garbled.py").write_text("def\n")
    (folder / "leaving.py").write_text("raise SystemExit(3)\n")
    arguments = [] if name is None else ["--app", name]
    error = complaint(CliRunner().invoke(app, [*arguments, "status"]))
    assert error.startswith("VK0011 ")
    assert said in error
    assert error.count("\n") == 1
    if name == "broken:vulkan":
        assert "broken.py, line 2)" in error


def test_the_application_is_named_before_or_after_the_command_or_by_the_environment(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["status", "--app", "shop:vulkan"]).exit_code == 0
    monkeypatch.setenv("VULKAN_APP", "shop:vulkan")
    assert runner.invoke(app, ["status"]).exit_code == 0
    assert "nowhere" in complaint(runner.invoke(app, ["--app", "nowhere:x", "status"]))
    assert "nowhere" in complaint(runner.invoke(app, ["status", "--app", "nowhere:x"]))


# status


def test_status_of_a_database_without_groups_says_so(shop: Shop) -> None:
    assert shop("status").stdout == "No topic has a consumer group yet.\n"
    assert shop.json("status") == {"groups": []}


def test_status_shows_lag_and_the_exception_queue_for_each_group(shop: Shop) -> None:
    """R53"""
    one, two, _ = shop.dead("first", "second", "third")
    shop("hold", "payments", "billing", str(one))
    shop("redrive", "payments", "billing", str(two))
    shop.publish({}, {})
    lines = shop("status").stdout.splitlines()
    assert " ".join(lines[0].split()) == "topic group ahead claimed ready running held dead"
    assert " ".join(lines[2].split()) == "payments billing 2 0 1 0 1 1"
    assert len(lines) == 3
    assert shop.json("status") == {
        "groups": [
            {
                "topic": "payments",
                "group": "billing",
                "ahead": 2,
                "claimed": 0,
                "ready": 1,
                "running": 0,
                "held": 1,
                "dead": 1,
                "held_back_by": [],
            }
        ]
    }


def test_status_names_the_open_transaction_that_holds_a_topic_back(
    shop: Shop, migrated: Database
) -> None:
    """R53"""
    if migrated.name != "postgresql":
        pytest.skip("only where ids commit out of order")
    shop("drain")
    other = create_engine(
        migrated.sync_url, poolclass=NullPool, connect_args={"application_name": "[red]sleeper"}
    )
    with Session(other) as open_session:
        topic = Vulkan(other).topic("payments", dict[str, Any])
        topic.publish(open_session, {})
        pid = open_session.connection().connection.driver_connection.info.backend_pid  # type: ignore[union-attr]
        shop.publish({})
        said = shop("status").stdout
        (group,) = shop.json("status")["groups"]
    assert "payments is held back by an open transaction that published to it" in said
    assert f"pid {pid}, application '[red]sleeper', idle in transaction, begun 0:00:0" in said
    (blocker,) = group["held_back_by"]
    assert (blocker["pid"], blocker["application"]) == (pid, "[red]sleeper")
    assert 0 <= blocker["seconds"] < DEADLINE


# dead


def test_dead_lists_why_deliveries_are_dead(shop: Shop) -> None:
    """R53"""
    (message,) = shop.dead("declined")
    lines = shop("dead", "payments", "billing").stdout.splitlines()
    assert " ".join(lines[0].split()) == "message key attempts delays first failed last error"
    assert lines[2].split()[:3] == [str(message), "1", "0"]
    assert lines[2].endswith("Terminal: declined")
    document = shop.json("dead", "payments", "billing")
    assert (document["topic"], document["group"], document["next_after"]) == (
        "payments",
        "billing",
        None,
    )
    (row,) = document["dead"]
    assert (row["message_id"], row["attempts"], row["delays"]) == (message, 1, 0)
    assert (row["key"], row["payload"], row["headers"]) == (None, {"dead": "declined"}, {})
    assert row["last_error"].endswith("Terminal: declined")
    assert row["first_failed_at"].endswith("+00:00")


def test_dead_goes_on_after_its_limit(shop: Shop) -> None:
    first, second, third = shop.dead("a", "b", "c")
    result = shop("dead", "payments", "billing", "--limit", "2")
    assert result.stdout.splitlines()[-1] == f"There are more: --after {second}"
    page = shop.json("dead", "payments", "billing", "--limit", "2")
    assert [row["message_id"] for row in page["dead"]] == [first, second]
    rest = shop.json("dead", "payments", "billing", "--after", str(page["next_after"]))
    assert [row["message_id"] for row in rest["dead"]] == [third]
    assert rest["next_after"] is None


def test_dead_of_a_group_that_has_none_says_so(shop: Shop) -> None:
    shop("drain")
    assert shop("dead", "payments", "billing").stdout == "No dead deliveries.\n"
    assert shop.json("dead", "payments", "billing")["dead"] == []


def test_an_error_is_cut_to_fit_a_line(shop: Shop) -> None:
    shop.dead("long " * 200)
    lines = shop("dead", "payments", "billing").stdout.splitlines()
    assert len(lines) == 3
    assert lines[2].endswith("…")
    assert len(lines[2]) <= 160


def test_markup_and_controls_in_an_error_are_shown_and_not_obeyed(shop: Shop) -> None:
    shown = {
        "[bold red]alarm[/bold red] [/nonsense]": "[bold red]alarm[/bold red] [/nonsense]",
        "\x1b[31mred\x1b]0;title\x07 \x9b2J": "�[31mred�]0;title� �2J",
        "back\b\b\bspace :smile:": "back���space :smile:",
        "one\r\ntwo\tthree\u2028four": "one two three four",
        "right \u202eot tfel": "right �ot tfel",
    }
    shop.dead(*shown)
    lines = shop("dead", "payments", "billing").stdout.splitlines()[2:]
    assert [line.partition("Terminal: ")[2].rstrip() for line in lines] == [*shown.values()]
    raw = shop("dead", "payments", "billing", "--json").stdout
    assert raw.isascii()
    assert not set(raw) & set(map(chr, [*range(10), *range(11, 32), 127]))
    assert [row["payload"]["dead"] for row in json.loads(raw)["dead"]] == [*shown]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["dead", "[b]x", "billing"], "VK0001"),
        (["dead", "payments", "[b]x"], "VK0002"),
        (["dead", "payments", "[b]x\udcff"], "VK0002"),
        (["redrive", "[b]x", "billing", "--all"], "VK0001"),
        (["discard", "payments", "[b]x", "1"], "VK0002"),
    ],
)
def test_an_unknown_topic_or_group_is_named_with_its_code(
    arguments: list[str], code: str, shop: Shop
) -> None:
    shop("drain")
    error = complaint(shop(*arguments))
    assert error.startswith(f"{code} ")
    assert "'[b]x" in error


# redrive, hold, release, discard


@pytest.mark.parametrize(
    ("verbs", "done", "not_fitting", "became"),
    [
        (["redrive"], "redriven", "dead or held", "ready"),
        (["hold"], "held", "ready or dead", "held"),
        (["hold", "release"], "released", "held", "ready"),
        (["discard"], "discarded", "ready, held or dead", None),
    ],
)
def test_an_action_says_what_it_changed_and_what_it_left_alone(
    verbs: list[str], done: str, not_fitting: str, became: str | None, shop: Shop
) -> None:
    """R50"""
    first, second, third = shop.dead("a", "b", "c")
    *before, verb = verbs
    for each in before:
        assert shop(each, "payments", "billing", str(first), str(second)).exit_code == 0
    named = [str(second), str(first), str(second), str(third + 1000)]
    result = shop(verb, "payments", "billing", *named)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"2 {done}: {first} {second}",
        f"1 not {not_fitting}, left alone: {third + 1000}",
    ]
    expected = {third: "dead"} | ({first: became, second: became} if became else {})
    assert shop.states() == expected


def test_an_action_in_json_has_the_ids_of_both_kinds(shop: Shop) -> None:
    first, second = shop.dead("a", "b")
    assert shop.json("hold", "payments", "billing", str(first), "999999") == {
        "action": "hold",
        "topic": "payments",
        "group": "billing",
        "changed": [first],
        "unchanged": [999999],
    }
    assert shop.json("hold", "payments", "billing", "--all")["changed"] == [second]


@pytest.mark.parametrize("verb", ["redrive", "hold", "release", "discard"])
def test_an_action_that_names_nothing_or_too_much_is_refused(verb: str) -> None:
    runner = CliRunner()
    error = complaint(runner.invoke(app, [verb, "payments", "billing"]), 1)
    assert error.endswith(": name message ids, or give --all.\n")
    error = complaint(runner.invoke(app, [verb, "payments", "billing", "7", "--all"]))
    assert error == "Name message ids or give --all, not both.\n"


def test_an_action_on_all_acts_on_all_that_fit_and_finding_none_is_no_failure(shop: Shop) -> None:
    first, second = shop.dead("a", "b")
    result = shop("redrive", "payments", "billing", "--all")
    assert result.stdout == f"2 redriven: {first} {second}\n"
    result = shop("redrive", "payments", "billing", "--all")
    assert (result.exit_code, result.stdout) == (0, "0 redriven\n")


def test_an_action_that_finds_none_of_the_named_ids_exits_with_one(shop: Shop) -> None:
    (message,) = shop.dead("a")
    result = shop("release", "payments", "billing", str(message))
    assert result.exit_code == 1
    assert result.stdout == f"0 released\n1 not held, left alone: {message}\n"
    result = shop("release", "payments", "billing", str(message), "--json")
    assert (result.exit_code, json.loads(result.stdout)["unchanged"]) == (1, [message])


@pytest.mark.parametrize("number", ["0", "-1", "x", str(2**63), "1.5"])
def test_an_id_that_cannot_be_one_is_wrong_usage(number: str) -> None:
    result = CliRunner().invoke(app, ["redrive", "payments", "billing", "--", number])
    assert result.exit_code == 2
    assert "IDS" in result.stderr


def test_an_action_is_logged_with_the_user_of_the_system_and_the_reason(shop: Shop) -> None:
    """R50"""
    (message,) = shop.dead("a")
    # A byte that is no UTF-8 comes from the command line as half a character.
    shop("hold", "payments", "billing", str(message), "--reason", "ticket [b]12[/b]\udcff")
    with shop.session() as session:
        entry = session.scalars(select(DeliveryLog).where(DeliveryLog.outcome == "held")).one()
        assert (entry.message_id, entry.owner, entry.error_text) == (
            message,
            operator(),
            "ticket [b]12[/b]�",
        )


def test_an_operator_without_a_name_is_known_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert operator() == f"uid {os.getuid()}"


# deliver, drain, upgrade


def test_deliver_runs_held_deliveries_named_or_all(shop: Shop) -> None:
    """R17"""
    first, second, third = shop.dead("a", "b", "c")
    shop("hold", "payments", "billing", "--all")
    result = shop("deliver", "payments", "billing", str(first), "999999")
    assert result.exit_code == 0
    assert result.stdout == "terminal 1\n1 of the named deliveries were not held.\n"
    assert shop.states() == {first: "dead", second: "held", third: "held"}
    assert shop.json("deliver", "payments", "billing") == {"outcomes": {"terminal": 2}}
    assert shop("deliver", "payments", "billing").stdout == "Nothing to run.\n"


def test_deliver_that_finds_none_of_the_named_held_exits_with_one(shop: Shop) -> None:
    (message,) = shop.dead("a")
    result = shop("deliver", "payments", "billing", str(message))
    assert result.exit_code == 1
    assert "Nothing to run." in result.stdout
    assert shop("deliver", "payments", "billing", str(message), "--json").exit_code == 1


def test_deliver_to_a_group_without_a_handler_is_vk0002(shop: Shop) -> None:
    assert complaint(shop("deliver", "payments", "nobody")).startswith("VK0002 ")


def test_drain_counts_outcomes(shop: Shop) -> None:
    shop.publish({}, {}, {"dead": "x"}, {"bad": "y"})
    result = shop("drain")
    # The draw for the wait of the one that failed may let it run again at once.
    assert "succeeded 2" in result.stdout.splitlines()
    assert sorted(result.stdout.splitlines()[1:])[-1] == "terminal 1"
    shop.publish({})
    assert shop.json("drain")["outcomes"]["succeeded"] == 1
    assert shop("drain").exit_code == 0


def test_drain_of_nothing_says_so(shop: Shop) -> None:
    assert shop("drain").stdout == "Nothing to run.\n"
    assert shop.json("drain") == {"outcomes": {}}


def test_upgrade_makes_the_tables_that_other_commands_miss(
    shop: Shop, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.environ["SHOP_COLOUR"] == "sync"
    monkeypatch.setenv("SHOP_URL", database.sync_url if sync else database.async_url)
    for command in (["status"], ["drain"], ["work"], ["dead", "payments", "billing"]):
        error = shop(*command).stderr
        assert "VK0040 " in error, command
        assert "vulkan upgrade" in error
    assert shop("upgrade").stdout == "vulkan_orm's tables have version 1.\n"
    assert shop.json("upgrade") == {"schema_version": 1}
    (group,) = shop.json("status")["groups"]
    assert (group["topic"], group["group"]) == ("payments", "billing")


# work


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """``python -m vulkan_orm`` in the current directory; killed should the test fail."""
    command = [sys.executable, "-m", "vulkan_orm", "--app", f"{NAME}:vulkan", *arguments]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
            print(*started.communicate(), sep="\n")  # noqa: T201 - pytest shows it with the failure


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_work_runs_messages_until_a_signal_and_exits_with_zero(
    ending: signal.Signals, shop: Shop
) -> None:
    """R47"""
    shop("drain")
    shop.publish({}, {}, {"dead": "\x1b[31mred"})

    def is_done() -> bool:
        with shop.session() as session:
            return DeliveryRepository(session).lag("payments", "billing").total == 0

    with process("work", "--grace", "20") as worker:
        wait_until(is_done)
        worker.send_signal(ending)
        output, log = worker.communicate(timeout=DEADLINE)
    assert worker.returncode == 0, log
    assert output == ""
    assert "INFO vulkan_orm.cli: Working for payments/billing." in log
    assert log.splitlines()[-1].endswith("Stopped.")
    assert "\x1b" not in log
    assert list(shop.states().values()) == ["dead"]


def children(parent: int) -> list[int]:
    """The processes that a process has started, from /proc."""
    listed = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(each) for each in listed.read_text().split()]


def runs_of(shop: Shop) -> set[int]:
    """The worker processes whose handlers have run."""
    with shop.session() as session:
        owners = session.scalars(select(DeliveryLog.owner)).all()
    return {int(owner.split(":")[1]) for owner in owners if owner}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_several_processes_work_are_replaced_and_stop_together(one_shop: Shop) -> None:
    """R46, R47."""
    shop = one_shop
    shop("drain")
    with process("work", "--processes", "2") as parent:
        wait_until(lambda: len(children(parent.pid)) == 2)
        first, second = children(parent.pid)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: first not in children(parent.pid))
        wait_until(lambda: len(children(parent.pid)) == 2)
        os.kill(second, signal.SIGKILL)
        wait_until(lambda: second not in children(parent.pid))
        wait_until(lambda: len(children(parent.pid)) == 2)
        crew = children(parent.pid)
        shop.publish({"dead": "a"}, {"dead": "b"})
        wait_until(lambda: len(shop.states()) == 2)
        assert runs_of(shop) <= set(crew)
        parent.send_signal(signal.SIGTERM)
        _, log = parent.communicate(timeout=DEADLINE)
    assert parent.returncode == 0, log
    assert log.count("ended with code -9") == 2


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.usefixtures("one_shop")
def test_worker_processes_do_not_outlive_the_command_that_started_them() -> None:
    with process("work", "--processes", "2") as parent:
        wait_until(lambda: len(children(parent.pid)) == 2)
        crew = children(parent.pid)
        parent.kill()
        parent.communicate(timeout=DEADLINE)
        wait_until(lambda: not any(Path(f"/proc/{each}/cmdline").exists() for each in crew))


def test_work_without_a_handler_is_refused(shop: Shop, root_logger: logging.Logger) -> None:
    result = CliRunner().invoke(app, ["--app", "shop:idle", "work"])
    assert complaint(result).startswith("VK0002 The application registers no handler")


@pytest.mark.parametrize("grace", ["-1", "nan", "inf", "soon", "1e9"])
def test_a_grace_time_that_cannot_be_waited_for_is_wrong_usage(grace: str) -> None:
    result = CliRunner().invoke(app, ["--app", "shop:vulkan", "work", "--grace", grace])
    assert result.exit_code == 2
    assert "--grace" in result.stderr


def test_what_is_logged_cannot_steer_a_terminal() -> None:
    assert several_lines("\x1b[2Ja\r\n\tb") == "�[2Ja \n\tb"
    assert one_line("a\n\tb\x00") == "a b�"


# The command itself


def test_help_names_every_command_and_the_exit_codes() -> None:
    result = CliRunner().invoke(app, ["--app", "x", "--help"])
    assert result.exit_code == 0
    for name in COMMANDS:
        assert f" {name} " in result.stdout
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0
    assert "Exit codes" in result.stdout


def test_the_version_is_the_distributions() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("vulkan-orm 0.")


@pytest.mark.parametrize("arguments", [["statsu"], ["status", "--wrong"], ["dead", "payments"]])
def test_wrong_usage_exits_with_two(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_a_database_that_cannot_be_asked_ends_in_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_URL", f"sqlite:///{folder}/no/such/folder/app.db")
    (folder / f"{NAME}.py").write_text(SHOP + SYNC)
    error = complaint(CliRunner().invoke(app, ["--app", "shop:vulkan", "status"]))
    assert error.startswith("The database could not be asked: OperationalError: ")
    assert error.count("\n") == 1


def test_an_error_nobody_expected_shows_its_traceback_and_exits_with_two(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "from vulkan_orm import Vulkan\n"
    text += "class Odd(Vulkan):\n"
    text += "    @property\n    def consumers(self): raise RuntimeError('\\x1b[31modd')\n"
    (folder / f"{NAME}.py").write_text(text + "vulkan = Odd('sqlite://')\n")
    assert run(["--app", "shop:vulkan", "drain"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.endswith("RuntimeError: �[31modd\n")


@pytest.mark.parametrize("library", ["typer", "rich"])
def test_without_the_extra_one_sentence_says_what_to_install(library: str) -> None:
    program = f"import sys; sys.modules[{library!r}] = None; import vulkan_orm.__main__ as m"
    program += "; m.main()"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "VK0010 The command vulkan needs typer and rich: pip install 'vulkan-orm[cli]'.\n"
    )


def test_the_playground_lists_its_scenarios() -> None:
    """R57"""
    result = CliRunner().invoke(app, ["playground", "--list"])
    assert result.exit_code == 0
    assert "04" in result.output
