"""The engine that an application gives, in the forms that workers need."""

from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.orm import Session, sessionmaker

from vulkan_orm.diagnostics import (
    BAD_OPTION,
    MISSING_EXTRA,
    OTHER_DATABASE,
    DatabaseError,
    UsageError,
)
from vulkan_orm.service.database import connection_of, database_of
from vulkan_orm.service.savepoints import make_lazy
from vulkan_orm.service.unit_of_work import UnitOfWork, guarded
from vulkan_orm.store.dialects import Dialect, dialect_of

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

    Bind = str | URL | Engine | AsyncEngine | sessionmaker[Any] | async_sessionmaker[Any]

T = TypeVar("T")


class Engines:
    """Sessions for workers, made from what the host gave: a URL, an engine or a session factory.

    The host's own session class is kept, so that handlers get the session they know.
    """

    def __init__(
        self, bind: "Bind", *, wake_up: bool = True, listen_url: str | URL | None = None
    ) -> None:
        engine, made, options = _unpack(bind)
        self.is_async = not isinstance(engine, Engine)
        #: What the host gave, or an engine of our own where it gave a URL.
        self.engine: Any = engine
        self.sync_engine: Engine = engine.sync_engine if self.is_async else engine
        self.dialect: Dialect = dialect_of(self.sync_engine.dialect.name)
        self.dialect.prepare(self.sync_engine)
        #: Whether publishers give hints, and workers sleep until they hear one.
        self.wake_up = wake_up
        self._listen_url = None if listen_url is None else make_url(listen_url)
        self._engine = self._for_workers(engine)
        self._autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._sync_autocommit = getattr(self._autocommit, "sync_engine", self._autocommit)
        self._identity: str | None = None
        #: The host's own classes, the sync one guarded while handlers have it.
        self._facade_class: Any = made
        sync_class = options.pop("sync_session_class", None) or made
        self._session_class = guarded(getattr(sync_class, "sync_session_class", sync_class))
        self._options = {**options, "bind": self._engine, "expire_on_commit": False}

    def _for_workers(self, engine: Any) -> Any:
        # A look and a read must not share a snapshot, whatever level the host's engine has.
        isolation = self.dialect.worker_isolation
        options = {} if isolation is None else {"isolation_level": isolation}
        workers = engine.execution_options(**options)
        make_lazy(workers.sync_engine if self.is_async else workers)
        return workers

    def unit(self) -> UnitOfWork:
        """A unit of work in which handlers run; it takes a connection at their first use of it."""
        facade: Any
        if self.is_async:
            facade = self._facade_class(**self._options, sync_session_class=self._session_class)
            return UnitOfWork(facade.sync_session, facade, self.dialect)
        facade = self._session_class(**self._options)
        return UnitOfWork(facade, facade, self.dialect)

    def session(self, *, autocommit: bool = False) -> Session:
        """A plain sync session on the workers' engine."""
        return Session(self._autocommit if autocommit else self._engine, expire_on_commit=False)

    def async_session(self, *, autocommit: bool = False) -> "AsyncSession":
        from sqlalchemy.ext.asyncio import AsyncSession

        engine = self._autocommit if autocommit else self._engine
        return AsyncSession(engine, expire_on_commit=False)

    def transact(self, session: Session, work: Callable[[Session], T]) -> T:
        """Runs work in one transaction of a session of ours that may write from the beginning.

        A session made with ``autocommit`` has none: each statement is one by itself.
        """
        # Before a connection is taken: giving one back rolls back what is open on it.
        self.dialect.check_idle(self.sync_engine)
        with session.begin():
            if session.bind is not self._sync_autocommit:
                self.dialect.begin_write(session.connection())
            return work(session)

    @property
    def shared(self) -> bool:
        """Whether several connections reach the same data."""
        return self.dialect.shared(self.sync_engine)

    def room_for(self, connections: int) -> bool:
        """Whether the pool gives so many connections at a time."""
        capacity = self.capacity
        return capacity is None or capacity >= connections

    @property
    def capacity(self) -> int | None:
        """How many connections the pool gives at a time; None where it sets no limit."""
        pool = self.sync_engine.pool
        overflow = getattr(pool, "_max_overflow", -1)
        return None if overflow < 0 else pool.size() + overflow  # type: ignore[attr-defined]

    def check_session(self, session: Session) -> None:
        """Refuses a session of a database other than ours.

        :raises DatabaseError: VK0043.
        """
        if connection_of(session).engine.pool is self.sync_engine.pool:
            return
        theirs = database_of(session)
        if self._identity is None and self.shared:
            self._identity = self.apart(lambda mine: database_of(mine).identity)
        if theirs.identity != self._identity:
            raise DatabaseError(
                OTHER_DATABASE, f"The session's database is not {self.sync_engine.url!r}."
            )

    @property
    def can_listen(self) -> bool:
        """Whether a listener can be had and is wanted."""
        url = self._listen_url
        driver = url.get_driver_name() if url is not None else self.sync_engine.dialect.driver
        return self.wake_up and driver in self.dialect.hearing_drivers

    def listening_engine(self) -> Engine:
        """An engine for a listener's connection, from whose pool nobody else takes one."""
        if self._listen_url is None:
            return self._aside()
        engine = _create(self._listen_url)
        listening: Engine = getattr(engine, "sync_engine", engine)
        return listening

    def _aside(self) -> Engine:
        """The host's way to connect, without its pool."""
        engine = self.sync_engine
        return Engine(engine.pool.recreate(), engine.dialect, engine.url)

    def apart(self, work: Callable[[Session], T]) -> T:
        """Runs work on a connection of its own, opened and closed for it.

        Neither the handlers' pool nor their event loop can keep it waiting.
        """
        engine = self._aside()
        if self.is_async:
            return _in_own_loop(_apart_async(engine, work))
        try:
            with Session(engine) as session, session.begin():
                return work(session)
        finally:
            engine.dispose()


