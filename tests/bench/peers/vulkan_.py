"""vulkan_orm, as its documentation says, on whatever database the URL names."""

import logging
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import protocol
from pydantic import BaseModel
from sqlalchemy import create_engine, make_url
from sqlalchemy.orm import Session

from vulkan_orm import RetryPolicy, Vulkan

logging.getLogger("vulkan_orm").setLevel(logging.CRITICAL)
AT_ONCE = RetryPolicy(max_retries=5, backoff_base=timedelta(0), backoff_max=timedelta(0))


class Message(BaseModel):
    number: int
    kind: str
    customer: str
    note: str


url = make_url(protocol.URL)
if url.drivername == "postgresql":
    url = url.set(drivername="postgresql+psycopg")
vulkan = Vulkan(
    url if url.get_dialect().is_async or "sqlite" in url.drivername else create_engine(url)
)
bench = vulkan.topic("bench", Message)


def make(number: int) -> Message:
    return Message(**protocol.message(number))


def setup() -> None:
    vulkan.upgrade()


def connect() -> None:
    pass


def disconnect() -> None:
    vulkan.engine.dispose()


def one(number: int) -> None:
    with Session(vulkan.engine) as session, session.begin():
        bench.publish(session, make(number))


def bulk(messages: Sequence[Any]) -> None:
    with Session(vulkan.engine) as session, session.begin():
        bench.publish_many(session, messages)


def work() -> None:
    probe = protocol.Probe()

    @bench.consumer(group="bench", retry=AT_ONCE)
    def handle(message: Message) -> None:
        probe.run(message.number)

    vulkan.run()


if __name__ == "__main__":
    protocol.main(sys.modules[__name__])
