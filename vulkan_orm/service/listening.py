"""Hearing the hints of publishers, on a connection of its own."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from vulkan_orm.core.pace import next_pause
from vulkan_orm.service.database import run
from vulkan_orm.service.engines import Engines

logger = logging.getLogger("vulkan_orm.listening")

CLOSING = 0.5
# What a hint of our own may take to come back, before it is taken for lost on the way.
ECHO = 5.0


class Listener:
    """Listens on one channel, from a thread that no handler can hold up.

    It connects again for as long as it takes when the connection is lost, such as by a restart
    of the server.

    :param heard: is called with each hint, and with an empty one whenever hints begin to arrive:
        those before it were missed.
    """

    def __init__(self, engines: Engines, channel: str, heard: Callable[[str], None]) -> None:
        self._engines = engines
        self._channel = channel
        self._heard = heard
        self._listening = threading.Event()
        self._closing = asyncio.Event()
        # Not the default of every platform, but the one that can watch a driver's socket.
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._run, name="vulkan-listener", daemon=True)
        self._thread.start()

    @property
    def listening(self) -> bool:
        """Whether a hint that is given now would be heard."""
        return self._listening.is_set()

    def close(self) -> None:
        with suppress(RuntimeError):  # its loop has ended
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(CLOSING)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._keep_listening())
        finally:
            self._loop.close()

    async def _keep_listening(self) -> None:
        pause = 0.0
        while not self._closing.is_set():
            try:
                await self._listen()
            except Exception as error:
                logger.warning("No hints are heard, connecting again: %s", error)
            heard_any = self.listening
            self._listening.clear()
            pause = next_pause(0.0 if heard_any else pause, worked=False)
            await self._closes_within(pause)

    async def _closes_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)
        return self._closing.is_set()

    async def _listen(self) -> None:
        """Listens until it is closed, or raises what ended the connection."""
        lost: asyncio.Future[Exception] = self._loop.create_future()
        engine = self._engines.listening_engine()
        connected = _connected_async if engine.dialect.is_async else _connected
        async with connected(engine, self._channel, self._notified, lost):
            # One of our own, by another connection as publishers give theirs: hints count on
            # being heard only once it is.
            self._engines.apart(self._send)
            echo = self._loop.call_later(ECHO, self._miss)
            closing = asyncio.ensure_future(self._closing.wait())
            ends: set[asyncio.Future[Any]] = {closing, lost}
            await asyncio.wait(ends, return_when="FIRST_COMPLETED")
            closing.cancel()
            echo.cancel()
            if lost.done():
                raise lost.result()

    def _send(self, session: Session) -> None:
        run(session, self._engines.dialect.hint(self._channel))

    def _miss(self) -> None:
        if not self.listening:
            logger.warning(
                "A hint was sent and not heard: is a pooler in transaction mode in between? "
                "Give Vulkan(listen_url=...) a direct connection; until then workers poll."
            )

    def _notified(self, payload: str) -> None:
        if not payload:
            self._listening.set()
        self._heard(payload)


@asynccontextmanager
async def _connected(
    engine: Engine, channel: str, notified: Callable[[str], None], lost: asyncio.Future[Exception]
) -> AsyncIterator[None]:
    """A connection of a sync driver that listens while the block lasts."""
    loop = asyncio.get_running_loop()
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    driver: Any = connection.connection.driver_connection
    socket = driver.fileno()

    def read() -> None:
        try:
            for each in driver.notifies(timeout=0):
                notified(each.payload)
        except Exception as error:
            loop.remove_reader(socket)
            _end(lost, error)

    try:
        connection.exec_driver_sql(_listen(channel))
        loop.add_reader(socket, read)
        yield
    finally:
        loop.remove_reader(socket)
        connection.invalidate()
        engine.dispose()


@asynccontextmanager
async def _connected_async(
    engine: Engine, channel: str, notified: Callable[[str], None], lost: asyncio.Future[Exception]
) -> AsyncIterator[None]:
    """The same of an async driver."""
    from sqlalchemy.ext.asyncio import AsyncEngine

    connection = await AsyncEngine(engine).connect()
    try:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        driver: Any = (await connection.get_raw_connection()).driver_connection
        if hasattr(driver, "add_listener"):
            driver.add_termination_listener(lambda _: _end(lost, ConnectionError("it was lost")))
            await driver.add_listener(channel, lambda *notification: notified(notification[-1]))
            yield
        else:
            await connection.exec_driver_sql(_listen(channel))
            reading = asyncio.ensure_future(_read(driver, notified, lost))
            yield
            reading.cancel()
    finally:
        await connection.invalidate()
        engine.dispose()


async def _read(
    driver: Any, notified: Callable[[str], None], lost: asyncio.Future[Exception]
) -> None:
    try:
        async for each in driver.notifies():
            notified(each.payload)
    except Exception as error:
        _end(lost, error)


def _listen(channel: str) -> str:
    return f'LISTEN "{channel}"'


def _end(lost: asyncio.Future[Exception], error: Exception) -> None:
    if not lost.done():
        lost.set_result(error)
