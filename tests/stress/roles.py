"""What publishers and workers of the stress run do, each in a process of its own."""

import random
import signal
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

from pydantic import BaseModel
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, insert
from sqlalchemy.orm import Session

from vulkan_orm import Delay, MessageMeta, RetryPolicy, Terminal, Topic, Vulkan

TOPIC, GROUP = "stress", "crew"
POLICY = RetryPolicy(max_retries=20, backoff_base=timedelta(0), backoff_max=timedelta(0))
# Of a hundred messages: five fail once, two are delayed once, and one of a thousand is dead.
FAILS, DELAYS, DIES = 20, 50, 1000

metadata = MetaData()
#: What publishers committed beside their messages, and what handlers did for them.
business = Table("stress_business", metadata, Column("number", Integer, nullable=False))
effects = Table("stress_effect", metadata, Column("number", Integer, nullable=False))


class Item(BaseModel):
    """A message, known by a number that nobody else has."""

    number: int


@dataclass(frozen=True, slots=True)
class Share:
    """The part of one publisher: its numbers, in transactions of random size."""

    url: str
    first: int
    amount: int
    seed: int


def fate(number: int) -> str:
    """What becomes of a message on its first run."""
    if number % DIES == 0:
        return "terminal"
    if number % FAILS == 1:
        return "exception"
    return "delayed" if number % DELAYS == 2 else "succeeded"


def application(url: str) -> tuple[Vulkan, Topic[Item]]:
    vulkan = Vulkan(create_engine(url, pool_size=5, max_overflow=20))
    return vulkan, vulkan.topic(TOPIC, Item)


def publish(share: Share) -> None:
    """Publishes beside rows of its own; some transactions are rolled back and done again."""
    chance = random.Random(share.seed)
    vulkan, topic = application(share.url)
    numbers = iter(range(share.first, share.first + share.amount))
    while chunk := list(islice(numbers, chance.choice((1, 1, 3, 50)))):
        if chance.random() < 0.05:
            _transact(vulkan, topic, chunk, undo=True)
        _transact(vulkan, topic, chunk)
    vulkan.engine.dispose()


def _transact(vulkan: Vulkan, topic: Topic[Item], chunk: list[int], *, undo: bool = False) -> None:
    with Session(vulkan.engine) as session:
        session.execute(insert(business), [{"number": number} for number in chunk])
        topic.publish_many(session, [Item(number=number) for number in chunk])
        if not undo:
            session.commit()


def work(url: str) -> None:
    """Works until it is told to stop, or killed."""
    vulkan, topic = application(url)

    @topic.consumer(group=GROUP, retry=POLICY, concurrency=2, lease=timedelta(seconds=5))
    def handle(item: Item, session: Session, meta: MessageMeta) -> None:
        session.execute(insert(effects).values(number=item.number))
        if meta.attempts == meta.delays:
            _speak(fate(item.number), item.number, meta)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    vulkan.run()
    vulkan.engine.dispose()


def _speak(outcome: str, number: int, meta: MessageMeta) -> Any:
    if outcome == "terminal":
        raise Terminal(f"number {number}")
    if outcome == "exception":
        raise ValueError(f"number {number}")
    if outcome == "delayed" and not meta.delays:
        raise Delay(0.05)
