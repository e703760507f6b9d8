"""huey on SQLite, with fsync as our commits have it."""

import logging
import sys
from collections.abc import Sequence
from typing import Any

import protocol
from huey import SqliteHuey

sys.modules.setdefault("huey_", sys.modules[__name__])
huey = SqliteHuey("bench", filename=str(protocol.FOLDER / "huey.db"), fsync=True, results=False)
_probes: list[protocol.Probe] = []


@huey.task(name="bench", retries=5, retry_delay=0)
def handle(message) -> None:
    if not _probes:
        _probes.append(protocol.Probe())
    _probes[0].run(message["number"])


def setup() -> None:
    huey.storage.flush_all()


def connect() -> None:
    pass


def disconnect() -> None:
    pass


def one(number: int) -> None:
    handle(protocol.message(number))


def bulk(messages: Sequence[Any]) -> None:
    for each in messages:
        handle(each)


def work() -> None:
    logging.disable(logging.CRITICAL)
    huey.create_consumer(
        workers=1,
        worker_type="thread",
        initial_delay=0.01,
        backoff=1.0,
        max_delay=0.01,
        periodic=False,
        check_worker_health=False,
    ).run()


if __name__ == "__main__":
    import huey_

    protocol.main(huey_)
