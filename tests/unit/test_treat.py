"""Meanings given to errors that do not know us (R6a)."""

from datetime import timedelta
from typing import Any

import pytest

from vulkan_orm.core.classify import Treat, check_treat, classify
from vulkan_orm.core.outcomes import Delay, Delayed, Ended, Failed, Terminal
from vulkan_orm.diagnostics import BAD_OPTION, UsageError


class PaymentError(Exception):
    pass


class CardDeclined(PaymentError):
    pass


class Busy(Exception):
    def __init__(self, retry_after: float) -> None:
        super().__init__(f"busy for {retry_after}")
        self.retry_after = retry_after


def busy(error: BaseException) -> Delay:
    assert isinstance(error, Busy)
    return Delay(error.retry_after)


TREAT: Treat = {CardDeclined: Terminal, PaymentError: Delay(30), Busy: busy}


def test_an_error_can_mean_terminal() -> None:
    """R6a"""
    assert isinstance(classify(CardDeclined("x"), TREAT), Ended)


def test_an_error_can_mean_a_delay() -> None:
    """R6a"""
    outcome = classify(PaymentError("x"), TREAT)
    assert isinstance(outcome, Delayed)
    assert outcome.wait == timedelta(seconds=30)


def test_an_error_can_be_asked_what_it_means() -> None:
    """R6a"""
    outcome = classify(Busy(7), TREAT)
    assert isinstance(outcome, Delayed)
    assert outcome.wait == timedelta(seconds=7)


def test_an_error_that_is_not_mapped_is_a_failed_run() -> None:
    """R6a"""
    assert isinstance(classify(ValueError("x"), TREAT), Failed)


def test_the_most_derived_class_counts_whatever_the_order_of_the_mapping() -> None:
    """R6a"""
    treat: Treat = {Exception: Delay(1), PaymentError: Delay(30), CardDeclined: Terminal}
    assert isinstance(classify(CardDeclined("x"), treat), Ended)


def test_a_subclass_that_is_not_mapped_means_what_its_parent_means() -> None:
    """R6a"""

    class Expired(CardDeclined):
        pass

    assert isinstance(classify(Expired("x"), TREAT), Ended)


def test_a_mapped_error_is_found_inside_a_cause_chain() -> None:
    """R6a, R3"""
    error = RuntimeError("x")
    error.__cause__ = CardDeclined("y")
    assert isinstance(classify(error, TREAT), Ended)


def test_a_mapped_error_is_found_inside_a_group() -> None:
    """R6a, R3, C38"""
    assert isinstance(classify(ExceptionGroup("g", [Busy(7), CardDeclined("x")]), TREAT), Ended)


def test_what_the_handler_said_itself_goes_before_the_mapping() -> None:
    """R6a"""
    error = Delay(5)
    error.__cause__ = CardDeclined("x")
    assert isinstance(classify(error, TREAT), Delayed)


def test_the_text_is_that_of_the_error_and_not_of_its_meaning() -> None:
    """R6a"""
    assert classify(PaymentError("insufficient funds"), TREAT).error.text == "insufficient funds"


@pytest.mark.parametrize("raised", [ValueError("x"), SystemExit(3)])
def test_a_meaning_that_fails_leaves_the_error_a_failed_run(raised: BaseException) -> None:
    """R6a, R20"""

    def meaning(error: BaseException) -> BaseException:
        raise raised

    assert isinstance(classify(Busy(7), {Busy: meaning}), Failed)


def test_a_meaning_that_yields_an_unusable_delay_leaves_the_error_a_failed_run() -> None:
    """R6a, C67"""
    assert isinstance(classify(Busy(-7), TREAT), Failed)


def test_a_meaning_may_raise_what_it_would_return() -> None:
    """R6a, R1"""

    def meaning(error: BaseException) -> BaseException:
        raise Terminal(error)

    assert isinstance(classify(Busy(7), {Busy: meaning}), Ended)


@pytest.mark.parametrize("nothing", [None, "text", Terminal, ValueError("x")], ids=repr)
def test_a_meaning_that_says_nothing_leaves_the_error_a_failed_run(nothing: Any) -> None:
    """R6a"""
    assert isinstance(classify(Busy(7), {Busy: lambda _: nothing}), Failed)


def test_a_meaning_that_is_false_is_a_meaning() -> None:
    """R6a"""

    class Never(Terminal):
        def __bool__(self) -> bool:
            return False

    assert isinstance(classify(Busy(7), {Busy: Never}), Ended)


def test_a_usable_mapping_is_accepted() -> None:
    """R6a"""
    check_treat(TREAT)


@pytest.mark.parametrize(
    "treat",
    [
        {"CardDeclined": Terminal},
        {int: Terminal},
        {CardDeclined: 30},
        {CardDeclined: "terminal"},
        {CardDeclined: None},
        {CardDeclined: Delay},
        {CardDeclined: ValueError},
    ],
    ids=repr,
)
def test_a_mapping_that_could_not_be_honoured_is_refused(treat: Any) -> None:
    """R6a"""
    with pytest.raises(UsageError) as refused:
        check_treat(treat)
    assert refused.value.condition is BAD_OPTION
