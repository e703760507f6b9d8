"""Whatever an error's own methods do, it becomes text that every database takes."""

import traceback
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vulkan_orm.core.outcomes import Delay, ErrorText, Terminal
from vulkan_orm.core.texts import MAX_TEXT, MAX_TRACEBACK, MAX_TYPE, clean, describe
from vulkan_orm.diagnostics import STALE_CLAIM, VulkanError

LONG_NAME = "X" * 10_000


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Interrupts(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class Recurses(Exception):
    def __str__(self) -> str:
        return str(self)


class NoText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class HostileText(str):
    """A str that ``str()`` hands on as it is."""

    def __getitem__(self, _: Any) -> str:
        raise SystemExit(3)

    def replace(self, *_: Any) -> str:
        raise SystemExit(3)

    def encode(self, *_: Any) -> bytes:
        raise SystemExit(3)

    def __len__(self) -> int:
        raise SystemExit(3)


class SaysHostileText(Exception):
    def __str__(self) -> str:
        return HostileText("x")


class NoRepr(Exception):
    def __repr__(self) -> str:
        raise SystemExit(3)


class NoArgs(Exception):
    @property
    def args(self) -> Any:  # type: ignore[override]
        raise SystemExit(3)


class NoNotes(Exception):
    @property
    def __notes__(self) -> Any:  # type: ignore[override]
        raise SystemExit(3)


class NoReduce(Exception):
    def __reduce__(self) -> Any:
        raise SystemExit(3)


class NoTraceback(Exception):
    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise SystemExit(3)


class Lost(Terminal):
    def __init__(self) -> None:
        pass


def noted(text: str) -> Exception:
    error = ValueError("x")
    error.add_note(text)
    return error


def caused_by(cause: BaseException) -> Exception:
    error = ValueError("x")
    error.__cause__ = cause
    return error


def cyclic() -> Exception:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    return first


def deep_group(depth: int) -> Exception:
    error: Exception = ValueError("x")
    for _ in range(depth):
        error = ExceptionGroup("g", [error])
    return error


def deep_chain(depth: int) -> Exception:
    error: Exception = ValueError("x")
    for _ in range(depth):
        error = caused_by(error)
    return error


NASTY: dict[str, Callable[[], BaseException]] = {
    "text is empty": lambda: ValueError(""),
    "text is huge": lambda: ValueError("x" * 5_000_000),
    "text is huge emoji": lambda: ValueError("\N{GRINNING FACE}" * 1_000_000),
    "text has NUL": lambda: ValueError("a\x00b"),
    "text has a lone surrogate": lambda: ValueError("a\ud83db"),
    "text was decoded with surrogateescape": lambda: ValueError(
        b"\xff".decode("utf-8", "surrogateescape")
    ),
    "text exits": Exits,
    "text interrupts": Interrupts,
    "text recurses": Recurses,
    "text is a number": NoText,
    "text is a hostile str": SaysHostileText,
    "repr exits": NoRepr,
    "repr exits within a KeyError": lambda: KeyError(NoRepr()),
    "args exits": NoArgs,
    "notes exits": NoNotes,
    "reduce exits": NoReduce,
    "traceback exits": NoTraceback,
    "class name of 10 KB": lambda: type(LONG_NAME, (Exception,), {})("x"),
    "class name of 10 KB and text exits": lambda: type(LONG_NAME, (Exits,), {})(),
    "class name with NUL": lambda: type("X", (Exception,), {"__qualname__": "a\x00b"})(),
    "class name with a surrogate": lambda: type("X", (Exception,), {"__qualname__": "\ud83d"})(),
    "module is no text": lambda: type("X", (Exception,), {"__module__": None})(),
    "note has NUL": lambda: noted("a\x00b"),
    "cause has NUL": lambda: caused_by(ValueError("a\x00b")),
    "cause exits": lambda: caused_by(Exits()),
    "causes are cyclic": cyclic,
    "causes are many": lambda: deep_chain(10_000),
    "group is deep": lambda: deep_group(5_000),
    "group is wide": lambda: ExceptionGroup("g", [ValueError("x" * 20_000)] * 1_000),
    "member exits": lambda: ExceptionGroup("g", [Exits(), ValueError("x")]),
    "terminal with NUL": lambda: Terminal("\x00"),
    "terminal around an error that exits": lambda: Terminal(Exits()),
    "terminal that forgot its parent": Lost,
    "delay with NUL": lambda: Delay(5, reason="\x00"),
    "delay with a reason that is no text": lambda: Delay(5, reason=5),  # type: ignore[arg-type]
}


def raised(error: BaseException) -> BaseException:
    secret = "a local with NUL \x00"
    assert secret
    try:
        raise error
    except BaseException as caught:
        return caught


def stored_texts(text: ErrorText) -> list[tuple[str, int]]:
    texts = [(text.type, MAX_TYPE), (text.text, MAX_TEXT)]
    return texts if text.traceback is None else [*texts, (text.traceback, MAX_TRACEBACK)]


@pytest.mark.parametrize("make", NASTY.values(), ids=NASTY)
def test_a_nasty_error_becomes_text_that_can_be_stored(make: Callable[[], BaseException]) -> None:
    """R20, C07, C61, C77"""
    for text, limit in stored_texts(describe(raised(make()))):
        assert isinstance(text, str)
        assert len(text) <= limit
        assert "\x00" not in text
        text.encode("utf-8")


@pytest.mark.parametrize("make", NASTY.values(), ids=NASTY)
def test_a_nasty_error_that_was_never_raised_is_described_too(
    make: Callable[[], BaseException],
) -> None:
    """R20, C61"""
    assert isinstance(describe(make()), ErrorText)


def test_an_error_is_described_by_its_class_and_its_text() -> None:
    """R20"""
    text = describe(ValueError("card declined"))
    assert (text.type, text.text, text.code, text.traceback) == (
        "ValueError",
        "card declined",
        None,
        None,
    )


def test_a_class_of_an_application_is_named_with_its_module() -> None:
    assert describe(Exits()).type == f"{__name__}.Exits"


def test_an_unprintable_error_is_described_by_a_placeholder() -> None:
    """R20, C61"""
    assert describe(Exits()).text == "<unprintable Exits>"


def test_a_text_with_methods_of_its_own_is_stored_as_plain_text() -> None:
    """C61"""
    text = describe(SaysHostileText()).text
    assert (type(text), text) == (str, "x")


def test_a_nul_is_replaced_visibly() -> None:
    """C07"""
    assert describe(ValueError("a\x00b")).text == "a\N{REPLACEMENT CHARACTER}b"


def test_a_lone_surrogate_is_replaced_visibly() -> None:
    """C77"""
    assert describe(ValueError("a\ud83db")).text == "a\N{REPLACEMENT CHARACTER}b"


def test_two_halves_of_one_character_find_together() -> None:
    """C77"""
    assert clean("\ud83d\ude00", 10) == "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    "text",
    [r"\u0000", r"\\u0000", "\N{GRINNING FACE}", "\uffff", "\ufeffx", "\u202eabc", "e\u0301"],
)
def test_valid_text_is_kept_character_by_character(text: str) -> None:
    """C77"""
    assert describe(ValueError(text)).text == text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_any_valid_text_within_the_limit_is_kept(text: str) -> None:
    """C77"""
    assert clean(text, max(len(text), 1)) == text


