"""How a batch handler tells which of its messages failed: by what it returns, or by a group."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from vulkan_orm.diagnostics import BAD_FAILURES, HandlerError

Failures = Mapping[int, BaseException]


class PartlyFailed(Exception):
    """The errors of some messages of a batch, by their place in it."""

    def __init__(self, failures: Failures) -> None:
        super().__init__(f"{len(failures)} of the batch failed")
        self.failures = failures


def telling(handler: Callable[..., Any], payloads: str, *, is_async: bool) -> Callable[..., Any]:
    """The handler, raising :class:`PartlyFailed` where it tells of single messages."""
    if is_async:

        async def awaited(**arguments: Any) -> None:
            size = len(arguments[payloads])
            try:
                returned = await handler(**arguments)
            except BaseExceptionGroup as group:
                raise _by_position(group, size) from None
            _tell(returned, size)

        return awaited

    def called(**arguments: Any) -> Any:
        size = len(arguments[payloads])
        try:
            returned = handler(**arguments)
        except BaseExceptionGroup as group:
            raise _by_position(group, size) from None
        return returned if inspect.isawaitable(returned) else _tell(returned, size)

    return called


def _by_position(
    group: BaseExceptionGroup[BaseException], size: int
) -> PartlyFailed | BaseExceptionGroup[BaseException]:
    """What a group says of single messages; the group itself where a member has no position."""
    members = [(getattr(each, "position", None), each) for each in group.exceptions]
    if any(position is None for position, _ in members):
        return group
    return PartlyFailed(_checked(dict(members), size))


def _tell(returned: Any, size: int) -> None:
    if returned:
        raise PartlyFailed(_checked(returned, size))


def _checked(failures: Any, size: int) -> Failures:
    if not isinstance(failures, Mapping):
        raise HandlerError(BAD_FAILURES, f"The handler returned {type(failures).__name__}.")
    for place, error in failures.items():
        if not (isinstance(place, int) and 0 <= place < size and isinstance(error, BaseException)):
            raise HandlerError(BAD_FAILURES, f"A batch of {size} was told {place!r}: {error!r}.")
    return failures
