"""Savepoints that wait for the first statement they protect, and travel with it.

A message of a range has a savepoint of its own. Sent for itself, that is three round trips for a
message that writes one row; as here it is one.
"""

from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import Dialect
from sqlalchemy.pool import PoolProxiedConnection

_KEY = "vulkan_savepoints"


class Waiting:
    """What one connection has still to say about savepoints.

    Only those of messages wait: the second level, where the first is the sentinel. What a handler
    opens itself is sent at once, since it may go on with the driver's own cursor.
    """

    def __init__(self) -> None:
        self.commands: list[str] = []
        #: The error by which a command failed that had waited: no fault of what it travelled with.
        self.failure: Exception | None = None
        self._open: list[str] = []

    def savepoint(self, name: str) -> bool:
        """Whether it may wait."""
        self._open.append(name)
        if len(self._open) != 2:
            return False
        self.commands.append(f"SAVEPOINT {name}")
        return True

    def release(self, name: str) -> bool:
        """Whether it may wait; both may be left out where the savepoint was never sent."""
        level = self._close(name)
        if level != 2:
            return False
        if not self._unsend(name):
            self.commands.append(f"RELEASE SAVEPOINT {name}")
        return True

    def rollback(self, name: str) -> bool:
        """Whether there is nothing to undo, since the savepoint was never sent."""
        self._close(name)
        if self._unsend(name):
            return True
        # Whatever waits concerns what is undone now.
        self.commands.clear()
        return False

    def take(self) -> list[str]:
        commands, self.commands = self.commands, []
        return commands

    def _close(self, name: str) -> int:
        if name not in self._open:
            return 0
        level = self._open.index(name) + 1
        del self._open[level - 1 :]
        return level

    def _unsend(self, name: str) -> bool:
        if self.commands and self.commands[-1] == f"SAVEPOINT {name}":
            self.commands.pop()
            return True
        return False


class LazySavepoints:
    """For a psycopg dialect of SQLAlchemy's: its hooks, for connections that were made lazy."""

    dbapi: Any
    original: Any

    @property
    def _has_events(self) -> bool:
        listened_to: bool = self.original._has_events
        return listened_to

    def do_savepoint(self, connection: Connection, name: str) -> None:
        waiting = waiting_of(connection)
        if waiting is None or not waiting.savepoint(name):
            super().do_savepoint(connection, name)  # type: ignore[misc]

    def do_release_savepoint(self, connection: Connection, name: str) -> None:
        waiting = waiting_of(connection)
        if waiting is None or not waiting.release(name):
            super().do_release_savepoint(connection, name)  # type: ignore[misc]

    def do_rollback_to_savepoint(self, connection: Connection, name: str) -> None:
        waiting = waiting_of(connection)
        if waiting is None or not waiting.rollback(name):
            super().do_rollback_to_savepoint(connection, name)  # type: ignore[misc]

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        waiting = _waiting_in(context)
        if waiting is None:
            super().do_execute(cursor, statement, parameters, context)  # type: ignore[misc]
        elif self._pipelines(cursor):
            self._together(waiting, cursor, statement, parameters)
        else:
            send(context.root_connection)
            super().do_execute(cursor, statement, parameters, context)  # type: ignore[misc]

    def do_executemany(
        self, cursor: Any, statement: str, parameters: Any, context: Any = None
    ) -> None:
        if _waiting_in(context) is not None:
            send(context.root_connection)
        super().do_executemany(cursor, statement, parameters, context)  # type: ignore[misc]

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        if _waiting_in(context) is not None:
            send(context.root_connection)
        super().do_execute_no_params(cursor, statement, context)  # type: ignore[misc]

    def _pipelines(self, cursor: Any) -> bool:
        return isinstance(cursor, self.dbapi.Cursor) and self.dbapi.Pipeline.is_supported()

    def _together(self, waiting: Waiting, cursor: Any, statement: str, parameters: Any) -> None:
        """Commands and statement in one round trip."""
        driver = cursor.connection
        sent = []
        try:
            with driver.pipeline():
                sent = [driver.execute(command) for command in waiting.take()]
                cursor.execute(statement, parameters)
        except Exception as error:
            if any(each.statusmessage is None for each in sent):
                waiting.failure = error
            raise


class LazyConnection(Connection):
    """A connection on which savepoints may wait."""

    @property
    def connection(self) -> PoolProxiedConnection:
        # Whoever asks may go on with the driver's own cursor, which nothing travels with.
        driver = super().connection
        send(self)
        return driver


def make_lazy(engine: Engine) -> None:
    """On this engine's connections savepoints wait once :func:`wait_on` is said of them."""
    engine.dialect = _lazy_dialect(engine.dialect)
    engine._connection_cls = LazyConnection


def _lazy_dialect(dialect: Dialect) -> Dialect:
    # What is compiled is what the driver's own dialect compiles.
    inherited = {"supports_statement_cache": dialect.supports_statement_cache}
    kind: Any = type(f"Lazy{type(dialect).__name__}", (LazySavepoints, type(dialect)), inherited)
    made: Any = kind.__new__(kind)
    # Made by the first who asks for it; from then on listeners of the one are those of the other.
    _ = dialect.dispatch
    vars(made).update(vars(dialect), original=dialect)
    lazy_dialect: Dialect = made
    return lazy_dialect


def wait_on(connection: Connection) -> Waiting | None:
    """From now on the connection's savepoints wait, where its engine was made for that."""
    if not isinstance(connection, LazyConnection):
        return None
    waiting = Waiting()
    connection.execution_options(**{_KEY: waiting})
    return waiting


def send(connection: Connection) -> None:
    """Sends what waits, in one round trip."""
    waiting = waiting_of(connection)
    if waiting is None or not waiting.commands:
        return
    commands = waiting.take()
    cursor = connection.connection.cursor()
    try:
        cursor.execute("; ".join(commands))
    except Exception as error:
        waiting.failure = error
        raise
    finally:
        cursor.close()


def waiting_of(connection: Connection) -> Waiting | None:
    waiting: Waiting | None = connection.get_execution_options().get(_KEY)
    return waiting


def _waiting_in(context: Any) -> Waiting | None:
    """What waits for a statement; None where nothing does."""
    waiting = None if context is None else waiting_of(context.root_connection)
    return waiting if waiting is not None and waiting.commands else None
