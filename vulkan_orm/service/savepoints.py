"""The savepoints of messages: each waits for the first statement it protects, and travels with it.

Sent and released for itself, a savepoint would be three round trips for a message that writes one
row; as here it is one where the driver can send two commands at a time, else two.
"""

from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import Dialect
from sqlalchemy.pool import PoolProxiedConnection

_KEY = "vulkan_savepoint"
_NAME = "vulkan_message"
_SAVEPOINT = f"SAVEPOINT {_NAME}"


class MessageSavepoint:
    """The savepoint of the message in hand, on one connection.

    Each is opened inside the one of the message before, by the same name, which stands for the
    newest. None is released before the sentinel, whose release takes all with it.

    For SQLAlchemy they are one, the second level on top of the sentinel. What a handler opens
    itself, on top of that, is sent at once: it may go on with a cursor it took before.
    """

    def __init__(self) -> None:
        #: Nothing of the message in hand has reached the database yet.
        self.due = False
        #: How many have reached the database.
        self.sent = 0
        #: The error by which one failed: no fault of the statement it travelled with.
        self.failure: Exception | None = None
        self._open: list[str] = []

    def take(self) -> str:
        self.due = False
        self.sent += 1
        return _SAVEPOINT

    def opened(self, name: str) -> bool:
        """Whether it is the one of messages."""
        self._open.append(name)
        ours = len(self._open) == 2
        self.due = self.due or ours
        return ours

    def ended(self, name: str) -> bool:
        """Whether it is the one of messages."""
        if name not in self._open:
            return False
        level = self._open.index(name)
        del self._open[level:]
        return level == 1


class LazySavepoints:
    """Hooks of a dialect of SQLAlchemy's, for connections that have a message's savepoint."""

    dbapi: Any
    original: Any

    @property
    def _has_events(self) -> bool:
        listened_to: bool = self.original._has_events
        return listened_to

    def do_savepoint(self, connection: Connection, name: str) -> None:
        savepoint = _of(connection)
        if savepoint is None or not savepoint.opened(name):
            super().do_savepoint(connection, name)  # type: ignore[misc]

    def do_release_savepoint(self, connection: Connection, name: str) -> None:
        savepoint = _of(connection)
        if savepoint is not None:
            ours, savepoint.due = savepoint.ended(name), False
            if ours:
                return
        super().do_release_savepoint(connection, name)  # type: ignore[misc]

    def do_rollback_to_savepoint(self, connection: Connection, name: str) -> None:
        savepoint = _of(connection)
        if savepoint is not None:
            due, savepoint.due = savepoint.due, False
            if savepoint.ended(name):
                if due:
                    return
                name = _NAME
        super().do_rollback_to_savepoint(connection, name)  # type: ignore[misc]

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        savepoint = _due_in(context)
        if savepoint is not None:
            if self._pipelines(cursor):
                self._together(savepoint, cursor, statement, parameters)
                return
            send(context.root_connection)
        super().do_execute(cursor, statement, parameters, context)  # type: ignore[misc]

    def do_executemany(
        self, cursor: Any, statement: str, parameters: Any, context: Any = None
    ) -> None:
        if _due_in(context) is not None:
            send(context.root_connection)
        super().do_executemany(cursor, statement, parameters, context)  # type: ignore[misc]

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        if _due_in(context) is not None:
            send(context.root_connection)
        super().do_execute_no_params(cursor, statement, context)  # type: ignore[misc]

    def _pipelines(self, cursor: Any) -> bool:
        """Whether the driver sends several commands at a time: psycopg's own cursors do."""
        pipeline = getattr(self.dbapi, "Pipeline", None)
        return (
            pipeline is not None
            and isinstance(cursor, self.dbapi.Cursor)
            and pipeline.is_supported()
        )

    def _together(
        self, savepoint: MessageSavepoint, cursor: Any, statement: str, parameters: Any
    ) -> None:
        """Savepoint and statement in one round trip."""
        driver = cursor.connection
        command = None
        try:
            with driver.pipeline():
                command = driver.execute(savepoint.take())
                cursor.execute(statement, parameters)
        except Exception as error:
            if command is None or command.statusmessage is None:
                savepoint.failure = error
            raise


class LazyConnection(Connection):
    """A connection on which the savepoint of a message may wait."""

    @property
    def connection(self) -> PoolProxiedConnection:
        # Whoever asks may go on with the driver's own cursor, which nothing travels with.
        driver = super().connection
        send(self)
        return driver


def make_lazy(engine: Engine) -> None:
    """Makes :func:`savepoint_on` possible for this engine's connections."""
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


def savepoint_on(connection: Connection) -> MessageSavepoint | None:
    """For the transaction that begins on a connection, where its engine was made for that."""
    if not isinstance(connection, LazyConnection):
        return None
    savepoint = MessageSavepoint()
    connection.execution_options(**{_KEY: savepoint})
    return savepoint


def send(connection: Connection) -> None:
    """Sends the savepoint of the message in hand, where that is still to be done."""
    savepoint = _of(connection)
    if savepoint is None or not savepoint.due:
        return
    command = savepoint.take()
    cursor = connection.connection.cursor()
    try:
        cursor.execute(command)
    except Exception as error:
        savepoint.failure = error
        raise
    finally:
        cursor.close()


def _of(connection: Connection) -> MessageSavepoint | None:
    savepoint: MessageSavepoint | None = connection.get_execution_options().get(_KEY)
    return savepoint


def _due_in(context: Any) -> MessageSavepoint | None:
    """The savepoint that goes before a statement; None where none does."""
    savepoint = None if context is None else _of(context.root_connection)
    return savepoint if savepoint is not None and savepoint.due else None
