"""One application for every database and colour: what a behaviour test says, both of them do.

A test writes handlers and transactions once, as functions on a sync Session. For the async colour
the harness makes `async def` handlers with an AsyncSession, awaited calls and a loop of its own.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
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
    make_url,
    select,
)
from sqlalchemy.ext.asyncio import AsyncSession, async_session
from sqlalchemy.orm import Session
from sqlalchemy.util import await_

from tests.conformance.host import Effect, Host
from tests.databases import Database
from vulkan_orm import DeliveryRepository, MessageMeta, RetryPolicy, Topic, Vulkan
from vulkan_orm.aio import AsyncDeliveryRepository
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


class SyncApp(App):
    colour = "sync"

    def __init__(self, database: Database) -> None:
        super().__init__(database, Vulkan(database.sync_url))

    def in_transaction(self, work: Callable[[Session], T]) -> T:
        with Session(self.vulkan.engine, expire_on_commit=False) as session, session.begin():
            return work(session)

    def open(self, isolation_level: str | None = None) -> Transaction:
        transaction = SyncTransaction(self.vulkan.engine, isolation_level)
        self._transactions.append(transaction)
        return transaction

    def call(self, session: Session, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return method(session, *args, **options)

    def handler(self, function: Handler, *, session: bool) -> Handler:
        def with_session(payload: Any, session: Session, meta: MessageMeta) -> Any:
            return function(payload, session, meta)

        def without_session(payload: Any, meta: MessageMeta) -> Any:
            return function(payload, meta)

        return with_session if session else without_session

    def repo(self, method: str, *args: Any, **options: Any) -> Any:
        return self.in_transaction(
            lambda session: getattr(DeliveryRepository(session), method)(*args, **options)
        )

    def drain(self) -> Counter[str]:
        return _texts(self.vulkan.drain())

    def run(self) -> None:
        self.vulkan.run()

    def deliver(
        self, message_ids: Sequence[int] | None = None, *, topic: str = TOPIC, group: str = GROUP
    ) -> Counter[str]:
        return _texts(self.vulkan.deliver(topic, group, message_ids))

    def upgrade(self) -> None:
        self.vulkan.upgrade()

    def dispose(self) -> None:
        self.vulkan.engine.dispose()


class SyncTransaction(Transaction):
    def __init__(self, engine: Engine, isolation_level: str | None) -> None:
        if isolation_level:
            engine = engine.execution_options(isolation_level=isolation_level)
        self._session = Session(engine, expire_on_commit=False)

    def run(self, work: Callable[[Session], T]) -> T:
        return work(self._session)

    def commit(self) -> None:
        self._session.commit()

    def rollback(self) -> None:
        self._session.rollback()

    def close(self) -> None:
        self._session.close()


class Loop:
    """An event loop in a thread of its own, so that tests may wait for it from several."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        # As a value, since an interruption that leaves a task would end the loop itself.
        future = asyncio.run_coroutine_threadsafe(_outcome(coroutine), self._loop)
        result, error = future.result(PATIENCE)
        if error is not None:
            raise error
        return result  # type: ignore[return-value]

    def close(self) -> None:
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _outcome(coroutine: Coroutine[Any, Any, T]) -> tuple[T | None, BaseException | None]:
    try:
        return await coroutine, None
    except BaseException as error:
        return None, error


class AsyncApp(App):
    colour = "async"

    def __init__(self, database: Database) -> None:
        self._loop = Loop()
        super().__init__(database, Vulkan(async_url(database)))

    def in_transaction(self, work: Callable[[Session], T]) -> T:
        async def transact() -> T:
            async with (
                AsyncSession(self.vulkan.engine, expire_on_commit=False) as session,
                session.begin(),
            ):
                return await session.run_sync(work)

        return self._loop.run(transact())

    def open(self, isolation_level: str | None = None) -> Transaction:
        transaction = AsyncTransaction(self._loop, self.vulkan.engine, isolation_level)
        self._transactions.append(transaction)
        return transaction

    def call(self, session: Session, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        facade = async_session(session)
        assert facade is not None
        return await_(method(facade, *args, **options))

    def handler(self, function: Handler, *, session: bool) -> Handler:
        async def with_session(payload: Any, session: AsyncSession, meta: MessageMeta) -> Any:
            return await session.run_sync(lambda sync: function(payload, sync, meta))

        async def without_session(payload: Any, meta: MessageMeta) -> Any:
            return function(payload, meta)

        return with_session if session else without_session

    def repo(self, method: str, *args: Any, **options: Any) -> Any:
        async def work() -> Any:
            async with (
                AsyncSession(self.vulkan.engine, expire_on_commit=False) as session,
                session.begin(),
            ):
                return await getattr(AsyncDeliveryRepository(session), method)(*args, **options)

        return self._loop.run(work())

    def wait_for(self, awaitable: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine of a test that is written for this colour alone."""
        return self._loop.run(awaitable())

    def drain(self) -> Counter[str]:
        return _texts(self._loop.run(self.vulkan.adrain()))

    def run(self) -> None:
        self._loop.run(self.vulkan.arun())

    def deliver(
        self, message_ids: Sequence[int] | None = None, *, topic: str = TOPIC, group: str = GROUP
    ) -> Counter[str]:
        return _texts(self._loop.run(self.vulkan.adeliver(topic, group, message_ids)))

    def upgrade(self) -> None:
        self._loop.run(self.vulkan.aupgrade())

    def dispose(self) -> None:
        self._loop.run(self.vulkan.engine.dispose())
        self._loop.close()


class AsyncTransaction(Transaction):
    def __init__(self, loop: Loop, engine: Any, isolation_level: str | None) -> None:
        if isolation_level:
            engine = engine.execution_options(isolation_level=isolation_level)
        self._loop = loop
        self._session = AsyncSession(engine, expire_on_commit=False)

    def run(self, work: Callable[[Session], T]) -> T:
        return self._loop.run(self._session.run_sync(work))

    def commit(self) -> None:
        self._loop.run(self._session.commit())

    def rollback(self) -> None:
        self._loop.run(self._session.rollback())

    def close(self) -> None:
        self._loop.run(self._session.close())


def async_url(database: Database) -> str:
    url = make_url(database.async_url)
    if url.drivername == "postgresql+psycopg":
        url = url.set(drivername="postgresql+psycopg_async")
    return url.render_as_string(hide_password=False)


def _texts(tally: Any) -> Counter[str]:
    return Counter({str(outcome): amount for outcome, amount in tally.items()})


def _enforce_foreign_keys(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


APPS: dict[str, Callable[[Database], App]] = {"sync": SyncApp, "async": AsyncApp}
