"""The async driver: steps as awaits, workers as tasks of one loop."""

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession

from vulkan_orm.consumers import worker as protocol
from vulkan_orm.consumers.bell import Bell
from vulkan_orm.consumers.context import Worker
from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.consumers.loop import (
    SIGNALS,
    TRIES,
    contention_pause,
    in_thread,
    invoke,
    loops,
    worker,
)
from vulkan_orm.consumers.shutdown import RunCancelled, Stop
from vulkan_orm.consumers.steps import (
    Attend,
    Begin,
    Breathe,
    Collect,
    Conversation,
    Invoke,
    Rest,
    Step,
    Steps,
    Transact,
)
from vulkan_orm.diagnostics import VulkanError
from vulkan_orm.service.engines import Engines
from vulkan_orm.service.repository import DeliveryRepository

logger = logging.getLogger("vulkan_orm.worker")

T = TypeVar("T")
# What a cancelled handler gets to tidy up, before its delivery is given back without it.
TIDYING = 1.5


class AsyncDriver:
    """Runs protocols as tasks; a stop cancels their handlers, never their bookkeeping."""

    def __init__(self, engines: Engines, stop: Stop) -> None:
        self._engines = engines
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()
        self._at_once = asyncio.Event()
        self._running: set[asyncio.Task[Any]] = set()
        self._cutting = False
        # Only its bridge between sync and async is used; it never has a connection.
        self._bridge = AsyncSession()
        stop.on_ask(self._pass_on)

    def _pass_on(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notice)

    def _notice(self) -> None:
        self._asked.set()
        if self._stop.at_once:
            self._at_once.set()

    async def drive(self, steps: Steps[T]) -> T:
        """Runs a protocol to its end, in the current task."""
        talk = Conversation(steps)
        while (step := talk.next()) is not None:
            try:
                talk.answer = await self._perform(step)
            except BaseException as error:
                talk.failure = error
        return talk.result

    async def _perform(self, step: Step) -> Any:
        match step:
            case Invoke():
                return await self._invoke(step)
            case Attend():
                return await self._attend(step)
            case Transact():
                return await self.transact(step.work, autocommit=step.autocommit)
            case Begin(work=work, landed=landed):
                return asyncio.create_task(self._ahead(work, landed))
            case Collect(begun=begun):
                return await begun
            case Rest(seconds=seconds, bell=bell):
                if bell is not None:
                    return await _wait_for(bell, seconds)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._asked.wait(), seconds)
                return None

    async def _attend(self, step: Attend) -> Any:
        return await self._bridge.run_sync(lambda _: step.work())

    async def _ahead(
        self, work: Callable[[DeliveryRepository], Any], landed: Callable[[Any], None]
    ) -> None:
        landed(await self.transact(work))

    async def _invoke(self, step: Invoke) -> None:
        talk = Conversation(step.calls)
        while True:
            if step.is_async:
                attention = await self._in_task(step.call, talk)
            else:
                context = contextvars.copy_context()
                run = partial(context.run, invoke, step.call, talk)
                attention = await asyncio.wrap_future(in_thread(run, "vulkan handler"))
            if attention is None:
                return
            try:
                talk.answer = await self._attend(attention)
            except BaseException as error:
                talk.failure = error

    async def _in_task(
        self, call: Callable[..., Awaitable[Any]], talk: Conversation[Any, None]
    ) -> Attend | None:
        """Calls an async handler in tasks of its own: what it does to its task ends with it."""
        while True:
            spell = _Spell(self, call, talk)
            task = asyncio.create_task(spell.run())
            self._running.add(task)
            try:
                await asyncio.wait({task})
            finally:
                self._running.discard(task)
            if not task.cancelled():
                task.result()
            if spell.attention or spell.over:
                return spell.attention

    def answer(self, error: BaseException) -> BaseException:
        """What a handler raised; a cancellation nobody here asked for is a failure like others."""
        cut = self._cutting and isinstance(error, asyncio.CancelledError)
        return RunCancelled() if cut else error

    async def transact(
        self, work: Callable[[DeliveryRepository], T], *, autocommit: bool = False
    ) -> T:
        """Runs work in a transaction of its own; again where the database says contention."""
        for attempt in range(TRIES):
            try:
                async with self._engines.async_session(autocommit=autocommit) as session:
                    return await session.run_sync(
                        self._engines.transact,
                        lambda s: work(DeliveryRepository(s)),
                    )
            except DBAPIError as error:
                if attempt == TRIES - 1 or not self._engines.dialect.is_contention(error):
                    raise
                await asyncio.sleep(contention_pause(attempt))
        raise AssertionError("unreachable")

    async def stopped(self) -> None:
        """Waits until a stop is asked for."""
        await self._asked.wait()

    async def grace(self, tasks: Sequence[asyncio.Task[Any]], seconds: float) -> None:
        """Waits for tasks to end, for so long, or until the stop is asked for again."""
        at_once = asyncio.create_task(self._at_once.wait())
        every = asyncio.create_task(asyncio.wait(tasks))
        await asyncio.wait({every, at_once}, timeout=seconds, return_when="FIRST_COMPLETED")
        at_once.cancel()
        every.cancel()

    async def cut(self, crew: Worker, tasks: Sequence[asyncio.Task[Any]]) -> None:
        """Cancels the handlers that still run; each is recorded as interrupted."""
        self._cutting = True
        for task in list(self._running):
            task.cancel()
        _, late = await asyncio.wait(tasks, timeout=TIDYING)
        if late:
            await self._give_back(crew)

    async def _give_back(self, crew: Worker) -> None:
        for held in list(crew.at_work.values()):
            try:
                await self.transact(held.hand_back)
            except (VulkanError, DBAPIError) as error:
                logger.warning("%s could not be given back: %s", held.owner, error)


