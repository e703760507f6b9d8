"""What differs between databases, asked for as capabilities."""

from vulkan_orm.diagnostics import UNSUPPORTED_DATABASE, UsageError
from vulkan_orm.store.dialects.base import Dialect
from vulkan_orm.store.dialects.postgresql import PostgreSQL
from vulkan_orm.store.dialects.sqlite import SQLite

__all__ = ["Dialect", "dialect_of"]

_DIALECTS: dict[str, Dialect] = {"postgresql": PostgreSQL(), "sqlite": SQLite()}


def dialect_of(name: str) -> Dialect:
    """The dialect for a SQLAlchemy dialect's name.

    :raises UsageError: VK0044 for one we do not know.
    """
    try:
        return _DIALECTS[name]
    except KeyError:
        raise UsageError(
            UNSUPPORTED_DATABASE, f"{name!r} is not supported.", dialect=name
        ) from None
