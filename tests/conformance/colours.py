"""The two colours of the application."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from sqlalchemy import Engine, make_url
from sqlalchemy.ext.asyncio import AsyncSession, async_session
from sqlalchemy.orm import Session
from sqlalchemy.util import await_

from tests.conformance.application import GROUP, PATIENCE, TOPIC, App, Handler, Transaction
from tests.databases import Database
from vulkan_orm import DeliveryRepository, MessageMeta, Vulkan
from vulkan_orm.aio import AsyncDeliveryRepository

T = TypeVar("T")


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
