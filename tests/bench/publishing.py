"""Publishing, beside the same inserts without us."""

from sqlalchemy import insert
from sqlalchemy.orm import Session

from tests.bench.measuring import Comparison, Way
from tests.bench.setting import Setting, orders, plain_log, stopwatch, texts

BULK = 1000
_PLAIN = "INSERT INTO bench_log (id, payload) VALUES (nextval('bench_log_id'), %s::jsonb)"
_INSERT = f"{_PLAIN} RETURNING id"
_UNNEST = """
    INSERT INTO bench_log (id, payload)
    SELECT nextval('bench_log_id'), p::jsonb FROM unnest(%s::text[]) p RETURNING id
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
                "publish_many, 1,000 a transaction",
                "messages",
                Way("vulkan publish_many", self.many),
                [
                    Way("bare psycopg: executemany", self.bare_executemany),
                    Way("bare psycopg: unnest", self.bare_unnest),
                    Way("SQLAlchemy insertmanyvalues, RETURNING", self.insertmanyvalues),
                ],
                factor=4,
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

    def many(self, count: int) -> float:
        _, topic = self._setting.topic()
        payloads = orders(count)
        with stopwatch() as took:
            for start in range(0, count, BULK):
                with Session(self._setting.engine) as session, session.begin():
                    topic.publish_many(session, payloads[start : start + BULK])
        return took[0]

    def insertmanyvalues(self, count: int) -> float:
        payloads = orders(count)
        statement = insert(plain_log).returning(plain_log.c.id, sort_by_parameter_order=True)
        with stopwatch() as took:
            for start in range(0, count, BULK):
                with Session(self._setting.engine) as session, session.begin():
                    rows = [
                        {"payload": payload.model_dump(mode="json")}
                        for payload in payloads[start : start + BULK]
                    ]
                    session.execute(statement, rows).scalars().all()
        return took[0]

    def bare_executemany(self, count: int) -> float:
        bare, payloads = self._setting.bare, texts(count)
        with stopwatch() as took:
            for start in range(0, count, BULK):
                with bare.cursor() as cursor:
                    rows = [(payload,) for payload in payloads[start : start + BULK]]
                    cursor.executemany(_PLAIN, rows)
                bare.commit()
        return took[0]

    def bare_unnest(self, count: int) -> float:
        bare, payloads = self._setting.bare, texts(count)
        with stopwatch() as took:
            for start in range(0, count, BULK):
                bare.execute(_UNNEST, [payloads[start : start + BULK]]).fetchall()
                bare.commit()
        return took[0]
