"""Running something on the application's Vulkan, whichever colour it has."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from vulkan_orm.app import Vulkan
from vulkan_orm.consumers import loop
from vulkan_orm.consumers.shutdown import Stop
from vulkan_orm.service.repository import DeliveryRepository

T = TypeVar("T")


def either(
    vulkan: Vulkan, sync: Callable[[], T], asynchronous: Callable[[], Coroutine[Any, Any, T]]
) -> T:
    """Calls the form that fits the application's engine, and leaves no connection open."""
    if vulkan.engines.is_async:
        return asyncio.run(_closing(vulkan, asynchronous))
    try:
        return sync()
    finally:
        vulkan.engine.dispose()


async def _closing(vulkan: Vulkan, asynchronous: Callable[[], Coroutine[Any, Any, T]]) -> T:
    try:
        return await asynchronous()
    finally:
        # Connections belong to this loop, which ends now.
        await vulkan.engine.dispose()


def read(vulkan: Vulkan, question: Callable[[Session], T]) -> T:
    """Asks in one transaction that changes nothing."""
    engines = vulkan.engines

    def sync() -> T:
        with engines.session() as session, session.begin():
            return question(session)

    async def asynchronous() -> T:
        async with engines.async_session() as session, session.begin():
            return await session.run_sync(question)

    return either(vulkan, sync, asynchronous)


def change(vulkan: Vulkan, action: Callable[[DeliveryRepository], T]) -> T:
    """Acts in one transaction of its own; again where the database says contention."""
    engines = vulkan.engines

    async def asynchronous() -> T:
        from vulkan_orm.consumers.aloop import AsyncDriver

        return await AsyncDriver(engines, Stop()).transact(action)

    return either(vulkan, lambda: loop.transact(engines, action), asynchronous)
