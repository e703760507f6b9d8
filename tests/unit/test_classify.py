"""From the error a handler raised to the outcome it means."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from vulkan_orm.core.classify import classify, walk
from vulkan_orm.core.outcomes import Delay, Delayed, Ended, Failed, Terminal
from vulkan_orm.diagnostics import BAD_DELAY, REGISTRY, STALE_CLAIM, UsageError, VulkanError

EARLY = datetime(2030, 1, 1, tzinfo=UTC)
LATE = datetime(2031, 1, 1, tzinfo=UTC)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def wait_of(error: BaseException) -> timedelta:
    outcome = classify(error)
    assert isinstance(outcome, Delayed)
    return outcome.wait


def test_any_other_error_is_a_failed_run() -> None:
    """R2"""
    assert isinstance(classify(ValueError("x")), Failed)


def test_a_terminal_is_terminal() -> None:
    """R2, R5"""
    assert isinstance(classify(Terminal("x")), Ended)


def test_a_delay_is_a_delay() -> None:
    """R2, R6"""
    assert wait_of(Delay(30)) == timedelta(seconds=30)


def test_a_delay_of_zero_is_a_delay_and_no_failure() -> None:
    """R6, C67"""
    assert wait_of(Delay(0)) == timedelta(0)


def test_a_delay_until_an_instant_keeps_the_instant() -> None:
    """R6"""
    outcome = classify(Delay(until=EARLY))
    assert isinstance(outcome, Delayed)
    assert (outcome.wait, outcome.until) == (timedelta(0), EARLY)


@pytest.mark.parametrize("code", sorted(REGISTRY))
def test_the_kind_of_a_condition_decides_what_its_error_means(code: str) -> None:
    """R2, R7: permanent errors of ours that escape a handler are terminal too."""
    condition = REGISTRY[code]
    terminal = isinstance(classify(VulkanError(condition, "x")), Ended)
    assert terminal == (condition.kind == "permanent")


@pytest.mark.parametrize("error", [SystemExit(0), GeneratorExit(), asyncio.CancelledError()])
def test_an_error_that_is_no_exception_is_a_failed_run(error: BaseException) -> None:
    """R19"""
    assert isinstance(classify(error), Failed)


def test_a_refused_delay_in_a_handler_is_an_ordinary_failed_run() -> None:
    """C67"""
    with pytest.raises(UsageError) as refused:
        Delay(-5)
    assert refused.value.condition is BAD_DELAY
    assert isinstance(classify(refused.value), Failed)


# Wrapping


def test_a_terminal_inside_a_cause_chain_is_terminal() -> None:
    """R3, C38"""
    error = caused(RuntimeError("outer"), caused(OSError("middle"), Terminal("inner")))
    assert isinstance(classify(error), Ended)


def test_a_terminal_inside_a_group_is_terminal() -> None:
    """R3, C38"""
    assert isinstance(classify(ExceptionGroup("g", [ValueError("a"), Terminal("b")])), Ended)


def test_a_terminal_inside_nested_groups_is_terminal() -> None:
    """R3, C38"""
    inner = ExceptionGroup("inner", [caused(ValueError("a"), Terminal("b"))])
    assert isinstance(classify(ExceptionGroup("outer", [KeyError("c"), inner])), Ended)


def test_a_terminal_raised_by_a_child_of_a_task_group_is_terminal() -> None:
    """R3, C38"""

    async def child() -> None:
        raise Terminal("x")

    async def parent() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(child())

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(parent())
    assert isinstance(classify(raised.value), Ended)


def test_a_terminal_that_causes_a_delay_is_terminal() -> None:
    """R3: permanent anywhere wins over delay anywhere."""
    assert isinstance(classify(caused(Delay(30), Terminal("x"))), Ended)


def test_a_terminal_beside_a_delay_in_a_group_is_terminal() -> None:
    """R3, C38"""
    assert isinstance(classify(ExceptionGroup("g", [Delay(30), Terminal("x")])), Ended)


def test_a_delay_that_causes_another_error_is_a_delay() -> None:
    """R3"""
    assert wait_of(caused(RuntimeError("x"), Delay(30))) == timedelta(seconds=30)


def test_of_several_delays_the_longest_counts() -> None:
    """C38"""
    assert wait_of(ExceptionGroup("g", [Delay(60), Delay(5)])) == timedelta(seconds=60)


def test_of_several_instants_the_latest_counts() -> None:
    """C38"""
    outcome = classify(ExceptionGroup("g", [Delay(until=LATE), Delay(until=EARLY)]))
    assert isinstance(outcome, Delayed)
    assert outcome.until == LATE


def test_a_wait_and_an_instant_in_one_group_both_count() -> None:
    """C38: which of them is later only the database's clock can tell."""
    outcome = classify(ExceptionGroup("g", [Delay(until=EARLY), Delay(60)]))
    assert isinstance(outcome, Delayed)
    assert (outcome.wait, outcome.until) == (timedelta(seconds=60), EARLY)


