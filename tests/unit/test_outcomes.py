"""Terminal and Delay: the errors a handler speaks with."""

import copy
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from vulkan_orm.core.outcomes import Delay, Terminal
from vulkan_orm.diagnostics import BAD_DELAY, DELIVERY_DELAYED, DELIVERY_TERMINAL, UsageError

AT_TWO = datetime(2030, 1, 1, 2, tzinfo=UTC)


class RateLimited(Delay):
    def __init__(self, retry_after: float, host: str) -> None:
        super().__init__(retry_after, reason=f"{host} is busy")
        self.host = host


def caught(raising: Any) -> BaseException:
    try:
        raising()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_terminal_carries_the_permanent_condition() -> None:
    """R5"""
    assert Terminal("card declined").condition is DELIVERY_TERMINAL


def test_terminal_takes_a_text() -> None:
    """R5"""
    assert str(Terminal("card declined")) == "card declined"


def test_terminal_wraps_an_error() -> None:
    """R5"""
    error = ValueError("card declined")
    terminal = Terminal(error)
    assert terminal.__cause__ is error
    assert str(terminal) == "card declined"


def test_terminal_keeps_its_text_when_it_is_raised_from_an_error() -> None:
    """R5: the handler's words, not the other error's, say why."""

    def raising() -> None:
        raise Terminal("card declined") from OSError("502")

    assert str(caught(raising)) == "card declined"


def test_terminal_keeps_the_text_of_its_error_when_raised_from_none() -> None:
    """R5"""

    def raising() -> None:
        raise Terminal(ValueError("card declined")) from None

    assert str(caught(raising)) == "card declined"


def test_terminal_raised_without_a_word_is_terminal() -> None:
    """R5: were it refused, "never again" would be tried again."""

    def raising() -> None:
        raise Terminal

    assert isinstance(caught(raising), Terminal)


def test_terminal_is_an_ordinary_exception() -> None:
    """R6b"""
    assert isinstance(Terminal("x"), Exception)


def test_terminal_survives_pickling_with_the_error_it_wraps() -> None:
    """C61"""
    terminal = pickle.loads(pickle.dumps(Terminal(ValueError("card declined"))))
    assert isinstance(terminal, Terminal)
    assert isinstance(terminal.__cause__, ValueError)
    assert (str(terminal), terminal.condition) == ("card declined", DELIVERY_TERMINAL)


def test_terminal_survives_pickling_with_its_text() -> None:
    """C61"""
    assert str(pickle.loads(pickle.dumps(Terminal("card declined")))) == "card declined"


def test_delay_carries_the_transient_condition() -> None:
    """R6"""
    assert Delay(30).condition is DELIVERY_DELAYED


def test_delay_takes_seconds() -> None:
    """R6"""
    assert Delay(30).wait == timedelta(seconds=30)


def test_delay_takes_a_timedelta() -> None:
    """R6"""
    assert Delay(timedelta(minutes=5)).wait == timedelta(minutes=5)


def test_delay_takes_an_aware_datetime() -> None:
    """R6"""
    delay = Delay(until=AT_TWO)
    assert (delay.wait, delay.until) == (None, AT_TWO)


def test_delay_of_zero_is_allowed() -> None:
    """R6, C67"""
    assert Delay(0).wait == timedelta(0)


def test_delay_says_the_reason_it_was_given() -> None:
    """R6"""
    assert str(Delay(30, reason="the bank is closed")) == "the bank is closed"


def test_delay_without_a_reason_says_how_long() -> None:
    """R6"""
    assert str(Delay(30)) == "again in 0:00:30"


def test_delay_until_an_instant_says_which() -> None:
    """R6"""
    assert str(Delay(until=AT_TWO)) == "again at 2030-01-01 02:00:00+00:00"


@pytest.mark.parametrize("wait", [-5, float("nan"), 10**400, timedelta.max, "5", None])
def test_delay_refuses_an_unusable_wait(wait: Any) -> None:
    """R6, C67"""
    with pytest.raises(UsageError) as refused:
        Delay(wait)
    assert refused.value.condition is BAD_DELAY


def test_delay_refuses_a_naive_instant() -> None:
    """R6"""
    with pytest.raises(UsageError):
        Delay(until=datetime(2030, 1, 1, 2))


def test_delay_refuses_a_wait_and_an_instant_together() -> None:
    """R6"""
    with pytest.raises(UsageError):
        Delay(30, until=AT_TWO)


def test_delay_is_an_ordinary_exception() -> None:
    """R6b"""
    assert isinstance(Delay(0), Exception)


@pytest.mark.parametrize("delay", [Delay(30), Delay(0, reason="x"), Delay(until=AT_TWO)], ids=str)
@pytest.mark.parametrize("again", [lambda d: pickle.loads(pickle.dumps(d)), copy.deepcopy])
def test_delay_survives_pickling_and_copying(delay: Delay, again: Any) -> None:
    """C61"""
    twin = again(delay)
    assert isinstance(twin, Delay)
    assert (twin.wait, twin.until, twin.reason, str(twin), twin.condition) == (
        delay.wait,
        delay.until,
        delay.reason,
        str(delay),
        DELIVERY_DELAYED,
    )


def test_a_subclass_of_delay_survives_pickling_as_itself() -> None:
    """C61: an exception with another constructor."""
    twin = pickle.loads(pickle.dumps(RateLimited(7, host="bank")))
    assert isinstance(twin, RateLimited)
    assert (twin.wait, twin.host, str(twin)) == (timedelta(seconds=7), "bank", "bank is busy")
