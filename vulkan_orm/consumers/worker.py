"""What a worker does over time: for ever, or until nothing is due."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from vulkan_orm.consumers.context import Worker
from vulkan_orm.consumers.delivery import DeliveryConsumer
from vulkan_orm.consumers.exception import ExceptionConsumer
from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.consumers.lookout import Lookout, surviving
from vulkan_orm.consumers.message import MessageConsumer
from vulkan_orm.consumers.running import Tally
from vulkan_orm.consumers.steps import Rest, Steps, transact
from vulkan_orm.core.pace import next_pause
from vulkan_orm.service.repository import DeliveryRepository

MAX_PASSES = 100


@dataclass(slots=True)
class Paths:
    """The two live paths of one consumer group."""

    message: MessageConsumer
    exception: ExceptionConsumer


def prepare(worker: Worker, consumer: Consumer) -> Steps[Paths]:
    """Makes the rows of topic and group where they are missing."""
    group = yield from transact(
        lambda repository: repository.ensure_group(consumer.topic, consumer.group)
    )
    return Paths(
        MessageConsumer(worker, consumer, group), ExceptionConsumer(worker, consumer, group)
    )


def declare(topics: Sequence[str]) -> Steps[None]:
    """Makes the rows of topics where they are missing."""
    yield from transact(lambda repository: repository.ensure_topics(topics))


def deliver(worker: Worker, consumer: Consumer, message_ids: Sequence[int] | None) -> Steps[Tally]:
    """Runs a group's held deliveries."""
    paths = yield from prepare(worker, consumer)
    held = DeliveryConsumer(worker, consumer, paths.message.group)
    return (yield from held.deliver(message_ids))


def work(worker: Worker, consumer: Consumer) -> Steps[None]:
    """Works for one consumer until a stop is asked for. Nothing but that ends it."""
    pause = 0.0
    while not worker.stop.asked:
        paths = yield from surviving(consumer, prepare(worker, consumer))
        if paths is not None:
            yield from Lookout(worker, consumer, paths.message, paths.exception).work()
            yield from surviving(consumer, paths.message.give_back())
        else:
            pause = next_pause(pause, worked=False)
            yield Rest(pause)


def drain(worker: Worker, consumers: Sequence[Consumer]) -> Steps[Tally]:
    """Runs what is due until nothing is, and tells how often each outcome came.

    A delivery that is put back and due at once runs again in the next pass; there are at most
    100, so that a drain always ends.
    """
    tally: Tally = Counter()
    every: list[Paths] = []
    for consumer in consumers:
        paths = yield from prepare(worker, consumer)
        every.append(paths)
    try:
        for _ in range(MAX_PASSES):
            done = yield from _pass(every)
            tally += done
            if not done or worker.stop.asked:
                break
    finally:
        for paths in every:
            yield from paths.message.give_back()
    return tally


def _pass(every: Sequence[Paths]) -> Steps[Tally]:
    tally: Tally = Counter()
    yield from transact(lambda repository: repository.recover())
    for paths in every:
        upto, due = yield from transact(_ends(paths.message.group.topic_id))
        while (ran := (yield from paths.message.turn(upto))) is not None:
            tally += ran
        while (again := (yield from paths.exception.turn(due))) is not None:
            tally += again
    return tally


def _ends(topic_id: int) -> Callable[[DeliveryRepository], tuple[int, datetime]]:
    """How far a pass goes: what is published or put back meanwhile waits for the next."""
    return lambda repository: (repository.log_end(topic_id), repository.now())
