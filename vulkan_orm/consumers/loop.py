"""The sync driver: steps as plain calls, workers as threads."""

import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
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
    Begin,
    Breathe,
    Calls,
    Collect,
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
def worker(engines: Engines, stop: Stop, loops: int = 1) -> Iterator[Worker]:
    """A worker of so many loops, whose leases are looked after, and who hears hints."""
    keeper = LeaseKeeper(engines)
    waking = Waking(engines, stop)
    several = engines.shared and not engines.dialect.single_writer
    try:
        yield Worker(engines, stop, keeper, waking, several and engines.room_for(2 * loops))
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
        case Invoke(call=call, calls=calls):
            return _invoke(call, calls)
        case Attend(work=work):
            return work()
        case Transact(work=work, autocommit=autocommit):
            return transact(engines, work, autocommit=autocommit)
        case Begin(work=work, landed=landed):
            return in_thread(lambda: landed(transact(engines, work)), "vulkan ahead")
        case Collect(begun=begun):
            return begun.result()
        case Rest(seconds=seconds, bell=bell):
            return stop.wait(seconds) if bell is None else wait_for(bell, seconds)


def wait_for(bell: Bell, seconds: float | None) -> None:
    """Waits in this thread until the bell rings, or for so long."""
    waiting = bell.enter()
    try:
        waiting.result(seconds)
    except TimeoutError:
        bell.leave(waiting)


def _invoke(call: Callable[..., Any], calls: Calls) -> None:
    talk = Conversation(calls)
    while (attention := invoke(call, talk)) is not None:
        try:
            talk.answer = attention.work()
        except BaseException as error:
            talk.failure = error


def invoke(call: Callable[..., Any], talk: Conversation[Any, None]) -> Attend | None:
    """Calls a sync handler until the database is needed in between, or to the end (None)."""
    while (step := talk.next()) is not None:
        if isinstance(step, Attend):
            return step
        if isinstance(step, Breathe):
            # Gives up the interpreter's lock, for which a thread may be waiting.
            time.sleep(0)
            continue
        try:
            result = call(*step)
            if result is not None:
                refuse_awaitable(result)
        except BaseException as error:
            talk.answer = error
    return None


def in_thread(call: Callable[[], T], name: str) -> "Future[T]":
    """Runs something in a thread that no end of a loop or process waits for."""
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return answer


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
    with worker(engines, stop, loops(consumers)) as crew:
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


def loops(consumers: Sequence[Consumer]) -> int:
    """How many claim at a time, each with a connection."""
    return sum(each.concurrency for each in consumers)


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
            transact(crew.engines, held.hand_back)
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