@given(st.text(st.characters()), st.integers(1, 50))
def test_any_text_is_cleaned_and_capped(text: str, limit: int) -> None:
    """R20, C77"""
    cleaned = clean(text, limit)
    assert len(cleaned) <= limit
    assert "\x00" not in cleaned
    cleaned.encode("utf-8")


def test_a_text_that_was_cut_says_so() -> None:
    """R20"""
    assert clean("abcdef", 4) == "abc…"


def test_a_text_that_just_fits_is_not_cut() -> None:
    """R20"""
    assert clean("abcd", 4) == "abcd"


def test_a_cut_error_text_says_so() -> None:
    """R20"""
    assert describe(ValueError("x" * 20_000)).text.endswith("x…")


def test_the_members_of_a_group_are_listed() -> None:
    """C38: the log shows the members."""
    text = describe(ExceptionGroup("two", [ValueError("a"), KeyError("b")])).text
    assert "ValueError: a" in text
    assert "KeyError: 'b'" in text


def test_the_members_of_a_nested_group_are_listed() -> None:
    """C38"""
    inner = ExceptionGroup("inner", [ValueError("a")])
    assert "ValueError: a" in describe(ExceptionGroup("outer", [inner])).text


def test_the_end_of_a_long_traceback_is_what_is_kept() -> None:
    """R20"""
    error = raised(caused_by(ValueError("y" * 50_000)))
    text = describe(error).traceback
    assert text is not None
    assert text.endswith("ValueError: x\n")


def test_a_note_is_found_in_the_traceback() -> None:
    """C07"""
    text = describe(raised(noted("order\x0017"))).traceback
    assert text is not None
    assert "order\N{REPLACEMENT CHARACTER}17" in text


def test_the_code_of_an_error_of_ours_is_kept() -> None:
    assert describe(VulkanError(STALE_CLAIM, "x")).code == "VK0030"


def test_a_code_that_an_application_gave_its_own_terminal_is_not_ours() -> None:
    """C61"""

    class NotFound(Terminal):
        code = 404  # type: ignore[assignment]

    assert describe(NotFound("x")).code == "VK0055"


def test_the_traceback_of_a_lone_error_is_what_python_prints() -> None:
    error = raised(ValueError("card declined"))
    for _ in range(2):
        assert describe(error).traceback == "".join(traceback.format_exception(error))


def test_equal_code_in_two_files_is_told_apart() -> None:
    for name in ("one.py", "two.py"):
        error: BaseException | None = None
        try:
            exec(compile("raise ValueError", name, "exec"))
        except ValueError as caught:
            error = caught
        assert error is not None
        assert f'File "{name}", line 1' in (describe(error).traceback or "")


def test_a_misspelt_name_is_explained_as_python_explains_it() -> None:
    with pytest.raises(NameError) as caught:
        exec("describe_it = 1; describe_ti")
    expected = "".join(traceback.format_exception(caught.value))
    assert describe(caught.value).traceback == expected
