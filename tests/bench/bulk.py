"""Publishing many in one transaction, beside the driver's ways to write many rows."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeVar

import psycopg
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from tests.bench.measuring import Comparison, Way
from tests.bench.setting import Setting, orders, plain_log, stopwatch, texts

T = TypeVar("T")
SOME = 1_000
#: So many that COPY pays.
MANY = 20_000
_PLAIN = "INSERT INTO bench_log (id, payload) VALUES (nextval('bench_log_id'), %s::jsonb)"
_UNNEST = """
    INSERT INTO bench_log (id, payload)
    SELECT nextval('bench_log_id'), p::jsonb FROM unnest(%s::text[]) p RETURNING id
"""
_DRAW = "SELECT nextval('bench_log_id') FROM generate_series(1, %s)"
_COPY = "COPY bench_log (id, payload) FROM STDIN"


class Bulk:
    """The ways; each begins with the payloads at hand as the models or texts they are."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def comparisons(self) -> list[Comparison]:
        return [
            each
            for size, factor in ((SOME, 4), (MANY, 16))
            for each in (self._sync(size, factor), self._async(size, factor))
        ]

    def _sync(self, size: int, factor: int) -> Comparison:
        return Comparison(
            f"publish_many, {size:,} a transaction",
            "messages",
            Way("vulkan publish_many", partial(self.ours, size)),
            [
                Way("SQLAlchemy insertmanyvalues, RETURNING", partial(self.insertmany, size)),
                Way("bare psycopg: executemany", partial(self.executemany, size)),
                Way("bare psycopg: unnest", partial(self.unnest, size)),
                Way("bare psycopg: ids drawn, COPY", partial(self.copy, size)),
            ],
            factor,
        )

    def _async(self, size: int, factor: int) -> Comparison:
        return Comparison(
            f"publish_many, {size:,} a transaction, async",
            "messages",
            Way("vulkan publish_many, AsyncSession", partial(self.ours_async, size)),
            [
                Way("bare psycopg async: unnest", partial(self.unnest_async, size)),
                Way("bare psycopg async: ids drawn, COPY", partial(self.copy_async, size)),
            ],
            factor,
        )

    def ours(self, size: int, count: int) -> float:
        _, topic = self._setting.topic()
        payloads = orders(count)
        with stopwatch() as took:
            for part in _parts(payloads, size):
                with Session(self._setting.engine) as session, session.begin():
                    topic.publish_many(session, part)
        return took[0]

    def ours_async(self, size: int, count: int) -> float:
        engine = self._setting.async_engine
        _, topic = self._setting.topic(engine=engine)
        payloads = orders(count)

        async def publish() -> float:
            with stopwatch() as took:
                for part in _parts(payloads, size):
                    async with AsyncSession(engine) as session, session.begin():
                        await topic.publish_many(session, part)
            return took[0]

        return self._setting.loop.run(publish())

    def insertmany(self, size: int, count: int) -> float:
        payloads = orders(count)
        statement = insert(plain_log).returning(plain_log.c.id, sort_by_parameter_order=True)
        with stopwatch() as took:
            for part in _parts(payloads, size):
                with Session(self._setting.engine) as session, session.begin():
                    rows = [{"payload": payload.model_dump(mode="json")} for payload in part]
                    session.execute(statement, rows).scalars().all()
        return took[0]

    def executemany(self, size: int, count: int) -> float:
        bare, payloads = self._setting.bare, texts(count)
        with stopwatch() as took:
            for part in _parts(payloads, size):
                with bare.cursor() as cursor:
                    cursor.executemany(_PLAIN, [(payload,) for payload in part])
                bare.commit()
        return took[0]

    def unnest(self, size: int, count: int) -> float:
        bare, payloads = self._setting.bare, texts(count)
        with stopwatch() as took:
            for part in _parts(payloads, size):
                bare.execute(_UNNEST, [part]).fetchall()
                bare.commit()
        return took[0]

    def copy(self, size: int, count: int) -> float:
        bare, payloads = self._setting.bare, texts(count)
        with stopwatch() as took:
            for part in _parts(payloads, size):
                ids = bare.execute(_DRAW, [len(part)]).fetchall()
                with bare.cursor() as cursor, cursor.copy(_COPY) as sink:
                    for (number,), payload in zip(ids, part, strict=True):
                        sink.write_row((number, payload))
                bare.commit()
        return took[0]

    def unnest_async(self, size: int, count: int) -> float:
        async def publish(bare: psycopg.AsyncConnection) -> None:
            for part in _parts(texts(count), size):
                await (await bare.execute(_UNNEST, [part])).fetchall()
                await bare.commit()

        return self._setting.timed_async(publish)

    def copy_async(self, size: int, count: int) -> float:
        async def publish(bare: psycopg.AsyncConnection) -> None:
            for part in _parts(texts(count), size):
                ids = await (await bare.execute(_DRAW, [len(part)])).fetchall()
                async with bare.cursor() as cursor, cursor.copy(_COPY) as sink:
                    for (number,), payload in zip(ids, part, strict=True):
                        await sink.write_row((number, payload))
                await bare.commit()

        return self._setting.timed_async(publish)


def _parts(items: Sequence[T], size: int) -> Iterator[list[T]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
