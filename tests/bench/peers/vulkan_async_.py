"""vulkan_orm's async form: published to as by its sync one, and run with `arun`."""

import sys

import protocol
import vulkan_
from sqlalchemy.ext.asyncio import create_async_engine
from vulkan_ import AT_ONCE, Message, bulk, connect, disconnect, make, one, setup

from vulkan_orm import Vulkan

__all__ = ["bulk", "connect", "disconnect", "make", "one", "setup", "work"]


async def work() -> None:
    probe = protocol.Probe()
    vulkan = Vulkan(create_async_engine(vulkan_.url.set(drivername="postgresql+psycopg")))

    @vulkan.topic("bench", Message).consumer(group="bench", retry=AT_ONCE)
    async def handle(message: Message) -> None:
        probe.run(message.number)

    await vulkan.arun()


if __name__ == "__main__":
    protocol.main(sys.modules[__name__])
