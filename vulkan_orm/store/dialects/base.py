"""The questions a dialect answers. Everything here is the answer of a modern SQL database."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine, FromClause, Select, SQLColumnExpression, Table, true
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import SelectBase
from sqlalchemy.types import TypeEngine

from vulkan_orm.models import Base

Columns = Mapping[str, TypeEngine[Any]]
Rows = Select[*tuple[Any, ...]]


class Dialect(ABC):
    """Capabilities and the few constructs that no portable SQL has."""

    #: Message ids can commit out of order, so that a watermark must be proven (the fence).
    ids_commit_out_of_order: ClassVar[bool]
    #: One writer at a time: long transactions keep everybody else waiting.
    single_writer: ClassVar[bool]
    #: A statement may read, and write with what it read, at once.
    writes_while_reading: ClassVar[bool] = False
    #: What to set on each connection of an engine that we make ourselves.
    settings: ClassVar[tuple[str, ...]] = ()
    #: The drivers that can hear a publisher's hint, which travels with its commit.
    hearing_drivers: ClassVar[frozenset[str]] = frozenset()
    #: The isolation level that worker connections must have, where the default may be unfit.
    worker_isolation: ClassVar[str | None] = None

    @abstractmethod
    def insert(self, table: type[Base]) -> Any:
        """The dialect's own INSERT, for its ON CONFLICT."""

    @abstractmethod
    def rows(self, document: ColumnElement[str], columns: Columns, name: str) -> FromClause:
        """The members of a JSON array of objects, as rows with typed columns, in order.

        A column of type Json takes its member as a document, whatever that holds.
        """

    @abstractmethod
    def payload_text(self, payload: SQLColumnExpression[Any]) -> ColumnElement[str]:
        """A stored JSON document as text, not decoded by the driver."""

    @abstractmethod
    def instant(self, value: datetime) -> str:
        """An aware datetime as text that compares with the stored ones."""

    @abstractmethod
    def later(
        self, one: ColumnElement[datetime], other: ColumnElement[datetime]
    ) -> ColumnElement[datetime]:
        """The later of two instants."""

    @abstractmethod
    def seconds_since(self, instant: SQLColumnExpression[Any]) -> ColumnElement[float]:
        """How long ago an instant was, by the database's clock."""

    def locking(self, statement: Rows, *, skip_locked: bool = False) -> Rows:
        """The select, taking a lock on what it returns."""
        return statement.with_for_update(skip_locked=skip_locked, key_share=True)

    @abstractmethod
    def drawn_id(self, place: ColumnElement[int]) -> ColumnElement[int]:
        """A new message id, for a statement that gives ids out itself; ``place`` counts from 1."""

    @abstractmethod
    def topic_with_fence(self, topic: ColumnElement[str], installation: int) -> SelectBase:
        """The topic's row (id), and on the way to it what a publisher owes to readers.

        That is its half of the fence, and a hint to each group's first sleeper.
        """

    def one_awake(self) -> Mapping[str, Any]:
        """What a claim sets in its group's row: the first of its sleepers is awake."""
        return {}

    def silent(self) -> "Dialect":
        """The same, but for publishers that give no hints."""
        return self

    def hint(self, channel: str) -> Rows:
        """Sends a hint of no group's to a channel, where there are hints."""
        raise NotImplementedError

    def at_ease(self) -> ColumnElement[bool]:
        """True, and the commit need not wait for the disk: for what may be lost in a crash."""
        return true()

    def prepare(self, engine: Engine) -> None:  # noqa: B027
        """Mends what a driver does to transactions, on an engine whose sessions publish."""

    def materialized(self, statement: SelectBase, name: str) -> FromClause:
        """The select as a source that is evaluated once and in its own order."""
        return statement.subquery(name)

    def check_idle(self, engine: Engine) -> None:  # noqa: B027
        """:raises DatabaseError: VK0049 while the only connection is in a transaction."""

    def begin_write(self, connection: Connection) -> None:  # noqa: B027
        """Makes a worker's transaction one that may write from the beginning."""

    def shared(self, engine: Engine) -> bool:
        """Whether a second connection would reach the same data."""
        return True

    def copies(self, connection: Connection) -> bool:
        """Whether :meth:`copy` can be part of the connection's transaction."""
        return False

    def copy(
        self,
        connection: Connection,
        table: Table,
        columns: Sequence[str],
        parts: Iterable[bytes],
    ) -> None:
        """Sends rows in the text format of COPY. Where :meth:`copies` says so, and only there."""
        raise NotImplementedError

    @abstractmethod
    def is_contention(self, error: DBAPIError) -> bool:
        """Whether running the same transaction again is the cure; judged by code, not by text."""
