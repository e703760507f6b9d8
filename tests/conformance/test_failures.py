"""Failures of every shape are recorded, and harm nobody else."""

import asyncio
import pickle
import time
from datetime import timedelta
from typing import Any, NoReturn

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from tests.conformance.harness import GROUP, TOPIC, App, Job, at_once
from tests.conformance.host import Effect
from vulkan_orm import Delay, MessageMeta, RetryPolicy, Terminal
from vulkan_orm.models import Message

WAITING = RetryPolicy(backoff_base=timedelta(minutes=1))
UNASKED = [SystemExit(3), GeneratorExit(), asyncio.CancelledError("nobody asked"), BaseException()]


@pytest.mark.parametrize("error", UNASKED, ids=lambda error: type(error).__name__)
def test_a_base_exception_nobody_asked_for_is_a_failed_run(
    app: App, isolation: str, error: BaseException
) -> None:
    """R19, C13: it stops nothing."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.add(Effect(value=payload.name))
        if payload.name == "bad":
            raise error

    app.consumer(handler, retry=at_once(1), isolation=isolation)
    _, bad, _ = app.publish_many([Job(name="a"), Job(name="bad"), Job(name="b")])
    assert app.drain() == {"succeeded": 2, "exception": 2}
    assert app.row(bad).state == "dead"
    assert app.effects() == ["a", "b"]


@pytest.mark.parametrize("error", UNASKED, ids=lambda error: type(error).__name__)
def test_the_same_holds_for_a_handler_without_a_session(app: App, error: BaseException) -> None:
    """R19."""

    def handler(payload: Job, meta: MessageMeta) -> None:
        if payload.name == "bad":
            raise error

    app.consumer(handler, session=False, retry=at_once(0))
    app.publish_many([Job(name="a"), Job(name="bad"), Job(name="b")])
    assert app.drain() == {"succeeded": 2, "exception": 1}


def test_an_interrupt_from_the_keyboard_is_a_failed_run_and_then_stops(
    app: App, isolation: str
) -> None:
    """R19."""
    ran: list[str] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        ran.append(payload.name)
        session.add(Effect(value=payload.name))
        if payload.name == "bad" and not meta.attempts:
            raise KeyboardInterrupt

    app.consumer(handler, isolation=isolation)
    first, bad, last = app.publish_many([Job(name="a"), Job(name="bad"), Job(name="b")])
    with pytest.raises(KeyboardInterrupt):
        app.drain()
    assert ran == ["a", "bad"]
    assert app.story(bad) == [(1, "exception")]
    assert app.effects() == ["a"]
    assert app.log(first) == app.log(last) == []
    assert app.drain() == {"succeeded": 2}
    assert app.effects() == ["a", "b", "bad"]


def test_a_payload_that_does_not_fit_is_a_failed_run_of_its_own(app: App, isolation: str) -> None:
    """R19a: with its code, never terminal at once, and no neighbour is in the way."""
    app.consumer(
        lambda payload, session, meta: session.add(Effect(value=payload.name)),
        retry=at_once(1),
        isolation=isolation,
    )
    _, bad, _ = app.publish_many([Job(name="a"), Job(name="x"), Job(name="b")])
    spoil(app, bad, {"name": 7})
    assert app.drain() == {"succeeded": 2, "exception": 2}
    assert app.effects() == ["a", "b"]
    assert [(e.attempt, e.error_code) for e in app.log(bad)] == [(1, "VK0022"), (2, "VK0022")]
    (row,) = app.repo("dead", TOPIC, GROUP)
    assert row.payload == {"name": 7}
    assert "name" in (row.last_error or "")


def test_a_payload_that_fits_again_is_run(app: App) -> None:
    """R19a: a deploy may be half way."""
    app.consumer(lambda payload, session, meta: session.add(Effect(value=payload.name)))
    message = app.publish()
    spoil(app, message, {"name": 7})
    app.redeploy(WAITING)
    assert app.drain() == {"exception": 1}
    spoil(app, message, {"name": "mended"})
    assert app.later(61) == {"succeeded": 1}
    assert app.effects() == ["mended"]


def spoil(app: App, message: int, payload: Any) -> None:
    statement = update(Message).where(Message.id == message).values(payload=payload)
    app.in_transaction(lambda session: session.execute(statement))


class BrokenText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class ExitingText(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)

    __repr__ = __str__


class NoText(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]


class BrokenArgs(Exception):
    @property
    def args(self) -> NoReturn:  # type: ignore[override]
        raise ValueError("no args")


class BrokenNotes(Exception):
    @property
    def __notes__(self) -> NoReturn:  # type: ignore[override]
        raise ValueError("no notes")


class Unpicklable(Exception):
    def __init__(self, needed: str, *, also: str) -> None:
        super().__init__(needed)

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError("never")


def long_name() -> Exception:
    kind: type[Exception] = type("E" * 10_000, (Exception,), {})
    return kind("x")


def noted() -> Exception:
    error = ValueError("noted")
    error.add_note("a\x00b")
    error.__cause__ = ValueError("cause \x00 \ud83d")
    return error


TEXTS: dict[str, tuple[BaseException, str]] = {
    "empty": (ValueError(""), ""),
    "nul": (ValueError("a\x00b"), "a�b"),
    "surrogate": (ValueError("a\ud83db"), "a�b"),
    "emoji": (ValueError("😀"), "😀"),
    "literal": (ValueError("\\u0000 and \\\\u0000"), "\\u0000 and \\\\u0000"),
    "broken": (BrokenText(), "<unprintable BrokenText>"),
    "exiting": (ExitingText(), "<unprintable ExitingText>"),
    "no-text": (NoText(), "<unprintable NoText>"),
    "args": (BrokenArgs("x"), ""),
    "notes": (BrokenNotes("x"), "x"),
    "unpicklable": (Unpicklable("x", also="y"), "x"),
    "long-name": (long_name(), "x"),
    "noted": (noted(), "noted"),
    "huge": (ValueError("x" * 1_000_000), "x" * 1000),
}


@pytest.mark.parametrize("name", TEXTS)
def test_whatever_the_errors_text_is_the_outcome_is_recorded(app: App, name: str) -> None:
    """R20, C07, C61, C77."""
    error, text = TEXTS[name]

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise error

    app.consumer(handler, retry=at_once(1))
    message = app.publish()
    assert app.drain() == {"exception": 2}
    assert app.row(message).state == "dead"
    stored = app.log(message)[0].error_text or ""
    assert stored.startswith(text)
    assert len(stored) <= 10_000


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Terminal("a\x00\ud83d"), "terminal"),
        (Delay(5, reason="a\x00\ud83d"), "delayed"),
        (Terminal(BrokenText()), "terminal"),
        (ExceptionGroup("a\x00", [BrokenText(), Terminal("b")]), "terminal"),
    ],
    ids=["terminal", "delay", "terminal-of-broken", "group"],
)
def test_an_outcome_that_was_spoken_survives_its_text(
    app: App, error: Exception, outcome: str
) -> None:
    """R20, C07, C61: the class decides the outcome as usual."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise error

    app.consumer(handler)
    message = app.publish()
    assert app.drain() == {outcome: 1}
    assert len(app.log(message)) == 1


