"""The transaction in which handlers run: a savepoint a message, opened by its first use."""

import re
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, SessionTransaction

from vulkan_orm.diagnostics import SESSION_LEFT_FAILED, TRANSACTION_ENDED, HandlerError
from vulkan_orm.service.repository import DeliveryRepository
from vulkan_orm.service.savepoints import MessageSavepoint, savepoint_on
from vulkan_orm.store.dialects import Dialect

_ENDING = re.compile(
    r"(?:\s|;|--[^\n]*\n|/\*.*?\*/)*"
    r"(?:COMMIT|END|ABORT|PREPARE\s+TRANSACTION|ROLLBACK(?!(?:\s+(?:WORK|TRANSACTION))?\s+TO\b))\b",
    re.IGNORECASE | re.DOTALL,
)


class TransactionLost(Exception):
    """The shared transaction is gone; what was done in it must be run again."""


class Guard(Session):
    """A session whose transaction belongs to the runner while a handler has it."""

    vulkan_guarded = False

    def refuse_if_guarded(self, call: str) -> None:
        """:raises HandlerError: VK0031 while a handler has the session."""
        if self.vulkan_guarded:
            raise HandlerError(TRANSACTION_ENDED, f"The handler called session.{call}().")

    def commit(self) -> None:
        self.refuse_if_guarded("commit")
        super().commit()

    def rollback(self) -> None:
        self.refuse_if_guarded("rollback")
        super().rollback()

    def close(self) -> None:
        self.refuse_if_guarded("close")
        super().close()

    def reset(self) -> None:
        self.refuse_if_guarded("reset")
        super().reset()

    def invalidate(self) -> None:
        self.refuse_if_guarded("invalidate")
        super().invalidate()


def guarded(session_class: type[Session]) -> type[Guard]:
    """The host's own session class, guarded."""
    if session_class is Session:
        return Guard
    return type(f"Guarded{session_class.__name__}", (Guard, session_class), {})


