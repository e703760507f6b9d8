"""What the fault tests share: one topic, one table that handlers write to, and real processes."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from sqlalchemy import Engine, create_engine, select, text
from sqlalchemy.orm import Session

from tests.databases import Database
from vulkan_orm import RetryPolicy, Topic, Vulkan
from vulkan_orm.models import DeliveryLog, ExceptionQueue, Message, RangeClaim
from vulkan_orm.service.deliveries import Group
from vulkan_orm.service.repository import DeliveryRepository
from vulkan_orm.store import clock

TOPIC = "jobs"
GROUP = "workers"
AT_ONCE = RetryPolicy(max_retries=3, backoff_base=timedelta(0))
DEADLINE = 30.0
WRITE = text("INSERT INTO effect (n) VALUES (:n)")


class Job(BaseModel):
    """A message; ``kind`` says what its handler does."""

    n: int
    kind: str = "ok"


def wait_until(condition: Callable[[], Any], seconds: float = DEADLINE) -> None:
    """Looks at the condition again and again until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"nothing came of it in {seconds} s"
        time.sleep(0.01)


@contextmanager
def later(seconds: float) -> Iterator[None]:
    """The database's clock, some seconds on, for statements built in this block."""
    before = clock.offset()
    clock.set_offset(before + seconds)
    try:
        yield
    finally:
        clock.set_offset(before)


@dataclass
class Site:
    """A database with the effect table, seen from outside, and the workers that a test starts."""

    database: Database
    engine: Engine = field(init=False)
    topic: Topic[Job] = field(init=False)
    _vulkans: list[Vulkan] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = create_engine(self.database.sync_url)
        outside = self.vulkan()
        self.topic = outside.topic(TOPIC, Job)
        outside.upgrade()
        with self.engine.begin() as connection:
            connection.execute(text("CREATE TABLE effect (n INTEGER)"))

    def close(self) -> None:
        for vulkan in self._vulkans:
            vulkan.engines.sync_engine.dispose()
        self.engine.dispose()

    def vulkan(self, engine: Engine | None = None) -> Vulkan:
        """Another worker's Vulkan on the same database."""
        vulkan = Vulkan(engine or self.database.sync_url)
        self._vulkans.append(vulkan)
        return vulkan

    def worker(
        self, handler: Callable[..., Any], *, engine: Engine | None = None, **options: Any
    ) -> Vulkan:
        """One whose handler is registered for the group."""
        vulkan = self.vulkan(engine)
        topic = vulkan.topic(TOPIC, Job)
        topic.consumer(**{"group": GROUP, "retry": AT_ONCE, **options})(handler)
        return vulkan

    def publish(self, *jobs: Job) -> list[int]:
        with Session(self.engine) as session, session.begin():
            return self.topic.publish_many(session, jobs)

    @contextmanager
    def repository(self) -> Iterator[DeliveryRepository]:
        """A repository in a transaction of its own that may write from the beginning."""
        with Session(self.engine) as session, session.begin():
            if self.database.name == "sqlite":
                session.connection().exec_driver_sql("BEGIN IMMEDIATE")
            yield DeliveryRepository(session)

    def group(self) -> Group:
        with self.repository() as repository:
            return repository.ensure_group(TOPIC, GROUP)

    def effects(self) -> list[int]:
        """What handlers have written, in order of number: a number twice is an effect twice."""
        with self.engine.connect() as connection:
            return list(connection.scalars(text("SELECT n FROM effect ORDER BY n")).all())

    def queue(self) -> list[ExceptionQueue]:
        with Session(self.engine) as session:
            statement = select(ExceptionQueue).order_by(ExceptionQueue.message_id)
            return list(session.scalars(statement).all())

    def row(self) -> ExceptionQueue:
        (row,) = self.queue()
        return row

    def log(self) -> list[DeliveryLog]:
        with Session(self.engine) as session:
            statement = select(DeliveryLog).order_by(DeliveryLog.message_id, DeliveryLog.id)
            return list(session.scalars(statement).all())

    def outcomes(self) -> dict[int, list[str]]:
        """The outcomes of each message that has any, by its number."""
        numbers = self.numbers()
        found: dict[int, list[str]] = {}
        for row in self.log():
            found.setdefault(numbers[row.message_id], []).append(row.outcome)
        return found

    def numbers(self) -> dict[int, int]:
        """The jobs' numbers by message id."""
        with Session(self.engine) as session:
            rows = session.execute(select(Message.id, Message.payload)).all()
        return {row.id: _number(row.payload) for row in rows}

    def ranges(self) -> list[RangeClaim]:
        with Session(self.engine) as session:
            return list(session.scalars(select(RangeClaim).order_by(RangeClaim.first)).all())

    def execute(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.execute(text(statement))


def _number(payload: Any) -> int:
    document = json.loads(payload) if isinstance(payload, str) else payload
    number: int = document["n"]
    return number


class Errand(BaseModel):
    """What a worker process is to do; `tests.faults.app` reads it."""

    url: str
    #: Ours for the URL, or one that the host made: a plain one, or an async one.
    engine: str
    folder: Path
    mode: str = "drain"
    handler: str = "session"
    lease: float = 5.0
    max_retries: int = 2
    isolation: str | None = None
    grace: float = 30.0
    offset: float = 0.0
    die: str | None = None


def twice(numbers: Sequence[int]) -> list[int]:
    """What comes more than once."""
    return sorted(number for number, times in Counter(numbers).items() if times > 1)
