"""Turning any error into text that every database takes: cleaned, capped, never raising."""

import traceback
from collections.abc import Sequence
from types import CodeType, TracebackType

from vulkan_orm.core.outcomes import ErrorText
from vulkan_orm.diagnostics import condition_of

MAX_TYPE = 200
MAX_TEXT = 10_000
MAX_TRACEBACK = 20_000
_DEPTH = 5
# Members, the line of source, or what a misspelt name may have meant.
_SAY_MORE = (BaseExceptionGroup, SyntaxError, NameError, AttributeError, ImportError)
_HEADING = "Traceback (most recent call last):\n"
# The same failure comes the same way again and again: its frames as text, by code and place.
# With the code, so that nothing else can get its identity.
_stacks: dict[tuple[int, ...], tuple[str, Sequence[CodeType]]] = {}
_MAX_STACKS = 128


def clean(text: str, limit: int) -> str:
    """Replaces what a database refuses (NUL, lone surrogates) visibly, and caps the length."""
    # The spare character keeps the sign that something was cut off.
    text = text[: limit + 1].replace("\x00", "\ufffd")
    if text.isascii() and len(text) <= limit:
        return text
    # By way of UTF-16 two halves of one character find together, and a lone one shows as U+FFFD.
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def describe(error: BaseException) -> ErrorText:
    """The error as it is stored. Whatever its own methods do, this returns."""
    kind = _type_name(error)
    text = _message(error, _DEPTH)
    return ErrorText(
        type=clean(kind, MAX_TYPE),
        text=clean(text, MAX_TEXT),
        code=_code(error),
        traceback=_traceback(error, f"{kind}: {text}\n" if text else f"{kind}\n"),
    )


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _message(error: BaseException, depth: int) -> str:
    # BaseException: a __str__ may raise SystemExit, and the outcome is recorded all the same.
    try:
        # str() hands on what __str__ gave, which may be a subclass with methods of its own.
        text = str.__str__(str(error))[: MAX_TEXT + 1]
    except BaseException:
        text = f"<unprintable {type(error).__name__}>"
    if isinstance(error, BaseExceptionGroup) and depth:
        members = "; ".join(
            f"{type(member).__name__}: {_message(member, depth - 1)}" for member in error.exceptions
        )
        text = f"{text} [{members}]"
    return text


def _code(error: BaseException) -> str | None:
    condition = condition_of(error)
    return condition.code if condition else None


def _traceback(error: BaseException, last_line: str) -> str | None:
    try:
        if error.__traceback__ is None:
            return None
        frames = _from_handler(error.__traceback__)
        if _stands_alone(error):
            found = f"{_HEADING}{_stack(frames)}{last_line}"
        else:
            found = "".join(traceback.format_exception(type(error), error, frames))
    except BaseException:
        return None
    # The end of a traceback says most, so the beginning is what a cap takes away.
    return clean(found[-MAX_TRACEBACK:], MAX_TRACEBACK)


def _stands_alone(error: BaseException) -> bool:
    """Whether its traceback is its frames and its text, and Python would add nothing."""
    return (
        error.__cause__ is None
        and (error.__context__ is None or error.__suppress_context__)
        and getattr(error, "__notes__", None) is None
        and not isinstance(error, _SAY_MORE)
    )


def _stack(frames: TracebackType) -> str:
    """The frames as Python shows them; formatting them costs more than a handler that fails."""
    codes: list[CodeType] = []
    places: list[int] = []
    frame: TracebackType | None = frames
    while frame is not None:
        code = frame.tb_frame.f_code
        codes.append(code)
        places += (id(code), frame.tb_lasti)
        frame = frame.tb_next
    key = tuple(places)
    known = _stacks.get(key)
    if known is None:
        if len(_stacks) >= _MAX_STACKS:
            _stacks.clear()
        known = _stacks[key] = ("".join(traceback.format_tb(frames)), codes)
    return known[0]


def _from_handler(frames: TracebackType) -> TracebackType:
    """The frames from the handler on: how it came to be called tells a reader nothing."""
    frame: TracebackType | None = frames
    while frame is not None:
        if not frame.tb_frame.f_globals.get("__name__", "").startswith("vulkan_orm.consumers."):
            return frame
        frame = frame.tb_next
    return frames