class UnitOfWork:
    """One transaction for one or many messages.

    It begins with a sentinel savepoint, which must still be there before outcomes are written:
    a deadlock on some databases, or a handler's raw COMMIT, ends the transaction without a word.
    Until somebody uses the session, none of this reaches the database.
    """

    def __init__(self, session: Guard, facade: Any, dialect: Dialect) -> None:
        self.session = session
        #: What a handler gets: the session, or the AsyncSession around it.
        self.facade = facade
        self.repository = DeliveryRepository(session)
        #: The error by which the database kept the transaction from beginning.
        self.contention: DBAPIError | None = None
        self._dialect = dialect
        self._connection: Connection | None = None
        #: A refused end of the connection's transaction leaves SQLAlchemy's half-way there.
        self._spoilt = False
        self._message: SessionTransaction | None = None
        self._alone = False
        #: The messages' one on our connection; None where there is no connection yet.
        self._savepoint: MessageSavepoint | None = None
        #: A connection has joined whose savepoints are SQLAlchemy's own.
        self._foreign = False
        #: The message in hand has changed mapped objects, whose history belongs to it alone.
        self._changed = False
        event.listen(session, "after_begin", self._began)
        event.listen(session, "after_flush", self._changes)
        event.listen(session, "after_bulk_delete", self._changes)
        session.begin()
        self._sentinel: SessionTransaction = session.begin_nested()

    def _began(self, _: Session, transaction: SessionTransaction, connection: Connection) -> None:
        if transaction.nested:
            return
        self._connection = connection
        try:
            self._dialect.begin_write(connection)
        except DBAPIError as error:
            # No fault of the handler, whose use of the session merely opened the transaction.
            self.contention = error
            raise
        if not self._alone:
            savepoint = savepoint_on(connection)
            self._foreign = self._foreign or savepoint is None
            self._savepoint = self._savepoint or savepoint
        event.listen(connection, "before_cursor_execute", self._refuse_ending)
        event.listen(connection, "commit", self._refuse_commit)
        event.listen(connection, "rollback", self._refuse_rollback)

    def _changes(self, *_: Any) -> None:
        self._changed = True

    def _refuse_commit(self, _: Connection) -> None:
        self._refuse("connection().commit")

    def _refuse_rollback(self, _: Connection) -> None:
        self._refuse("connection().rollback")
        if self._savepoint is not None:
            self._savepoint.due = False

    def _refuse(self, call: str) -> None:
        self._spoilt = self._spoilt or self.session.vulkan_guarded
        self.session.refuse_if_guarded(call)

    def _refuse_ending(self, _: Any, __: Any, statement: str, *___: Any) -> None:
        # A COMMIT in SQL would keep what neighbours wrote, and they would write it again.
        if self.session.vulkan_guarded and _ENDING.match(statement):
            raise HandlerError(TRANSACTION_ENDED, f"The handler executed {statement[:80]!r}.")

    @property
    def savepoints(self) -> int:
        """How many messages have reached the database."""
        return 0 if self._savepoint is None else self._savepoint.sent

    @property
    def untouched(self) -> bool:
        """Whether the message in hand has not used the session, so that nothing is to be done."""
        used = self._connection is not None if self._savepoint is None else not self._savepoint.due
        if used or self._foreign:
            return False
        session = self.session
        return not (session.new or session.dirty or session.deleted)

    def begin_message(self, *, alone: bool) -> None:
        """Opens the savepoint of the next message; one alone in its transaction needs no second."""
        self._alone = alone
        if alone:
            self._message = self._sentinel
        elif self._message is None:
            self._message = self.session.begin_nested()
        if self._savepoint is not None:
            self._savepoint.due = True

    def lend(self) -> Any:
        """The session for a handler; its transaction is the runner's until :meth:`take_back`."""
        self.session.vulkan_guarded = True
        return self.facade

    def take_back(self) -> None:
        """Ends the handler's use of the session.

        :raises DBAPIError: where the database kept the transaction from beginning.
        :raises TransactionLost: where what an earlier message did has undone it.
        """
        self.session.vulkan_guarded = False
        if self.contention is not None:
            raise self.contention
        if self._savepoint is not None and self._savepoint.failure is not None:
            raise TransactionLost from self._savepoint.failure

    def keep_message(self) -> None:
        """Keeps what a handler that returned has written.

        :raises TransactionLost: when the whole transaction is gone.
        :raises Exception: when its writes were refused, and are undone: the handler's failure.
        """
        assert self._message is not None
        try:
            self._check_nesting(self._message)
            if self.untouched and self._message is not self._sentinel:
                self._forget()
                return
            self.session.flush()
            if self._foreign or self._changed:
                self._part_from(self._message)
        except Exception as error:
            self._drop_for(error)
            raise
        self._forget()

    def _forget(self) -> None:
        # An object of one message is none of the next.
        if self.session.identity_map:
            self.session.expunge_all()

    def _part_from(self, message: SessionTransaction) -> None:
        """What is undone later is undone without what this message did.

        Where it only sent statements, the database's own savepoint sees to that.
        """
        self._changed = False
        if message is not self._sentinel:
            self._release(message)
            self._message = None

    def _drop_for(self, error: Exception) -> None:
        try:
            self.drop_message()
        except TransactionLost as lost:
            raise lost from error

    def drop_message(self) -> None:
        """Undoes what a handler that failed has written.

        :raises TransactionLost: when there is no savepoint to go back to.
        """
        message, self._message = self._message, None
        self._changed = False
        assert message is not None
        try:
            message.rollback()
        except Exception as error:
            raise TransactionLost from error
        self._check_connection()
        self.session.expunge_all()

    def seal(self) -> None:
        """Proves that the transaction is still the one that was begun.

        :raises HandlerError: VK0031, VK0032 when it is not.
        """
        if self._message is not None and self._message is not self._sentinel:
            self._release(self._message)
        self._check_nesting(self._sentinel)
        try:
            self._sentinel.commit()
            self._check_connection()
        except Exception as error:
            raise HandlerError(
                TRANSACTION_ENDED, f"The transaction of the unit of work is gone: {error}"
            ) from error

    def commit(self) -> None:
        """Commits outcomes and writes together, and gives the connection back."""
        try:
            self.session.commit()
        except BaseException:
            self.abandon()
            raise
        self.session.close()

    def abandon(self) -> None:
        """Rolls everything back and gives the connection back, whatever state it is in."""
        self.session.vulkan_guarded = False
        if not self._spoilt:
            try:
                self.session.close()
                return
            except Exception:
                # Its savepoints are gone, say.
                self._spoilt = True
        # Closing alone would put it back into the pool with what the handler wrote still open.
        if self._connection is not None and not self._connection.closed:
            self._connection.invalidate()
        self.session.close()

    def _check_nesting(self, expected: SessionTransaction) -> None:
        if self.session.get_nested_transaction() is not expected:
            raise HandlerError(
                SESSION_LEFT_FAILED, "The handler left a nested transaction open or ended ours."
            )
        if not expected.is_active:
            raise HandlerError(
                SESSION_LEFT_FAILED, "The handler contained a database error, which undid its work."
            )

    def _check_connection(self) -> None:
        if self._spoilt or (self._connection is not None and self._connection.invalidated):
            raise TransactionLost

    def _release(self, savepoint: SessionTransaction) -> None:
        try:
            savepoint.commit()
        except Exception as error:
            raise HandlerError(
                SESSION_LEFT_FAILED, f"The session could not be released: {error}"
            ) from error
