"""The database of a benchmark, its messages, and the tables that the floors use."""

import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.rows import TupleRow
from pydantic import BaseModel
from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Integer,
    MetaData,
    Sequence,
    Table,
    Text,
    create_engine,
    func,
    make_url,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Session

from tests.databases import Database
from vulkan_orm import Topic, Vulkan


class Order(BaseModel):
    """About 200 bytes of JSON."""

    number: int
    kind: str = "order.placed"
    customer: str = "somebody@example.org"
    note: str = "x" * 120


def orders(count: int) -> list[Order]:
    return [Order(number=number) for number in range(count)]


# What a log needs and nothing else: the floors of publishing.
metadata = MetaData()
_log_id = Sequence("bench_log_id", metadata=metadata)
plain_log = Table(
    "bench_log",
    metadata,
    # Without a server default, for only then does SQLAlchemy send many rows in one statement.
    Column("id", BigInteger, _log_id, primary_key=True),
    Column("payload", JSONB, nullable=False),
    Column("published_at", DateTime(True), nullable=False, server_default=func.clock_timestamp()),
)
# What a handler writes.
effect = Table(
    "bench_effect",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=True),
    Column("number", BigInteger, nullable=False),
    Column("note", Text, nullable=False),
)


# The same, mapped.
class _Base(DeclarativeBase):
    pass


class Effect(_Base):
    __table__ = effect


# The floors' own group and queue.
cursors = Table("bench_cursor", metadata, Column("position", BigInteger, nullable=False))
jobs = Table(
    "bench_job",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("payload", JSONB, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("running", Integer, nullable=False),
)


_FILL = """
    INSERT INTO vulkan_message (topic_id, id, payload, published_at)
    SELECT topic, nextval('vulkan_message_id_seq'), payload, clock_timestamp()
    FROM (SELECT %s::jsonb AS payload, generate_series(1, %s), %s::bigint AS topic) AS filling
"""
_WRITTEN = """
    SELECT pg_current_wal_insert_lsn() - '0/0', xact_commit FROM pg_stat_database
    WHERE datname = current_database()
"""


_OTHERS = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


class Setting:
    """One migrated database, reached by the bare driver and by SQLAlchemy, sync and async."""

    def __init__(self, database: Database, *, depth: int = 100_000) -> None:
        self.url = database.sync_url
        self.depth = depth
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.dsn = make_url(database.sync_url).set(drivername="postgresql")
        self.engine = create_engine(database.sync_url)
        self.async_engine = create_async_engine(database.async_url)
        self.loop = asyncio.Runner()
        self.bare = psycopg.connect(self.conninfo)
        self._names = itertools.count()
        self._filled: dict[int, str] = {}
        self._deep: dict[int, str] = {}
        Vulkan(self.engine).upgrade()
        metadata.create_all(self.engine)

    @property
    def conninfo(self) -> str:
        return self.dsn.render_as_string(hide_password=False)

    def close(self) -> None:
        self.bare.close()
        self.engine.dispose()
        self.loop.run(self.async_engine.dispose())
        self.loop.close()
        self._folder.cleanup()

    def name(self) -> str:
        """A name for a topic or a group that nobody has had."""
        return f"bench-{next(self._names)}"

    def topic(self, name: str | None = None, *, engine: Any = None) -> tuple[Vulkan, Topic[Order]]:
        """A topic, new unless named, in an application that has nothing else."""
        vulkan = Vulkan(engine or self.engine)
        return vulkan, vulkan.topic(name or self.name(), Order)

    def filled(self, count: int) -> str:
        """The name of a topic with so many messages, the same for all who ask."""
        if count not in self._filled:
            _, topic = self.topic()
            with Session(self.engine) as session, session.begin():
                topic.publish_many(session, orders(count))
            self._filled[count] = topic.name
        self.empty()
        return self._filled[count]

    def deep(self, count: int) -> str:
        """The name of a topic with so many messages, put there by the server alone."""
        if count not in self._deep:
            _, topic = self.topic()
            with Session(self.engine) as session, session.begin():
                topic.publish(session, Order(number=0))
            payload = Order(number=1).model_dump_json()
            self.bare.execute(_FILL, [payload, count - 1, self.topic_id(topic.name)])
            self.bare.commit()
            self._deep[count] = topic.name
        self.empty()
        return self._deep[count]

    def timed_async(self, work: Callable[[psycopg.AsyncConnection], Awaitable[None]]) -> float:
        """The seconds that work takes on a bare async connection."""

        async def run() -> float:
            async with await psycopg.AsyncConnection.connect(self.conninfo) as connection:
                with stopwatch() as took:
                    await work(connection)
            return took[0]

        return self.loop.run(run())

    def with_options(self, options: dict[str, str]) -> str:
        """The URL of the database for connections with such settings."""
        url = make_url(self.url).update_query_dict(options)
        return url.render_as_string(hide_password=False)

    def checkpoint(self) -> None:
        self.bare.execute("CHECKPOINT")
        self.bare.commit()

    def written(self) -> tuple[int, int]:
        """How much WAL there is, and how many transactions were committed.

        A connection's transactions are counted for certain when it is gone, so all are closed.
        """
        self.bare.close()
        self.engine.dispose()
        self.loop.run(self.async_engine.dispose())
        self.bare = psycopg.connect(self.conninfo)
        # To look is no commit: it would be counted.
        while self._looked(_OTHERS) != (0,):
            self.bare.rollback()
        self.bare.rollback()
        wal, commits = self._looked(_WRITTEN)
        self.bare.rollback()
        return int(wal), int(commits)

    def _looked(self, query: LiteralString) -> TupleRow:
        found = self.bare.execute(query).fetchone()
        assert found is not None
        return found

    def topic_id(self, name: str) -> int:
        found = self.bare.execute("SELECT id FROM vulkan_topic WHERE name = %s", [name]).fetchone()
        assert found is not None
        self.bare.commit()
        return int(found[0])

    def empty(self) -> None:
        """Takes away what runs before have left, so that each begins alike."""
        self.bare.execute(
            "TRUNCATE bench_log, bench_effect, bench_cursor, bench_job, exception_queue, "
            "delivery_log, vulkan_range_claim"
        )
        self.bare.execute("INSERT INTO bench_cursor VALUES (0)")
        self.bare.commit()
        self.bare.autocommit = True
        self.bare.execute("VACUUM ANALYZE vulkan_message, vulkan_consumer_group")
        self.bare.autocommit = False


@cache
def texts(count: int) -> list[str]:
    """The messages as JSON text, for ways that have no model to write."""
    return [json.dumps(order.model_dump(mode="json")) for order in orders(count)]


@contextmanager
def stopwatch() -> Iterator[list[float]]:
    """A list that holds the seconds of the block afterwards."""
    seconds: list[float] = []
    began = time.perf_counter()
    yield seconds
    seconds.append(time.perf_counter() - began)


def expect(found: object, wanted: object) -> None:
    """A figure for work that was not done would be worthless."""
    if found != wanted:
        raise RuntimeError(f"The benchmark did {found}, not {wanted}.")
