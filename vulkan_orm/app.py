"""The application's side: its Vulkan, its typed topics, its consumers."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from sqlalchemy import URL
from sqlalchemy.orm import Session, scoped_session

from vulkan_orm.consumers import loop
from vulkan_orm.consumers import worker as protocol
from vulkan_orm.consumers.context import Worker
from vulkan_orm.consumers.handlers import Consumer, ConsumerOptions, register
from vulkan_orm.consumers.running import Tally
from vulkan_orm.consumers.shutdown import Stop
from vulkan_orm.consumers.steps import Steps
from vulkan_orm.core.instants import as_delay
from vulkan_orm.diagnostics import (
    BAD_SESSION,
    CONNECTION_SHARED,
    DUPLICATE_NAME,
    POOL_TOO_SMALL,
    UNKNOWN_GROUP,
    WRONG_COLOUR,
    DatabaseError,
    UsageError,
)
from vulkan_orm.models import NAME_LENGTH
from vulkan_orm.service import schema
from vulkan_orm.service.codec import DEFAULT_MAX_BYTES, Codec, check_name
from vulkan_orm.service.drafts import Draft, DraftOptions
from vulkan_orm.service.engines import Engines
from vulkan_orm.service.publisher import publish

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session

    from vulkan_orm.service.engines import Bind

    SyncSession = Session | scoped_session[Any]
    AnyAsyncSession = AsyncSession | async_scoped_session[Any]

T = TypeVar("T")
H = TypeVar("H", bound=Callable[..., Any])
DEFAULT_GRACE = timedelta(seconds=30)


class Topic(Generic[T]):
    """A named append-only log of one payload type. Made by :meth:`Vulkan.topic`."""

    def __init__(
        self, vulkan: "Vulkan", name: str, codec: Codec[T], retention: timedelta | None
    ) -> None:
        self.name = name
        self.retention = retention
        self._vulkan = vulkan
        self._codec = codec

    @overload
    def publish(
        self, session: "SyncSession", payload: T, **options: Unpack[DraftOptions]
    ) -> int: ...

    @overload
    def publish(
        self, session: "AnyAsyncSession", payload: T, **options: Unpack[DraftOptions]
    ) -> Awaitable[int]: ...

    def publish(self, session: Any, payload: T, **options: Unpack[DraftOptions]) -> Any:
        """Appends one message in the session's transaction and returns its id.

        It commits and rolls back with the caller's rows, savepoints included; it never commits
        itself. With an async session, await it. The options are those of :class:`Draft`.

        :raises PayloadError: VK0020 to VK0023, before any statement.
        :raises DatabaseError: VK0040 to VK0043 for a database that is not ready, or not ours.
        """
        message = Draft(payload, **options) if options else payload
        return self._in(session, lambda sync: self._publish(sync, [message])[0])

    @overload
    def publish_many(
        self, session: "SyncSession", payloads: Iterable[T | Draft[T]]
    ) -> list[int]: ...

    @overload
    def publish_many(
        self, session: "AnyAsyncSession", payloads: Iterable[T | Draft[T]]
    ) -> Awaitable[list[int]]: ...

    def publish_many(self, session: Any, payloads: Iterable[T | Draft[T]]) -> Any:
        """Appends messages in order, thousands a statement, and returns their ids in that order.

        A message with options of its own is given as a :class:`Draft`.
        """
        messages = list(payloads)
        return self._in(session, lambda sync: self._publish(sync, messages))

    def consumer(self, *, group: str, **options: Unpack[ConsumerOptions]) -> Callable[[H], H]:
        """Registers a function as the handler of a consumer group; the function stays as it is.

        The options are those of :class:`ConsumerOptions`.

        :raises UsageError: VK0003 to VK0008, at once.
        """

        def decorate(handler: H) -> H:
            self._vulkan.add(
                register(
                    handler,
                    self._vulkan.engines,
                    self._codec,
                    topic=self.name,
                    group=group,
                    retention=self.retention,
                    options=options,
                )
            )
            return handler

        return decorate

    def _publish(self, session: Session, messages: Sequence[T | Draft[T]]) -> list[int]:
        self._vulkan.check_session(session)
        return publish(
            session, self.name, self._codec, messages,
            retention=self.retention, hints=self._vulkan.engines.wake_up,
        )  # fmt: skip

    def _in(self, session: Any, work: Callable[[Session], Any]) -> Any:
        session = _registered(session)
        if isinstance(session, Session):
            return work(session)
        if hasattr(session, "run_sync"):
            return session.run_sync(work)
        raise UsageError(BAD_SESSION, f"{session!r} is not a session.")


def _registered(session: Any) -> Any:
    """The session behind a scoped one."""
    if isinstance(session, scoped_session) or type(session).__name__ == "async_scoped_session":
        return session.registry()
    return session


class Vulkan:
    """Messaging in one database. An application has one, beside its engine.

    :param bind: a database URL, or the host's Engine, AsyncEngine, sessionmaker or
        async_sessionmaker. A URL gives an engine of our own, with fitting settings.
    :param wake_up: whether publishing wakes a worker that sleeps, where the database can: not for
        an application that sends PREPARE TRANSACTION itself, which refuses the hint.
    :param listen_url: a direct connection for hearing that, where the engine goes through a pooler
        in transaction mode.
    :raises UsageError: VK0007, VK0044 for what cannot be used.
    """

    def __init__(
        self, bind: "Bind", *, wake_up: bool = True, listen_url: str | URL | None = None
    ) -> None:
        self.engines = Engines(bind, wake_up=wake_up, listen_url=listen_url)
        self._topics: dict[str, Topic[Any]] = {}
        self._consumers: dict[tuple[str, str], Consumer] = {}
        self._stops: set[Stop] = set()

    @property
    def engine(self) -> Any:
        """The engine: for an application that gave a URL and makes its sessions from here."""
        return self.engines.engine

    @property
    def topics(self) -> Mapping[str, Topic[Any]]:
        return self._topics

    @property
    def consumers(self) -> Sequence[Consumer]:
        return list(self._consumers.values())

    def topic(
        self,
        name: str,
        payload: type[T],
        *,
        retention: timedelta | None = None,
        max_payload_bytes: int = DEFAULT_MAX_BYTES,
    ) -> Topic[T]:
        """Declares a topic and the type of its payloads: whatever pydantic can adapt.

        :param retention: how long messages are kept; a publish for later than that is refused.
        :raises UsageError: VK0003, VK0004, VK0007.
        """
        check_name(name, "topic", NAME_LENGTH)
        if retention is not None:
            as_delay(retention)
        if name in self._topics:
            raise UsageError(DUPLICATE_NAME, f"The topic {name!r} is declared already.")
        codec: Codec[T] = Codec(payload, max_bytes=max_payload_bytes)
        topic = self._topics[name] = Topic(self, name, codec, retention)
        return topic

    def add(self, consumer: Consumer) -> None:
        """Takes a registered consumer in. :raises UsageError: VK0003 for a group named twice."""
        name = (consumer.topic, consumer.group)
        if name in self._consumers:
            raise UsageError(
                DUPLICATE_NAME, f"The group {consumer.group!r} on {consumer.topic!r} has a handler."
            )
        self._consumers[name] = consumer

    def upgrade(self) -> None:
        """Brings our tables to this package's version, and makes rows for what is declared.

        For applications without an Alembic of their own; its tables can be adopted later.
        """
        self._only_sync()
        schema.upgrade(self.engines.sync_engine)
        self._finish(self._declare)

    async def aupgrade(self) -> None:
        """The async form of :meth:`upgrade`."""
        self._only_async()
        async with self.engine.begin() as connection:
            await connection.run_sync(schema.upgrade_on)
        await self._afinish(self._declare)

    def drain(self) -> Tally:
        """Runs what is due until nothing is; how often each outcome came.

        A delivery put back and due at once runs again, at most 100 times: a drain always ends.

        :raises StaleClaim: VK0030 when a worker took a claim of this drain over meanwhile; its
            writes are undone.
        """
        return self._finish(self._drain)

    async def adrain(self) -> Tally:
        """The async form of :meth:`drain`."""
        return await self._afinish(self._drain)

    def deliver(self, topic: str, group: str, message_ids: Sequence[int] | None = None) -> Tally:
        """Runs held deliveries now, the named or all, whatever their due time and budget."""
        return self._finish(self._deliver(topic, group, message_ids))

    async def adeliver(
        self, topic: str, group: str, message_ids: Sequence[int] | None = None
    ) -> Tally:
        """The async form of :meth:`deliver`."""
        return await self._afinish(self._deliver(topic, group, message_ids))

    def run(self, *, grace: timedelta = DEFAULT_GRACE) -> None:
        """Works until SIGTERM, SIGINT or :meth:`stop`; a second one stops at once.

        :param grace: what a running handler gets to end, once the stop is asked for.
        """
        self._only_sync()
        with self._stoppable() as stop, loop.signals_ask(stop):
            loop.run(self.engines, self._workload(), stop, grace.total_seconds())

    async def arun(self, *, grace: timedelta = DEFAULT_GRACE) -> None:
        """The async form of :meth:`run`. Being cancelled is a stop without grace."""
        from vulkan_orm.consumers import aloop

        self._only_async()
        with self._stoppable() as stop, aloop.signals_ask(stop):
            await aloop.run(self.engines, self._workload(), stop, grace.total_seconds())

    def stop(self) -> None:
        """Asks every run of this Vulkan to stop, from any thread; again, to stop at once."""
        for stop in list(self._stops):
            stop.ask()

    def check_session(self, session: Session) -> None:
        """:raises DatabaseError: VK0043 for a session of a database other than this Vulkan's."""
        self.engines.check_session(session)

    def _finish(self, steps_of: Callable[[Worker], Steps[T]]) -> T:
        self._only_sync()
        with self._stoppable() as stop, loop.worker(self.engines, stop) as crew:
            return loop.drive(steps_of(crew), self.engines, stop)

    async def _afinish(self, steps_of: Callable[[Worker], Steps[T]]) -> T:
        from vulkan_orm.consumers import aloop

        self._only_async()
        with self._stoppable() as stop:
            return await aloop.finish(self.engines, steps_of, stop)

    def _drain(self, crew: Worker) -> Steps[Tally]:
        return protocol.drain(crew, self.consumers)

    def _declare(self, crew: Worker) -> Steps[None]:
        yield from protocol.declare(list(self._topics))
        for consumer in self.consumers:
            yield from protocol.prepare(crew, consumer)

    def _workload(self) -> Sequence[Consumer]:
        if not self._consumers:
            raise UsageError(UNKNOWN_GROUP, "There is nothing to run: no consumer is registered.")
        if not self.engines.shared:
            raise DatabaseError(CONNECTION_SHARED, "A worker needs connections of its own.")
        wanted = loop.loops(self.consumers)
        if not self.engines.room_for(wanted):
            raise UsageError(
                POOL_TOO_SMALL,
                f"The pool gives {self.engines.capacity} connections, and {wanted} messages are to "
                "run at a time.",
            )
        return self.consumers

    def _deliver(
        self, topic: str, group: str, message_ids: Sequence[int] | None
    ) -> Callable[[Worker], Steps[Tally]]:
        consumer = self._consumers.get((topic, group))
        if consumer is None:
            known = ", ".join(each.name for each in self.consumers) or "none"
            raise UsageError(
                UNKNOWN_GROUP, f"There is no handler for {topic}/{group}; known: {known}."
            )
        return lambda crew: protocol.deliver(crew, consumer, message_ids)

    @contextmanager
    def _stoppable(self) -> Iterator[Stop]:
        """A stop that :meth:`stop` reaches; a handler's KeyboardInterrupt goes on from here."""
        stop = Stop()
        self._stops.add(stop)
        try:
            yield stop
        finally:
            self._stops.discard(stop)
        if stop.interrupted:
            raise KeyboardInterrupt

    def _only_sync(self) -> None:
        if self.engines.is_async:
            raise UsageError(WRONG_COLOUR, "This Vulkan has an async engine: await the a… form.")

    def _only_async(self) -> None:
        if not self.engines.is_async:
            raise UsageError(WRONG_COLOUR, "This Vulkan has a sync engine: call the sync form.")
