"""First deliveries, beside a hand-written cursor on the same log."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg
from sqlalchemy import insert
from sqlalchemy.orm import Session

from tests.bench.measuring import Comparison, Way
from tests.bench.setting import Effect, Order, Setting, effect, expect, stopwatch
from vulkan_orm import Outcome

_POSITION = "SELECT position FROM bench_cursor FOR UPDATE"
_READ = """
    SELECT id, key, payload::text, headers, published_at FROM vulkan_message
    WHERE topic_id = %s AND id > %s ORDER BY id LIMIT 2000
"""
_ADVANCE = "UPDATE bench_cursor SET position = %s"
_WRITE = "INSERT INTO bench_effect (number, note) VALUES (%s, %s)"


class Delivering:
    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def comparisons(self) -> list[Comparison]:
        return [
            Comparison(
                "first delivery, no session",
                "messages",
                Way("vulkan drain", self.without_session),
                [Way("bare psycopg: cursor of 2,000, validate_json", self.bare_cursor)],
                factor=20,
                least=0.6,
            ),
            Comparison(
                "first delivery, no session, async",
                "messages",
                Way("vulkan adrain", self.asynchronous),
                [Way("bare psycopg async: cursor of 2,000, validate_json", self.bare_async)],
                factor=20,
                least=0.6,
            ),
            Comparison(
                "first delivery, one row written (Core insert)",
                "messages",
                Way("vulkan drain, session", self.with_session),
                [
                    Way("bare psycopg: a transaction a message", self.bare_writes),
                    Way("SQLAlchemy Session: a transaction a message", self.session_writes),
                ],
                least=2.0,
            ),
            Comparison(
                "first delivery, one row written (ORM add)",
                "messages",
                Way("vulkan drain, session, ORM", self.with_orm),
                [Way("SQLAlchemy Session: ORM add, a transaction a message", self.orm_writes)],
                least=2.0,
            ),
            Comparison(
                "batch handler, one row written a message",
                "messages",
                Way("vulkan drain, batch", self.in_batches),
                [Way("SQLAlchemy Session: a transaction a message", self.session_writes)],
                least=10.0,
            ),
        ]

    def without_session(self, count: int) -> float:
        def handle(order: Order) -> None:
            pass

        return self._drain(count, handle)

    def with_session(self, count: int) -> float:
        def handle(order: Order, session: Session) -> None:
            session.execute(insert(effect).values(number=order.number, note=order.note))

        seconds = self._drain(count, handle)
        self._expect_written(count)
        return seconds

    def with_orm(self, count: int) -> float:
        def handle(order: Order, session: Session) -> None:
            session.add(Effect(number=order.number, note=order.note))

        seconds = self._drain(count, handle)
        self._expect_written(count)
        return seconds

    def in_batches(self, count: int) -> float:
        def handle(orders: list[Order], session: Session) -> None:
            rows = [{"number": each.number, "note": each.note} for each in orders]
            session.execute(insert(effect), rows)

        seconds = self._drain(count, handle)
        self._expect_written(count)
        return seconds

    def _drain(self, count: int, handler: Callable[..., None]) -> float:
        vulkan, topic = self._setting.topic(self._setting.filled(count))
        topic.consumer(group=self._setting.name())(handler)
        with stopwatch() as took:
            tally = vulkan.drain()
        expect(tally, {Outcome.SUCCEEDED: count})
        return took[0]

    def asynchronous(self, count: int) -> float:
        setting = self._setting
        vulkan, topic = setting.topic(setting.filled(count), engine=setting.async_engine)

        @topic.consumer(group=setting.name())
        async def handle(order: Order) -> None:
            pass

        async def drain() -> float:
            with stopwatch() as took:
                tally = await vulkan.adrain()
            expect(tally, {Outcome.SUCCEEDED: count})
            return took[0]

        return setting.loop.run(drain())

    def bare_cursor(self, count: int) -> float:
        topic_id = self._setting.topic_id(self._setting.filled(count))
        with stopwatch() as took:
            done = sum(len(orders) for orders in self._read(topic_id))
        expect(done, count)
        return took[0]

    def _read(self, topic_id: int) -> Iterator[list[Order]]:
        """Reads the log to its end, a transaction a batch."""
        bare = self._setting.bare
        while True:
            position = bare.execute(_POSITION).fetchone()
            assert position is not None
            rows = bare.execute(_READ, (topic_id, position[0])).fetchall()
            if not rows:
                bare.rollback()
                return
            decoded = _decoded(rows)
            bare.execute(_ADVANCE, (rows[-1][0],))
            bare.commit()
            yield decoded

    def bare_async(self, count: int) -> float:
        topic_id = self._setting.topic_id(self._setting.filled(count))

        async def read(connection: psycopg.AsyncConnection) -> None:
            expect(await _read_async(connection, topic_id, _nothing), count)

        return self._setting.timed_async(read)

    def bare_writes(self, count: int) -> float:
        bare = self._setting.bare

        def write(order: Order) -> None:
            bare.execute(_WRITE, (order.number, order.note))
            bare.commit()

        return self._each(count, write)

    def session_writes(self, count: int) -> float:
        engine = self._setting.engine

        def write(order: Order) -> None:
            with Session(engine) as session, session.begin():
                session.execute(insert(effect).values(number=order.number, note=order.note))

        return self._each(count, write)

    def orm_writes(self, count: int) -> float:
        engine = self._setting.engine

        def write(order: Order) -> None:
            with Session(engine) as session, session.begin():
                session.add(Effect(number=order.number, note=order.note))

        return self._each(count, write)

    def _each(self, count: int, write: Callable[[Order], None]) -> float:
        topic_id = self._setting.topic_id(self._setting.filled(count))
        with stopwatch() as took:
            for batch in self._read(topic_id):
                for order in batch:
                    write(order)
        self._expect_written(count)
        return took[0]

    def _expect_written(self, count: int) -> None:
        found = self._setting.bare.execute("SELECT count(*) FROM bench_effect").fetchone()
        self._setting.bare.rollback()
        expect(found, (count,))


async def _nothing(order: Order) -> None:
    pass


async def _read_async(
    connection: psycopg.AsyncConnection,
    topic_id: int,
    handle: Callable[[Order], Awaitable[None]],
) -> int:
    done = 0
    while True:
        position = await (await connection.execute(_POSITION)).fetchone()
        assert position is not None
        rows = await (await connection.execute(_READ, (topic_id, position[0]))).fetchall()
        if not rows:
            return done
        for order in _decoded(rows):
            await handle(order)
        done += len(rows)
        await connection.execute(_ADVANCE, (rows[-1][0],))
        await connection.commit()


def _decoded(rows: list[Any]) -> list[Order]:
    return [Order.model_validate_json(row[2]) for row in rows]
