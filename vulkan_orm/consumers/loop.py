"""The sync driver: steps as plain calls, workers as threads."""

import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from vulkan_orm.consumers import worker as protocol
from vulkan_orm.consumers.bell import Bell
from vulkan_orm.consumers.context import Worker
from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.consumers.injection import refuse_awaitable
from vulkan_orm.consumers.leases import LeaseKeeper
from vulkan_orm.consumers.shutdown import Stop
from vulkan_orm.consumers.steps import (
    Attend,
    Conversation,
    Invoke,
    Rest,
    Step,
    Steps,
    Transact,
)
from vulkan_orm.consumers.waking import Waking
from vulkan_orm.diagnostics import VulkanError
from vulkan_orm.service.engines import Engines
from vulkan_orm.service.repository import DeliveryRepository

logger = logging.getLogger("vulkan_orm.worker")

T = TypeVar("T")
TRIES = 10
# What giving back may take; what it does not reach comes back when its lease ends.
GIVING_BACK = 1.5
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def worker(engines: Engines, stop: Stop) -> Iterator[Worker]:
    """A worker, whose leases are looked after, and who hears hints, while the block lasts."""
    keeper = LeaseKeeper(engines)
    waking = Waking(engines, stop)
    try:
        yield Worker(engines, stop, keeper, waking)
    finally:
        waking.close()
        keeper.close()


def drive(steps: Steps[T], engines: Engines, stop: Stop) -> T:
    """Runs a protocol to its end in this thread."""
    talk = Conversation(steps)
    while (step := talk.next()) is not None:
        try:
            talk.answer = _perform(step, engines, stop)
        except BaseException as error:
            talk.failure = error
    return talk.result


def _perform(step: Step, engines: Engines, stop: Stop) -> Any:
    match step:
        case Invoke(call=call):
            return invoke(call)
        case Attend(work=work):
            return work()
        case Transact(work=work, autocommit=autocommit):
            return transact(engines, work, autocommit=autocommit)
        case Rest(seconds=seconds, bell=bell):
            return stop.wait(seconds) if bell is None else wait_for(bell, seconds)


def wait_for(bell: Bell, seconds: float | None) -> None:
    """Waits in this thread until the bell rings, or for so long."""
    waiting = bell.enter()
    try:
        waiting.result(seconds)
    except TimeoutError:
        bell.leave(waiting)


def invoke(call: Callable[[], Any]) -> BaseException | None:
    """Calls a sync handler; what it raised, or None."""
    try:
        result = call()
        if result is not None:
            refuse_awaitable(result)
    except BaseException as error:
        return error
    return None


def transact(
    engines: Engines, work: Callable[[DeliveryRepository], T], *, autocommit: bool = False
) -> T:
    """Runs work in a transaction of its own; again where the database says contention."""
    for attempt in range(TRIES):
        try:
            with engines.session(autocommit=autocommit) as session:
                return engines.transact(session, _on_repository(work))
        except DBAPIError as error:
            if attempt == TRIES - 1 or not engines.dialect.is_contention(error):
                raise
            time.sleep(contention_pause(attempt))
    raise AssertionError("unreachable")


def _on_repository(work: Callable[[DeliveryRepository], T]) -> Callable[[Session], T]:
    return lambda session: work(DeliveryRepository(session))


def contention_pause(attempt: int) -> float:
    return random.uniform(0, 0.01 * 2**attempt)


def run(engines: Engines, consumers: Sequence[Consumer], stop: Stop, grace: float) -> None:
    """Works until a stop is asked for, a thread for each consumer and unit of concurrency.

    Once asked, nothing new starts. What runs has ``grace`` seconds; what does not end in that
    time is given back, and its late report will be refused.
    """
    failures: list[BaseException] = []
    with worker(engines, stop) as crew:
        threads = [
            threading.Thread(
                target=_work,
                args=(crew, consumer, failures),
                name=f"vulkan {consumer.name}",
                daemon=True,
            )
            for consumer in consumers
            for _ in range(consumer.concurrency)
        ]
        for thread in threads:
            thread.start()
        stop.wait()
        _join(threads, stop, grace)
        if any(thread.is_alive() for thread in threads):
            # The handler that hangs may hold the very lock that is needed here.
            giving = threading.Thread(target=_give_back, args=(crew,), daemon=True)
            giving.start()
            giving.join(GIVING_BACK)
    if failures:
        raise failures[0]


def _work(crew: Worker, consumer: Consumer, failures: list[BaseException]) -> None:
    # A thread that ends before it is asked to must not end in silence.
    try:
        drive(protocol.work(crew, consumer), crew.engines, crew.stop)
    except BaseException as error:
        failures.append(error)
        crew.stop.ask()


def _join(threads: Sequence[threading.Thread], stop: Stop, grace: float) -> None:
    deadline = time.monotonic() + grace
    while any(thread.is_alive() for thread in threads):
        left = deadline - time.monotonic()
        if left <= 0 or stop.wait_at_once(min(left, 0.05)):
            return


def _give_back(crew: Worker) -> None:
    for held in list(crew.at_work.values()):
        try:
            transact(crew.engines, partial(held.hand_back, reports=[]))
        except (VulkanError, DBAPIError) as error:
            logger.warning("%s could not be given back: %s", held.owner, error)


@contextmanager
def signals_ask(stop: Stop) -> Iterator[None]:
    """SIGTERM and SIGINT ask for the stop while the block lasts; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(*_: object) -> None:
        # In another thread: this one may be holding the very lock that asking needs.
        threading.Thread(target=stop.ask, daemon=True).start()

    before = {each: signal.signal(each, ask) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
