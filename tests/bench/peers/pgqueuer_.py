"""pgqueuer, with the options that suit it best: a pool, and batches of 1,000."""

import json
import logging
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import protocol
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.errors import RetryRequested
from pgqueuer.queries import Queries

BATCH = 1000
run = uvloop.run
logging.getLogger("pgqueuer").setLevel(logging.CRITICAL)
connection: asyncpg.Connection
queries: Queries


async def setup() -> None:
    await connect()
    await queries.install()
    await disconnect()


async def connect() -> None:
    global connection, queries
    connection = await asyncpg.connect(protocol.URL)
    queries = Queries(AsyncpgDriver(connection))


async def disconnect() -> None:
    await connection.close()


def _text(message: Any) -> bytes:
    return json.dumps(message).encode()


async def one(number: int) -> None:
    await queries.enqueue("bench", _text(protocol.message(number)))


async def bulk(messages: Sequence[Any]) -> None:
    amount = len(messages)
    await queries.enqueue(["bench"] * amount, [_text(each) for each in messages], [0] * amount)


async def work() -> None:
    probe = protocol.Probe()
    async with asyncpg.create_pool(protocol.URL, min_size=2, max_size=5) as pool:
        queuer = PgQueuer.from_asyncpg_pool(pool)

        @queuer.entrypoint("bench")
        async def handle(job):
            try:
                probe.run(json.loads(job.payload)["number"])
            except protocol.NotYet as error:
                raise RetryRequested(delay=timedelta(0), reason="not yet") from error

        await queuer.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=30))


if __name__ == "__main__":
    protocol.main(sys.modules[__name__])
