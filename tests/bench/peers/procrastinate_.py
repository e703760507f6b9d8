"""procrastinate, fifty jobs at a time."""

import logging
import sys
from collections.abc import Sequence
from typing import Any

import protocol
import uvloop
from procrastinate import App, PsycopgConnector, RetryStrategy

CONCURRENCY = 50
run = uvloop.run
logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
app = App(connector=PsycopgConnector(conninfo=protocol.URL, min_size=1, max_size=CONCURRENCY))
probe: protocol.Probe


@app.task(name="bench", queue="bench", retry=RetryStrategy(max_attempts=5))
async def handle(**message) -> None:
    probe.run(message["number"])


async def setup() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def connect() -> None:
    await app.open_async()


async def disconnect() -> None:
    await app.close_async()


async def one(number: int) -> None:
    await handle.defer_async(**protocol.message(number))


async def bulk(messages: Sequence[Any]) -> None:
    await handle.batch_defer_async(*messages)


async def work() -> None:
    global probe
    probe = protocol.Probe()
    async with app.open_async():
        await app.run_worker_async(queues=["bench"], concurrency=CONCURRENCY, wait=True)


if __name__ == "__main__":
    protocol.main(sys.modules[__name__])
