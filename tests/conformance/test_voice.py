"""What a handler says by returning or by the error it raises."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests.conformance.harness import GROUP, TOPIC, App, Job, at_once
from tests.conformance.host import Effect
from vulkan_orm import Delay, MessageMeta, PayloadError, Terminal

Raiser = Callable[[], None]


def raising(raiser: Raiser) -> Callable[[Job, Session, MessageMeta], None]:
    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.add(Effect(value=payload.name))
        raiser()

    return handler


@pytest.mark.parametrize("value", [None, 0, False, "no", [], ValueError("returned, not raised")])
def test_a_return_value_is_ignored_and_the_message_is_done(app: App, value: object) -> None:
    """R1."""
    app.consumer(lambda payload, session, meta: value)
    app.publish()
    assert app.drain() == {"succeeded": 1}
    assert app.queue() == {}
    assert app.log() == []


def _terminal() -> None:
    raise Terminal("card declined")


def _terminal_of_an_error() -> None:
    raise Terminal(KeyError("card"))


def _cause() -> None:
    raise RuntimeError("outer") from Terminal("inner")


def _deep_cause() -> None:
    try:
        _cause()
    except RuntimeError as error:
        raise LookupError("outermost") from error


def _group() -> None:
    raise ExceptionGroup("many", [ValueError("a"), Terminal("b")])


def _nested_group() -> None:
    raise ExceptionGroup("many", [ExceptionGroup("inner", [ValueError("a"), Terminal("b")])])


def _group_with_a_member_that_wraps() -> None:
    try:
        _cause()
    except RuntimeError as error:
        raise ExceptionGroup("many", [ValueError("a"), error]) from None


def _terminal_beside_a_delay() -> None:
    raise ExceptionGroup("many", [Delay(5), Terminal("b")])


def _delay_from_a_terminal() -> None:
    raise Delay(5) from Terminal("b")


TERMINAL = [
    _terminal,
    _terminal_of_an_error,
    _cause,
    _deep_cause,
    _group,
    _nested_group,
    _group_with_a_member_that_wraps,
    _terminal_beside_a_delay,
    _delay_from_a_terminal,
]


@pytest.mark.parametrize("raiser", TERMINAL, ids=lambda raiser: raiser.__name__)
def test_a_terminal_anywhere_in_the_error_is_dead_on_this_attempt(app: App, raiser: Raiser) -> None:
    """R2, R3, R5, C38."""
    app.consumer(raising(raiser))
    message = app.publish(Job(name="a"))
    assert app.drain() == {"terminal": 1}
    row = app.row(message)
    assert (row.state, row.attempts, row.delays) == ("dead", 1, 0)
    assert app.story(message) == [(1, "terminal")]
    assert app.effects() == []


def test_a_terminal_in_the_context_alone_changes_nothing(app: App) -> None:
    """R3: what was being handled when the error came does not wrap it."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        try:
            raise Terminal("unrelated")
        except Terminal:
            raise ValueError("the real error")  # noqa: B904

    app.consumer(handler, retry=at_once(0))
    message = app.publish()
    assert app.drain() == {"exception": 1}
    assert app.row(message).last_error == "ValueError: the real error"


def test_a_cycle_of_causes_ends_and_is_a_failure(app: App) -> None:
    """R3."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        first, second = ValueError("first"), ValueError("second")
        first.__cause__, second.__cause__ = second, first
        raise first

    app.consumer(handler, retry=at_once(0))
    app.publish()
    assert app.drain() == {"exception": 1}


def test_the_terminal_carries_its_condition_and_its_own_text(app: App) -> None:
    """R5."""
    app.consumer(raising(_terminal))
    message = app.publish()
    app.drain()
    (entry,) = app.log(message)
    assert (entry.error_code, entry.error_type) == ("VK0055", "vulkan_orm.core.outcomes.Terminal")
    assert entry.error_text == "card declined"
    assert entry.became == "dead"
    assert "card declined" in (app.row(message).last_error or "")


def test_the_log_shows_the_members_of_a_group(app: App) -> None:
    """C38."""
    app.consumer(raising(_nested_group))
    message = app.publish()
    app.drain()
    text = app.log(message)[0].error_text or ""
    assert "ValueError: a" in text
    assert "Terminal: b" in text


def test_the_longest_delay_in_a_group_counts(app: App) -> None:
    """C38, R3."""

    def raiser() -> None:
        raise ExceptionGroup(
            "many", [Delay(60), ValueError("x"), ExceptionGroup("in", [Delay(600)])]
        )

    app.consumer(raising(raiser))
    message = app.publish()
    assert app.drain() == {"delayed": 1}
    now = app.repo("now")
    assert 590 < (app.row(message).can_run_after - now).total_seconds() <= 600


class CardDeclined(Exception):
    pass


class RateLimited(Exception):
    retry_after = 120


class VerySlow(RateLimited):
    pass


def _slow_down(error: BaseException) -> Delay:
    return Delay(error.retry_after)  # type: ignore[attr-defined]


TREAT: dict[type[BaseException], Any] = {
    CardDeclined: Terminal,
    RateLimited: _slow_down,
    VerySlow: Delay(3600),
}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (CardDeclined("no funds"), "terminal"),
        (RateLimited("429"), "delayed"),
        (VerySlow("503"), "delayed"),
        (ExceptionGroup("all", [ValueError(), CardDeclined("no funds")]), "terminal"),
        (ValueError("neither"), "exception"),
    ],
    ids=["class", "function", "most-derived", "in-a-group", "unmapped"],
)
def test_errors_of_others_mean_what_the_consumer_says_they_mean(
    app: App, error: Exception, outcome: str
) -> None:
    """R6a."""

    def raiser() -> None:
        raise error

    app.consumer(raising(raiser), treat=TREAT, retry=at_once(0))
    message = app.publish()
    assert app.drain() == {outcome: 1}
    wait = (app.row(message).can_run_after - app.repo("now")).total_seconds()
    waits: dict[type[Exception], int] = {RateLimited: 120, VerySlow: 3600}
    expected = waits.get(type(error), 0)
    assert expected - 10 < wait <= expected


def test_what_the_handler_says_itself_goes_before_the_mapping(app: App) -> None:
    """R6a."""

    def raiser() -> None:
        raise Delay(5) from CardDeclined("no funds")

    app.consumer(raising(raiser), treat=TREAT)
    app.publish()
    assert app.drain() == {"delayed": 1}


def test_our_own_permanent_error_that_escapes_a_handler_is_terminal(app: App) -> None:
    """R7."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        app.publish_in(session, Job(name="nul\x00"))

    app.consumer(handler)
    message = app.publish()
    assert app.drain() == {"terminal": 1}
    (entry,) = app.log(message)
    assert (entry.error_code, entry.error_type) == ("VK0020", _name(PayloadError))
    assert app.row(message).state == "dead"


def test_our_own_transient_error_that_escapes_a_handler_is_retried(app: App) -> None:
    """R2, R7."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        Delay(-5)

    app.consumer(handler, retry=at_once(1))
    message = app.publish()
    assert app.drain() == {"exception": 2}
    assert [entry.error_code for entry in app.log(message)] == ["VK0008", "VK0008"]


def test_the_names_in_the_log_are_those_of_topic_and_group(app: App) -> None:
    """R14."""
    seen: list[tuple[str, str]] = []
    app.consumer(lambda payload, session, meta: seen.append((meta.topic, meta.group)))
    app.publish()
    app.drain()
    assert seen == [(TOPIC, GROUP)]


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
