"""The host's sessions: its own classes, its pending objects, and a transaction that is not its."""

import asyncio

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from tests.conformance.harness import App, Job, async_url, at_once
from tests.conformance.host import Effect
from tests.databases import Database
from vulkan_orm import MessageMeta, Vulkan
from vulkan_orm.models import Message


class OwnSession(Session):
    """As SQLModel has one, say."""

    def greet(self) -> str:
        return "hello"


class OwnAsyncSession(AsyncSession):
    """The same."""

    sync_session_class = OwnSession

    async def greet(self) -> str:
        return self.sync_session.greet()  # type: ignore[attr-defined,no-any-return]


class PlainAsyncSession(AsyncSession):
    """One that leaves the session within as it is."""

    async def greet(self) -> str:
        return "hello"


def test_a_handler_gets_the_hosts_own_session_class(migrated: Database) -> None:
    engine = create_engine(migrated.sync_url)
    vulkan = Vulkan(sessionmaker(engine, class_=OwnSession))
    jobs = vulkan.topic("jobs", Job)
    said: list[str] = []

    @jobs.consumer(group="crew", retry=at_once(0))
    def handler(job: Job, session: OwnSession) -> None:
        said.append(session.greet())
        with pytest.raises(Exception, match="VK0031"):
            session.commit()

    with OwnSession(engine) as session, session.begin():
        jobs.publish(session, Job())
    assert vulkan.drain() == {"succeeded": 1}
    assert said == ["hello"]
    engine.dispose()


@pytest.mark.parametrize("kind", [OwnAsyncSession, PlainAsyncSession])
def test_an_async_handler_gets_the_hosts_own_session_class(
    migrated: Database, kind: type[OwnAsyncSession] | type[PlainAsyncSession]
) -> None:
    said: list[str] = []

    async def main() -> None:
        engine = create_async_engine(async_url(migrated))
        vulkan = Vulkan(async_sessionmaker(engine, class_=kind))
        jobs = vulkan.topic("jobs", Job)

        @jobs.consumer(group="crew", retry=at_once(0))
        async def handler(job: Job, session: AsyncSession) -> None:
            assert isinstance(session, kind)
            said.append(await session.greet())
            with pytest.raises(Exception, match="VK0031"):
                await session.commit()

        async with kind(engine) as session, session.begin():
            await jobs.publish(session, Job())
        assert await vulkan.adrain() == {"succeeded": 1}
        await engine.dispose()

    asyncio.run(main())
    assert said == ["hello"]


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_handler_cannot_end_the_transaction_through_its_connection(
    app: App, isolation: str, ending: str
) -> None:
    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.add(Effect(value=payload.name))
        session.flush()
        if payload.name == "c":
            getattr(session.connection(), ending)()

    app.consumer(handler, isolation=isolation, retry=at_once(0))
    messages = app.publish_many([Job(name=name) for name in "abcd"])
    assert app.drain() == {"succeeded": 3, "exception": 1}
    assert app.effects() == ["a", "b", "d"]
    (entry,) = app.log()
    assert (entry.message_id, entry.error_code) == (messages[2], "VK0031")


def unfinished(app: App, session: Session) -> None:
    """A keyed publish amid objects that the host has not filled in yet."""
    effect = Effect()
    session.add(effect)
    first = app.publish_in(session, Job(), idempotency_key="k")
    assert app.publish_in(session, Job(), idempotency_key="k") == first
    assert effect in session.new
    effect.value = "filled in"


def test_a_keyed_publish_does_not_flush_the_hosts_objects(app: App) -> None:
    app.in_transaction(lambda session: unfinished(app, session))
    assert app.effects() == ["filled in"]
    assert app.count(Message) == 1


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_nor_does_it_in_a_transaction_with_a_snapshot(postgresql_app: App, level: str) -> None:
    app = postgresql_app
    transaction = app.open(level)
    transaction.run(lambda session: unfinished(app, session))
    transaction.commit()
    assert app.effects() == ["filled in"]
    assert app.count(Message) == 1
