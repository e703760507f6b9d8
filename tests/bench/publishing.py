"""Publishing one by one, beside the same inserts without us."""

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from tests.bench.measuring import Comparison, Way
from tests.bench.setting import Setting, orders, plain_log, stopwatch, texts

_INSERT = """
    INSERT INTO bench_log (id, payload) VALUES (nextval('bench_log_id'), %s::jsonb) RETURNING id
"""


class Publishing:
    """The ways; each begins with the payloads at hand as the models or texts they are."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def comparisons(self) -> list[Comparison]:
        return [
            Comparison(
                "publish, one a transaction",
                "messages",
                Way("vulkan publish", self.one_by_one),
                [
                    Way("bare psycopg: INSERT; COMMIT", self.bare_one_by_one),
                    Way("the same plain insert, same Session", self.session_one_by_one),
                ],
                least=0.77,
            ),
            Comparison(
                "publish, one a transaction, async",
                "messages",
                Way("vulkan publish, AsyncSession", self.one_by_one_async),
                [Way("the same plain insert, same AsyncSession", self.session_async)],
                least=0.77,
            ),
        ]

    def one_by_one(self, count: int) -> float:
        _, topic = self._setting.topic()
        payloads = orders(count)
        with stopwatch() as took:
            for payload in payloads:
                with Session(self._setting.engine) as session, session.begin():
                    topic.publish(session, payload)
        return took[0]

    def session_one_by_one(self, count: int) -> float:
        payloads = orders(count)
        statement = insert(plain_log).returning(plain_log.c.id)
        with stopwatch() as took:
            for payload in payloads:
                with Session(self._setting.engine) as session, session.begin():
                    row = {"payload": payload.model_dump(mode="json")}
                    session.execute(statement, row).scalar_one()
        return took[0]

    def bare_one_by_one(self, count: int) -> float:
        bare, payloads = self._setting.bare, texts(count)
        with stopwatch() as took:
            for payload in payloads:
                bare.execute(_INSERT, [payload]).fetchone()
                bare.commit()
        return took[0]

    def one_by_one_async(self, count: int) -> float:
        engine = self._setting.async_engine
        _, topic = self._setting.topic(engine=engine)
        payloads = orders(count)

        async def publish() -> float:
            with stopwatch() as took:
                for payload in payloads:
                    async with AsyncSession(engine) as session, session.begin():
                        await topic.publish(session, payload)
            return took[0]

        return self._setting.loop.run(publish())

    def session_async(self, count: int) -> float:
        engine = self._setting.async_engine
        payloads = orders(count)
        statement = insert(plain_log).returning(plain_log.c.id)

        async def publish() -> float:
            with stopwatch() as took:
                for payload in payloads:
                    async with AsyncSession(engine) as session, session.begin():
                        row = {"payload": payload.model_dump(mode="json")}
                        (await session.execute(statement, row)).scalar_one()
            return took[0]

        return self._setting.loop.run(publish())
