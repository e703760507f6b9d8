"""What a session's database is, whether our tables are there, and how statements reach it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy import Engine
from sqlalchemy.engine import CursorResult, Result
from sqlalchemy.orm import Session
from sqlalchemy.sql import Executable

from vulkan_orm import migrations
from vulkan_orm.diagnostics import (
    NOT_MIGRATED,
    SCHEMA_TOO_NEW,
    SCHEMA_TOO_OLD,
    DatabaseError,
)
from vulkan_orm.models import Meta
from vulkan_orm.store import counting
from vulkan_orm.store.dialects import Dialect, dialect_of

_known: WeakKeyDictionary[Engine, "Database"] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Database:
    """A migrated database: its dialect and its own mark, made when it was migrated."""

    dialect: Dialect
    identity: str
    installation: int


def database_of(session: Session) -> Database:
    """The database of a session, looked up once an engine.

    The look leaves the session's transaction usable whatever it finds.

    :raises DatabaseError: VK0040 to VK0042 when our tables are missing, too old or too new.
    """
    connection = connection_of(session)
    known = _known.get(connection.engine)
    if known is None:
        known = _known[connection.engine] = _look(connection)
    return known


def forget(engine: Engine) -> None:
    """Looks again at the next use; for when the tables were just migrated."""
    _known.pop(engine, None)


def connection_of(session: Session) -> sa.Connection:
    """The connection on which the session reaches our tables."""
    return session.connection(bind_arguments={"mapper": sa.inspect(Meta)})


def run(session: Session, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
    """Executes a statement of ours in the session's transaction.

    On the connection and not through ``session.execute``: no autoflush of the caller's objects
    and no identity map are involved.
    """
    return connection_of(session).execute(statement, parameters)


def _look(connection: sa.Connection) -> Database:
    dialect = dialect_of(connection.dialect.name)
    there = sa.inspect(connection).has_table(Meta.__tablename__)
    row = connection.execute(counting.meta()).one_or_none() if there else None
    if row is None:
        raise DatabaseError(NOT_MIGRATED, f"{connection.engine.url!r} has no vulkan_orm tables.")
    if row.schema_version < migrations.LATEST:
        raise DatabaseError(
            SCHEMA_TOO_OLD,
            f"The schema has version {row.schema_version}; this package needs {migrations.LATEST}.",
        )
    if row.schema_version > migrations.LATEST:
        raise DatabaseError(
            SCHEMA_TOO_NEW,
            f"The schema has version {row.schema_version}; this package knows {migrations.LATEST}.",
        )
    return Database(dialect, row.identity, row.installation)


def ids(result: Result[Any]) -> Sequence[int]:
    return result.scalars().all()
