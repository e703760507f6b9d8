"""chancy, a thousand jobs at a time, polling eagerly."""

import logging
import sys
from collections.abc import Sequence
from typing import Any

import protocol
import uvloop
from chancy import Chancy, Queue, Worker, job

CONCURRENCY = 1000
run = uvloop.run
log = logging.getLogger("chancy")
log.setLevel(logging.CRITICAL)
# Its workers import the job by the name of its module.
sys.modules.setdefault("chancy_", sys.modules[__name__])
app: Chancy
_probes: list[protocol.Probe] = []


@job(queue="bench", max_attempts=5)
async def handle(*, number: int, kind: str, customer: str, note: str) -> None:
    if not _probes:
        _probes.append(protocol.Probe())
    _probes[0].run(number)


def _queue() -> Queue:
    return Queue(
        "bench",
        concurrency=CONCURRENCY,
        executor="chancy.executors.asyncex.AsyncExecutor",
        polling_interval=1,
        eager_polling=True,
    )


async def setup() -> None:
    async with Chancy(protocol.URL, log=log) as chancy:
        await chancy.migrate()
        await chancy.declare(_queue(), upsert=True)


async def connect() -> None:
    global app
    app = Chancy(protocol.URL, log=log)
    await app.__aenter__()


async def disconnect() -> None:
    await app.__aexit__(None, None, None)


async def one(number: int) -> None:
    await app.push(handle.job.with_kwargs(**protocol.message(number)))


async def bulk(messages: Sequence[Any]) -> None:
    jobs = [handle.job.with_kwargs(**each) for each in messages]
    async for _ in app.push_many(jobs, batch_size=len(jobs)):
        pass


async def work() -> None:
    async with Chancy(protocol.URL, log=log) as chancy:
        await chancy.declare(_queue(), upsert=True)
        worker = Worker(chancy)
        # How long outcomes wait to be written together.
        worker.send_outgoing_interval = 0.1
        async with worker:
            await worker.wait_for_shutdown()


if __name__ == "__main__":
    import chancy_

    protocol.main(chancy_)
