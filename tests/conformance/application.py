"""The host application of the behaviour tests: what is the same in both colours.

A test writes handlers and transactions once, as functions on a sync Session. For the async colour
the harness makes `async def` handlers with an AsyncSession, awaited calls and a loop of its own.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel
from sqlalchemy import (
    Engine,
    NullPool,
    Row,
    Select,
    create_engine,
    event,
    func,
    select,
)
from sqlalchemy.orm import Session

from tests.conformance.host import Effect, Host
from tests.databases import Database
from vulkan_orm import RetryPolicy, Topic, Vulkan
from vulkan_orm.models import ConsumerGroup, DeliveryLog, ExceptionQueue
from vulkan_orm.service.deliveries import Group
from vulkan_orm.store import clock

T = TypeVar("T")
Handler = Callable[..., Any]
TOPIC = "jobs"
GROUP = "crew"
PATIENCE = 60.0

#: Retries without a wait, so that a drain runs them all.
AT_ONCE = RetryPolicy(backoff_base=timedelta(0))


def at_once(max_retries: int, max_delays: int = 0) -> RetryPolicy:
    return RetryPolicy(
        max_retries=max_retries, max_delays=max_delays, backoff_base=timedelta(0), jitter=False
    )


class Job(BaseModel):
    """The payload of most tests."""

    name: str = "job"
    amount: float | None = None


class Transaction(ABC):
    """A transaction of the host, held open as long as the test likes."""

    @abstractmethod
    def run(self, work: Callable[[Session], T]) -> T:
        """Runs work on the open session."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def rollback(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class App(ABC):
    """A host application with one Vulkan, driven from the test's thread."""

    colour: ClassVar[str]

    def __init__(self, database: Database, vulkan: Vulkan) -> None:
        self.database = database
        self.vulkan = vulkan
        self.engine: Engine = vulkan.engines.sync_engine
        self.jobs: Topic[Job] = vulkan.topic(TOPIC, Job)
        self._transactions: list[Transaction] = []
        self._threads = ThreadPoolExecutor(4)
        if self.on_sqlite:
            event.listen(self.engine, "connect", _enforce_foreign_keys)
        self.in_transaction(lambda session: Host.metadata.create_all(session.connection()))

    @property
    def on_sqlite(self) -> bool:
        return self.database.name == "sqlite"

    # What differs by colour

    @abstractmethod
    def in_transaction(self, work: Callable[[Session], T]) -> T:
        """Runs work in a transaction of the host, and commits it."""

    @abstractmethod
    def open(self, isolation_level: str | None = None) -> Transaction:
        """A transaction that stays open; closed at the end of the test."""

    @abstractmethod
    def call(self, session: Session, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """A method that takes a session, such as `publish`: awaited with the AsyncSession."""

    @abstractmethod
    def handler(self, function: Handler, *, session: bool) -> Handler:
        """`function(payload, session, meta)`, or without session, as a handler of the colour."""

    @abstractmethod
    def repo(self, method: str, *args: Any, **options: Any) -> Any:
        """A method of the repository, in a transaction of its own."""

    @abstractmethod
    def drain(self) -> Counter[str]: ...

    @abstractmethod
    def run(self) -> None:
        """Works until a handler of the test calls `vulkan.stop()`."""

    @abstractmethod
    def deliver(
        self, message_ids: Sequence[int] | None = None, *, topic: str = TOPIC, group: str = GROUP
    ) -> Counter[str]: ...

    @abstractmethod
    def upgrade(self) -> None: ...

    @abstractmethod
    def dispose(self) -> None: ...

    # What does not

    def publish(
        self, payload: Any = None, *, topic: Topic[Any] | None = None, **options: Any
    ) -> int:
        """One message in a transaction of its own."""
        return self.in_transaction(
            lambda session: self.publish_in(session, payload, topic=topic, **options)
        )

    def publish_in(
        self,
        session: Session,
        payload: Any = None,
        *,
        topic: Topic[Any] | None = None,
        **options: Any,
    ) -> int:
        message = Job() if payload is None else payload
        found: int = self.call(session, (topic or self.jobs).publish, message, **options)
        return found

    def publish_many(
        self, payloads: Sequence[Any], *, topic: Topic[Any] | None = None
    ) -> list[int]:
        return self.in_transaction(
            lambda session: self.publish_many_in(session, payloads, topic=topic)
        )

    def publish_many_in(
        self, session: Session, payloads: Sequence[Any], *, topic: Topic[Any] | None = None
    ) -> list[int]:
        found: list[int] = self.call(session, (topic or self.jobs).publish_many, payloads)
        return found

    def consumer(
        self,
        function: Handler,
        *,
        group: str = GROUP,
        topic: Topic[Any] | None = None,
        session: bool = True,
        retry: RetryPolicy = AT_ONCE,
        **options: Any,
    ) -> None:
        """Registers `function(payload, session, meta)`; without session, no such argument."""
        register = (topic or self.jobs).consumer(group=group, retry=retry, **options)
        register(self.handler(function, session=session))

    def redeploy(self, retry: RetryPolicy, *, group: str = GROUP) -> None:
        """The same handlers under another policy, as a deploy would bring it."""
        consumers = self.vulkan._consumers
        consumers[TOPIC, group] = replace(consumers[TOPIC, group], policy=retry)

    def group(self, group: str = GROUP, topic: str = TOPIC) -> Group:
        found: Group = self.repo("ensure_group", topic, group)
        return found

    def rows(self, statement: Select[*tuple[Any, ...]]) -> list[Row[*tuple[Any, ...]]]:
        return self.in_transaction(lambda session: list(session.execute(statement).all()))

    def apart(self, statement: Select[*tuple[Any, ...]]) -> list[Row[*tuple[Any, ...]]]:
        """The same on a connection of its own, from within a handler of either colour."""
        engine = create_engine(self.database.sync_url, poolclass=NullPool)
        with engine.connect() as connection:
            return list(connection.execute(statement).all())

    def scalars(self, statement: Any) -> list[Any]:
        return self.in_transaction(lambda session: list(session.scalars(statement).all()))

    def effects(self) -> list[str]:
        """What business rows there are."""
        return sorted(self.scalars(select(Effect.value)))

    def queue(self, group: str = GROUP) -> dict[int, ExceptionQueue]:
        """The exception queue of a group, by message."""
        statement = (
            select(ExceptionQueue)
            .join(ConsumerGroup, ConsumerGroup.id == ExceptionQueue.group_id)
            .where(ConsumerGroup.name == group)
        )
        return {row.message_id: row for row in self.scalars(statement)}

    def row(self, message_id: int, group: str = GROUP) -> ExceptionQueue:
        return self.queue(group)[message_id]

    def log(self, message_id: int | None = None, group: str = GROUP) -> list[DeliveryLog]:
        """The delivery log of a group, in the order it was written."""
        statement = (
            select(DeliveryLog)
            .join(ConsumerGroup, ConsumerGroup.id == DeliveryLog.group_id)
            .where(ConsumerGroup.name == group)
            .order_by(DeliveryLog.id)
        )
        if message_id is not None:
            statement = statement.where(DeliveryLog.message_id == message_id)
        return self.scalars(statement)

    def story(self, message_id: int, group: str = GROUP) -> list[tuple[int | None, str]]:
        """Attempt and outcome of each row in the delivery log."""
        return [(row.attempt, row.outcome) for row in self.log(message_id, group)]

    def count(self, model: Any) -> int:
        return int(self.scalars(select(func.count()).select_from(model))[0])

    def pass_time(self, seconds: float) -> None:
        """Moves the database's clock on."""
        clock.set_offset(clock.offset() + seconds)

    def later(self, seconds: float) -> Counter[str]:
        """What a drain does that much later."""
        self.pass_time(seconds)
        return self.drain()

    def meanwhile(self, work: Callable[[], T]) -> "Future[T]":
        """Runs work in another thread."""
        return self._threads.submit(work)

    def close(self) -> None:
        for transaction in self._transactions:
            transaction.close()
        self._threads.shutdown()
        self.dispose()


def _enforce_foreign_keys(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()