def test_an_error_raised_while_handling_a_terminal_is_not_terminal() -> None:
    """R3: an implicit context wraps nothing."""

    def handler() -> None:
        try:
            raise Terminal("x")
        except Terminal:
            raise ValueError("own fault")  # noqa: B904

    with pytest.raises(ValueError, match="own fault") as raised:
        handler()
    assert isinstance(raised.value.__context__, Terminal)
    assert isinstance(classify(raised.value), Failed)


def test_a_cause_that_was_cut_off_with_from_none_wraps_nothing() -> None:
    """R3"""

    def handler() -> None:
        try:
            raise Terminal("x")
        except Terminal:
            raise ValueError("own fault") from None

    with pytest.raises(ValueError, match="own fault") as raised:
        handler()
    assert isinstance(classify(raised.value), Failed)


def test_a_cycle_of_causes_is_walked_once() -> None:
    """R3"""
    first, second = ValueError("a"), ValueError("b")
    caused(first, second)
    caused(second, first)
    assert list(walk(first)) == [first, second]


def test_an_error_that_causes_itself_is_walked_once() -> None:
    """R3"""
    error = ValueError("a")
    assert list(walk(caused(error, error))) == [error]


def test_a_cycle_through_a_group_is_walked_once() -> None:
    """R3"""
    member = ValueError("a")
    group = ExceptionGroup("g", [member])
    assert list(walk(caused(member, group))) == [member, group]


def test_the_walk_is_depth_first_and_causes_come_before_members() -> None:
    """R3"""
    a, b, c, d = (ValueError(name) for name in "abcd")
    group = ExceptionGroup("g", [caused(a, b), c])
    assert list(walk(caused(group, d))) == [group, d, a, b, c]


def test_a_terminal_at_the_end_of_a_very_long_chain_is_found() -> None:
    """R3"""
    error: Exception = Terminal("x")
    for _ in range(5_000):
        error = caused(ValueError("y"), error)
    assert isinstance(classify(error), Ended)


def test_a_terminal_in_a_very_deep_group_is_found() -> None:
    """R3, C38"""
    error: Exception = Terminal("x")
    for _ in range(2_000):
        error = ExceptionGroup("g", [error])
    assert isinstance(classify(error), Ended)


# What applications make of our classes


def test_a_subclass_of_terminal_that_forgot_its_parent_is_terminal() -> None:
    """R5, C61: the class decides the outcome."""

    class Declined(Terminal):
        def __init__(self, code: int) -> None:
            self.reason = code

    assert isinstance(classify(Declined(5)), Ended)


def test_a_subclass_of_delay_that_forgot_its_parent_is_a_failed_run() -> None:
    """R6, C61: it names no time, and again at once for ever would be worse."""

    class Busy(Delay):
        def __init__(self, host: str) -> None:
            self.host = host

    assert isinstance(classify(Busy("bank")), Failed)


def test_an_error_of_ours_without_its_condition_is_a_failed_run() -> None:
    """R20, C61"""

    class Odd(VulkanError):
        def __init__(self) -> None:
            pass

    assert isinstance(classify(Odd()), Failed)


def test_an_error_whose_cause_cannot_be_read_is_a_failed_run() -> None:
    """R20, C61"""

    class Odd(Exception):
        @property
        def __cause__(self) -> BaseException | None:  # type: ignore[override]
            raise SystemExit(3)

    assert isinstance(classify(Odd()), Failed)


def test_a_text_that_cannot_be_read_does_not_change_the_outcome() -> None:
    """R20, C61"""

    class Odd(Terminal):
        def __str__(self) -> str:
            raise SystemExit(3)

    assert isinstance(classify(Odd("x")), Ended)


def test_the_outcome_holds_the_text_of_the_error_that_was_raised() -> None:
    """R20: the outermost error, since it is what the handler said."""
    outcome = classify(caused(RuntimeError("outer"), Terminal("inner")))
    assert outcome.error.text == "outer"


def test_a_delay_keeps_its_reason_as_the_text() -> None:
    """R12: a delay beyond the cap dies with its own text."""
    assert classify(Delay(30, reason="the bank is closed")).error.text == "the bank is closed"


def test_the_code_of_an_error_of_ours_is_kept() -> None:
    assert classify(VulkanError(STALE_CLAIM, "x")).error.code == "VK0030"
