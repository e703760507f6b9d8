"""Statements that are built once: building one takes longer than running it."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

from vulkan_orm.store import clock

P = ParamSpec("P")
S = TypeVar("S")


def built_once(build: Callable[P, S]) -> Callable[P, S]:
    """Builds each statement at its first use; what changes from run to run must be parameters."""

    def at_offset(_offset: float, *args: Any, **options: Any) -> S:
        return build(*args, **options)

    built: Callable[..., S] = lru_cache(maxsize=64)(at_offset)

    @wraps(build)
    def statement(*args: P.args, **options: P.kwargs) -> S:
        # The clock's offset stands in the statement.
        return built(clock.offset(), *args, **options)

    return statement