async def _apart_async(sync_engine: Engine, work: Callable[[Session], T]) -> T:
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

    engine = AsyncEngine(sync_engine)
    try:
        async with AsyncSession(engine) as session, session.begin():
            return await session.run_sync(work)
    finally:
        await engine.dispose()


def _in_own_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in a loop and a thread of its own, since this one may have a loop."""
    import asyncio

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def _unpack(bind: "Bind") -> tuple[Any, Any, dict[str, Any]]:
    """The engine, the session class and its options."""
    if isinstance(bind, str | URL):
        engine = _create(make_url(bind))
        return engine, _plain_session(engine), {}
    if isinstance(bind, Engine) or hasattr(bind, "sync_engine"):
        return bind, _plain_session(bind), {}
    options = dict(getattr(bind, "kw", {}))
    engine = options.pop("bind", None)
    if engine is None:
        raise UsageError(
            BAD_OPTION, f"{bind!r} is neither a URL, an engine, nor a sessionmaker with a bind."
        )
    return engine, getattr(bind, "class_", None) or _plain_session(engine), options


def _plain_session(engine: Any) -> Any:
    if isinstance(engine, Engine):
        return Session
    from sqlalchemy.ext.asyncio import AsyncSession

    return AsyncSession


def _create(url: URL) -> Any:
    if not url.get_dialect().is_async:
        engine = create_engine(url)
        _prepare(engine)
        return engine
    try:
        from sqlalchemy.ext.asyncio import create_async_engine
    except ImportError as error:
        raise UsageError(MISSING_EXTRA, "Async needs vulkan-orm[asyncio].") from error
    async_engine = create_async_engine(url)
    _prepare(async_engine.sync_engine)
    return async_engine


def _prepare(engine: Engine) -> None:
    """Settings for an engine that is ours: writers and readers of a file go side by side."""
    for statement in dialect_of(engine.dialect.name).settings:

        def set_up(connection: Any, _record: Any, statement: str = statement) -> None:
            cursor = connection.cursor()
            cursor.execute(statement)
            cursor.close()

        event.listen(engine, "connect", set_up)