async def _wait_for(bell: Bell, seconds: float | None) -> None:
    waiting = bell.enter()
    try:
        await asyncio.wait({asyncio.wrap_future(waiting)}, timeout=seconds)
    finally:
        bell.leave(waiting)


class _Spell:
    """The calls of a handler that one task makes."""

    def __init__(
        self,
        driver: AsyncDriver,
        call: Callable[..., Awaitable[Any]],
        talk: Conversation[Any, None],
    ) -> None:
        self.attention: Attend | None = None
        self.over = False
        self._driver = driver
        self._call = call
        self._talk = talk

    async def run(self) -> None:
        """Calls until the database is needed in between, the task was cancelled, or to the end."""
        task = asyncio.current_task()
        assert task is not None
        while (step := self._talk.next()) is not None:
            if isinstance(step, Attend):
                self.attention = step
                return
            if isinstance(step, Breathe):
                await asyncio.sleep(0)
                continue
            try:
                await self._call(*step)
            except BaseException as error:
                self._talk.answer = self._driver.answer(error)
            if task.cancelling():
                return
        self.over = True


async def run(engines: Engines, consumers: Sequence[Consumer], stop: Stop, grace: float) -> None:
    """Works until a stop is asked for, a task for each consumer and unit of concurrency.

    Once asked, nothing new starts. What runs has ``grace`` seconds, is then cancelled, recorded
    as interrupted and given back. Being cancelled itself is a stop without grace.
    """
    driver = AsyncDriver(engines, stop)
    with worker(engines, stop, loops(consumers)) as crew:
        tasks = [
            asyncio.create_task(driver.drive(protocol.work(crew, consumer)))
            for consumer in consumers
            for _ in range(consumer.concurrency)
        ]
        for task in tasks:
            # One that ends before it is asked to must not end in silence.
            task.add_done_callback(lambda _: None if stop.asked else stop.ask())
        try:
            await driver.stopped()
            await driver.grace(tasks, grace)
        except asyncio.CancelledError:
            stop.ask()
            raise
        finally:
            await driver.cut(crew, tasks)
        for task in tasks:
            if task.done():
                task.result()


async def finish(engines: Engines, steps_of: Callable[[Worker], Steps[T]], stop: Stop) -> T:
    """Runs one protocol to its end. Being cancelled is a stop without grace."""
    driver = AsyncDriver(engines, stop)
    with worker(engines, stop) as crew:
        task = asyncio.create_task(driver.drive(steps_of(crew)))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            stop.ask()
            await driver.cut(crew, [task])
            raise
        return task.result()


@contextmanager
def signals_ask(stop: Stop) -> Iterator[None]:
    """SIGTERM and SIGINT ask for the stop while the block lasts; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for each in SIGNALS:
        loop.add_signal_handler(each, stop.ask)
    try:
        yield
    finally:
        for each in SIGNALS:
            loop.remove_signal_handler(each)
