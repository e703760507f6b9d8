"""A database with one connection: the host's open transaction is never ended for a worker."""

import asyncio
from collections.abc import Callable

import pytest
from sqlalchemy import Engine, StaticPool, create_engine, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from tests.conformance.harness import Job
from tests.conformance.host import Effect, Host
from vulkan_orm import Vulkan
from vulkan_orm.diagnostics import DatabaseError


def of_a_static_pool() -> Engine:
    return create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )


def of_a_thread() -> Engine:
    return create_engine("sqlite://")


@pytest.mark.parametrize("make", [of_a_static_pool, of_a_thread])
def test_a_drain_refuses_while_a_session_is_open_on_the_only_connection(
    make: Callable[[], Engine],
) -> None:
    engine = make()
    vulkan = Vulkan(engine)
    jobs = vulkan.topic("jobs", Job)
    ran: list[str] = []

    @jobs.consumer(group="crew")
    def handler(job: Job) -> None:
        ran.append(job.name)

    vulkan.upgrade()
    Host.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Effect(value="not committed yet"))
        jobs.publish(session, Job())
        session.flush()
        with pytest.raises(DatabaseError) as caught:
            vulkan.drain()
        assert caught.value.code == "VK0049"
        assert ran == []
        session.commit()
        assert session.scalars(select(Effect.value)).all() == ["not committed yet"]
        session.commit()
    assert vulkan.drain() == {"succeeded": 1}
    engine.dispose()


def test_an_async_drain_refuses_the_same() -> None:
    async def main() -> None:
        vulkan = Vulkan("sqlite+aiosqlite://")
        jobs = vulkan.topic("jobs", Job)

        @jobs.consumer(group="crew")
        async def handler(job: Job) -> None:
            pass

        await vulkan.aupgrade()
        async with AsyncSession(vulkan.engine) as session:
            await session.run_sync(lambda sync: Host.metadata.create_all(sync.connection()))
            await session.commit()
            session.add(Effect(value="not committed yet"))
            await jobs.publish(session, Job())
            await session.flush()
            with pytest.raises(DatabaseError) as caught:
                await vulkan.adrain()
            assert caught.value.code == "VK0049"
            await session.commit()
            assert await session.scalar(select(func.count()).select_from(Effect)) == 1
            await session.commit()
        assert await vulkan.adrain() == {"succeeded": 1}
        await vulkan.engine.dispose()

    asyncio.run(main())


@pytest.mark.parametrize("make", [of_a_static_pool, of_a_thread])
def test_a_worker_refuses_to_run_on_a_database_in_memory(make: Callable[[], Engine]) -> None:
    vulkan = Vulkan(make())
    vulkan.upgrade()

    @vulkan.topic("jobs", Job).consumer(group="crew")
    def handler(job: Job) -> None:
        pass

    with pytest.raises(DatabaseError) as caught:
        vulkan.run()
    assert caught.value.code == "VK0049"
    vulkan.engine.dispose()


def test_an_async_worker_refuses_the_same() -> None:
    async def main() -> None:
        vulkan = Vulkan("sqlite+aiosqlite://")
        await vulkan.aupgrade()

        @vulkan.topic("jobs", Job).consumer(group="crew")
        async def handler(job: Job) -> None:
            pass

        with pytest.raises(DatabaseError) as caught:
            await vulkan.arun()
        assert caught.value.code == "VK0049"
        await vulkan.engine.dispose()

    asyncio.run(main())
