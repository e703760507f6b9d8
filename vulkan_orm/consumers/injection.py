"""Which parameter of a handler gets what: read from its annotations when it is registered."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from vulkan_orm.consumers.meta import MessageMeta
from vulkan_orm.consumers.telling import telling
from vulkan_orm.diagnostics import NOT_AWAITED, NOT_INJECTABLE, WRONG_COLOUR, UsageError

Handler = Callable[..., Any]
ROLES = ("payload", "session", "meta")


@dataclass(frozen=True, slots=True)
class Injection:
    """How to call one handler: ``call`` takes payload, session and meta, or lists for a batch."""

    call: Callable[[Any, Any, Any], Any]
    is_async: bool
    session: bool
    meta: bool
    batch: bool


def inject(handler: Handler, payload_type: Any, *, async_engine: bool) -> Injection:
    """Plans the call, or refuses the handler.

    :raises UsageError: VK0005 for a parameter that nothing fits, VK0006 for a handler of the
        other colour.
    """
    function = _function(handler)
    name = getattr(function, "__qualname__", repr(handler))
    is_async = inspect.iscoroutinefunction(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(NOT_INJECTABLE, f"{name} is a generator, whose body nobody would run.")
    parameters = _parameters(handler, function, name)
    batch = any(_is_batch(annotation, payload_type) for _, annotation in parameters)
    found: dict[str, str] = {}
    for parameter, annotation in parameters:
        role = _role(annotation, payload_type, batch=batch)
        if role is None and parameter.default is not parameter.empty:
            continue
        if role is None or role in found or parameter.kind is parameter.POSITIONAL_ONLY:
            raise UsageError(
                NOT_INJECTABLE,
                f"{name} asks for {parameter}, which cannot be given; the payload is of type "
                f"{_shown(payload_type)}.",
            )
        _check_colour(name, annotation, role, async_engine=async_engine)
        found[role] = parameter.name
    if is_async and not async_engine:
        raise UsageError(WRONG_COLOUR, f"{name} is async, and the engine is sync.")
    if batch:
        handler = telling(handler, found["payload"], is_async=is_async)
    call = _by_name(handler, found)
    return Injection(call, is_async, "session" in found, "meta" in found, batch)


def _by_name(handler: Handler, found: Mapping[str, str]) -> Callable[[Any, Any, Any], Any]:
    """The handler, called with what it asks for."""
    if list(found) == ["payload"]:
        payload_name = found["payload"]
        return lambda payload, session, meta: handler(**{payload_name: payload})
    names = [(found[role], place) for place, role in enumerate(ROLES) if role in found]
    return lambda *given: handler(**{name: given[place] for name, place in names})


def refuse_awaitable(result: Any) -> None:
    """A sync handler that returns a coroutine has done nothing yet.

    :raises UsageError: VK0033.
    """
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise UsageError(NOT_AWAITED, "The handler returned an awaitable.")


def _function(handler: Handler) -> Any:
    while isinstance(handler, partial):
        handler = handler.func
    if inspect.isroutine(handler) or inspect.isclass(handler):
        return handler
    return type(handler).__call__


def _parameters(handler: Handler, function: Any, name: str) -> list[tuple[inspect.Parameter, Any]]:
    try:
        hints = typing.get_type_hints(function)
        signature = inspect.signature(handler)
    except Exception as error:
        raise UsageError(NOT_INJECTABLE, f"{name} has annotations that fail: {error}.") from error
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        (each, hints.get(each.name, each.annotation))
        for each in signature.parameters.values()
        if each.kind not in variadic
    ]


def _is_batch(annotation: Any, payload_type: Any) -> bool:
    """Whether a parameter takes the payloads of many messages."""
    if annotation == payload_type or typing.get_origin(annotation) is not list:
        return False
    (member,) = typing.get_args(annotation)
    return member is not MessageMeta and _role(member, payload_type, batch=False) == "payload"


def _role(annotation: Any, payload_type: Any, *, batch: bool) -> str | None:
    if _is_session(annotation):
        return "session"
    if batch:
        if annotation == list[MessageMeta]:
            return "meta"
        return "payload" if _is_batch(annotation, payload_type) else None
    if annotation is MessageMeta:
        return "meta"
    if annotation in (payload_type, Any, object):
        return "payload"
    both_classes = inspect.isclass(annotation) and inspect.isclass(payload_type)
    return "payload" if both_classes and issubclass(payload_type, annotation) else None


def _is_session(annotation: Any) -> bool:
    return inspect.isclass(annotation) and (
        issubclass(annotation, Session) or _is_async_session(annotation)
    )


def _is_async_session(annotation: Any) -> bool:
    # By name, since importing the class needs greenlet.
    return any(each.__name__ == "AsyncSession" for each in annotation.__mro__)


def _check_colour(name: str, annotation: Any, role: str, *, async_engine: bool) -> None:
    if role == "session" and _is_async_session(annotation) is not async_engine:
        have = "async" if async_engine else "sync"
        raise UsageError(
            WRONG_COLOUR, f"{name} asks for {annotation.__name__}, and the engine is {have}."
        )


def _shown(kind: Any) -> str:
    return kind.__name__ if inspect.isclass(kind) else str(kind)