class Shy(Job):
    def __repr__(self) -> NoReturn:
        raise ValueError("no repr")


def test_a_payload_without_a_usable_repr_does_no_harm(app: App) -> None:
    """C61."""
    shy = app.vulkan.topic("shy", Shy)

    def handler(payload: Shy, session: Session, meta: MessageMeta) -> None:
        raise ValueError("bad")

    app.consumer(handler, topic=shy, retry=at_once(0))
    app.publish(Shy(), topic=shy)
    assert app.drain() == {"exception": 1}


def test_the_log_tells_when_a_run_began_and_how_long_it_took(app: App) -> None:
    """G5."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        began.append(time.monotonic())
        raise ValueError("bad")

    began: list[float] = []
    app.consumer(handler, retry=at_once(0))
    before = app.repo("now")
    message = app.publish()
    app.drain()
    after = app.repo("now")
    (entry,) = app.log(message)
    assert entry.started_at is not None
    assert entry.duration is not None
    assert before <= entry.started_at <= entry.logged_at <= after
    assert 0 <= entry.duration < 60
    assert (entry.traceback or "").endswith("ValueError: bad\n")
    assert entry.owner


def test_a_traceback_in_the_log_begins_at_the_handler(app: App) -> None:
    """Whoever reads it at night wants the application's own code."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise ValueError("no printer")

    app.consumer(handler, retry=at_once(0))
    message = app.publish()
    app.drain()
    (entry,) = app.log(message)
    assert entry.traceback is not None
    assert "vulkan_orm/consumers" not in entry.traceback
    assert "in handler" in entry.traceback
    assert entry.traceback.endswith("ValueError: no printer\n")


def test_of_many_that_fail_together_each_keeps_its_own_error(app: App) -> None:
    """However many of them are alike."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if payload.name:
            raise ValueError(payload.name)

    names = ["same", "other", "", "same", "x\\u0000"]
    app.consumer(handler, retry=at_once(0), log_successes=True)
    messages = app.publish_many([Job(name=name) for name in names])
    app.drain()
    assert [app.log(message)[0].error_text for message in messages] == [n or None for n in names]
    assert [app.row(message).payload["name"] for message in messages if message in app.queue()] == [
        name for name in names if name
    ]
