"""No committed message is ever skipped, although ids are drawn before their transactions commit.

PostgreSQL alone: where there is one writer at a time, ids commit in order.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, func, select, text
from sqlalchemy.orm import Session

from tests.faults.support import Job, Site, twice, wait_until
from vulkan_orm import DatabaseError, Vulkan
from vulkan_orm.models import ConsumerGroup, Message, Topic
from vulkan_orm.service import publisher
from vulkan_orm.service import watermark as watermarks
from vulkan_orm.service.deliveries import ClaimedRange, Deliveries, Group
from vulkan_orm.service.engines import Engines
from vulkan_orm.service.repository import DeliveryRepository
from vulkan_orm.service.watermark import Watermark
from vulkan_orm.store import fencing, publishing
from vulkan_orm.store.dialects.base import Rows
from vulkan_orm.store.dialects.postgresql import PostgreSQL


@pytest.fixture
def site(postgresql_site: Site) -> Site:
    return postgresql_site


def newest(self: Watermark, session: Session, topic_id: int, position: int) -> int:
    """A reader without a fence: it may read whatever it sees."""
    return session.scalar(select(func.max(Message.id))) or 0


def into(seen: list[int]) -> Callable[[Job], None]:
    def handle(job: Job) -> None:
        seen.append(job.n)

    return handle


class Publisher:
    """A transaction that a test opens, publishes in, and ends when it likes."""

    def __init__(self, site: Site) -> None:
        self._topic = site.topic
        self.session = Session(site.engine)

    def publish(self, n: int) -> int:
        return self._topic.publish(self.session, Job(n=n))

    def commit(self) -> None:
        self.session.commit()
        self.session.close()

    def rollback(self) -> None:
        self.session.rollback()
        self.session.close()


@pytest.fixture
def publishers(site: Site) -> Iterator["list[Publisher]"]:
    made = [Publisher(site) for _ in range(3)]
    yield made
    for each in made:
        each.session.close()


@dataclass
class Reader:
    """One group's claims, a step at a time, on a worker's sessions."""

    engines: Engines
    group: Group
    watermark: Watermark = field(default_factory=Watermark)

    @classmethod
    def on(cls, site: Site, vulkan: Vulkan | None = None) -> "Reader":
        return cls((vulkan or site.vulkan()).engines, site.group())

    def claim(self) -> list[int]:
        """The ids of the next range."""
        with self.engines.session() as session:
            return [
                each.message_id for each in self.engines.transact(session, self._claim).deliveries
            ]

    def _claim(self, session: Session) -> ClaimedRange:
        owner = uuid4().hex
        claimed = DeliveryRepository(session).claim_range(
            self.group, owner, limit=100, lease=60, watermark=self.watermark
        )
        return claimed or ClaimedRange(self.group, 0, owner, 0, 0, 0, False, Deliveries.of([]))


def test_a_message_committed_after_its_successor_is_delivered(
    site: Site, publishers: list[Publisher]
) -> None:
    """R33, C01: T1 publishes and stays open, T2 publishes and commits, the group runs."""
    seen: list[int] = []
    worker = site.worker(into(seen))
    first, second, _ = publishers
    first.publish(1)
    second.publish(2)
    second.commit()
    worker.drain()
    assert seen == []
    first.commit()
    worker.drain()
    assert seen == [1, 2]


def test_without_the_fence_that_message_is_skipped_for_ever(
    site: Site, publishers: list[Publisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C01: the same with a reader that trusts the highest id it sees."""
    monkeypatch.setattr(Watermark, "advance", newest)
    seen: list[int] = []
    worker = site.worker(into(seen))
    first, second, _ = publishers
    first.publish(1)
    second.publish(2)
    second.commit()
    worker.drain()
    first.commit()
    worker.drain()
    assert seen == [2]


def test_under_concurrent_publishers_the_fence_loses_nothing(site: Site) -> None:
    """R33, C01, G1, G2: pauses and rollbacks at random while a consumer runs."""
    seen, committed = _run_concurrently(site)
    assert sorted(seen) == sorted(committed)


def test_under_concurrent_publishers_messages_are_lost_without_the_fence(
    site: Site, publishers: list[Publisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C01: the run of the test above can tell a fence from none; one loss is made certain."""
    monkeypatch.setattr(Watermark, "advance", newest)
    seen, committed = _run_concurrently(site, overtaken=publishers[0])
    assert twice(seen) == []
    assert set(seen) < set(committed)


def _run_concurrently(
    site: Site, publishers: int = 6, each: int = 25, overtaken: Publisher | None = None
) -> tuple[list[int], list[int]]:
    """What a worker saw and what was committed, while publishers pause and roll back at random.

    :param overtaken: publishes first and commits when others, who came later, have been seen.
    """
    seen: list[int] = []
    committed: list[int] = []
    worker = site.worker(into(seen))
    last = publishers * each + 1
    if overtaken is not None:
        overtaken.publish(last + 1)
        committed.append(last + 1)

    def publish(number: int) -> None:
        dice = random.Random(number)
        for place in range(each):
            n = number * each + place
            with Session(site.engine) as session:
                site.topic.publish(session, Job(n=n))
                session.execute(select(func.pg_sleep(dice.uniform(0, 0.03))))
                if dice.random() < 0.2:
                    session.rollback()
                else:
                    session.commit()
                    committed.append(n)

    running = threading.Thread(target=worker.run)
    threads = [threading.Thread(target=publish, args=(number,)) for number in range(publishers)]
    for thread in [running, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    if overtaken is not None:
        wait_until(lambda: seen)
        overtaken.commit()
    # Whatever comes before it in the log has been looked at when this one runs.
    site.publish(Job(n=last))
    wait_until(lambda: last in seen)
    worker.stop()
    running.join()
    seen.remove(last)
    return seen, committed


def test_a_publisher_that_rolled_back_holds_nobody_back(
    site: Site, publishers: list[Publisher]
) -> None:
    """R33, G2: its id stays a gap."""
    reader = Reader.on(site)
    first, second, _ = publishers
    first.publish(1)
    second_id = second.publish(2)
    second.commit()
    assert reader.claim() == []
    first.rollback()
    assert reader.claim() == [second_id]
    assert reader.claim() == []


def test_a_pending_look_waits_for_those_it_saw_and_for_nobody_later(
    site: Site, publishers: list[Publisher]
) -> None:
    """R33: publishers that come one after the other cannot starve the reader."""
    reader = Reader.on(site)
    first, second, third = publishers
    ids = [first.publish(1), second.publish(2)]
    second.commit()
    assert reader.claim() == []
    third.publish(3)
    first.commit()
    assert reader.claim() == ids


def test_a_reader_that_starts_while_another_s_look_is_pending_skips_nothing(
    site: Site, publishers: list[Publisher]
) -> None:
    """R33: what a look has found is nobody else's knowledge, and is not needed."""
    before = Reader.on(site)
    first, second, _ = publishers
    ids = [first.publish(1), second.publish(2)]
    second.commit()
    assert before.claim() == []
    after = Reader.on(site)
    assert after.claim() == []
    first.commit()
    assert after.claim() == ids
    assert before.claim() == []


def test_an_open_publisher_of_another_topic_holds_nobody_back(
    site: Site, publishers: list[Publisher]
) -> None:
    """R33: the fence stalls on nobody but who published to this topic."""
    other = site.vulkan().topic("other", Job)
    _, second, _ = publishers
    with Session(site.engine) as session:
        other.publish(session, Job(n=0))
        found = second.publish(2)
        second.commit()
        assert Reader.on(site).claim() == [found]
        session.rollback()


def test_of_a_fresh_sequence_nothing_is_taken_for_proven(site: Site) -> None:
    """R33: before the first draw a sequence says 1, and nobody has published 1."""
    assert _proven_of_fresh(site) == 0


def test_without_that_guard_a_first_message_still_open_counts_as_proven(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: what the guard of the fresh sequence prevents."""
    _trust_last_value(monkeypatch)
    assert _proven_of_fresh(site) == 1


def _proven_of_fresh(site: Site) -> int:
    reader = Reader.on(site)
    reader.claim()
    return reader.watermark.proven


def _trust_last_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def log_end(session: Session, position: int) -> int:
        found: int = session.scalar(text("SELECT last_value FROM vulkan_message_id_seq"))
        return found

    monkeypatch.setattr(watermarks, "_log_end", log_end)


def test_the_first_message_is_not_skipped_when_the_second_commits_first(
    site: Site, publishers: list[Publisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33, C01: a reader looked before anybody had published."""
    assert _first_and_second(site, publishers, monkeypatch) == [1, 2]


def _first_and_second(
    site: Site, publishers: list[Publisher], monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    first, second, _ = publishers
    reader = Reader.on(site)
    found = reader.claim()
    first.publish(1)
    second.publish(2)
    second.commit()
    advance = Watermark.advance

    def and_then(
        watermark: Watermark, session: Session, topic_id: int, position: int
    ) -> int | None:
        # The first commits just when the reader is about to look beyond what it takes for proven.
        if position == 1:
            first.commit()
        return advance(watermark, session, topic_id, position)

    monkeypatch.setattr(Watermark, "advance", and_then)
    found += reader.claim()
    first.commit()
    return found + reader.claim()


def test_with_a_sequence_cache_consumers_refuse_to_advance_and_say_why(site: Site) -> None:
    """R33, C01: VK0045; ids that sessions keep in stock come in no order at all."""
    site.execute("ALTER SEQUENCE vulkan_message_id_seq CACHE 50")
    site.publish(Job(n=1))
    seen: list[int] = []
    worker = site.worker(into(seen))
    with pytest.raises(DatabaseError, match="CACHE 50") as refused:
        worker.drain()
    assert refused.value.code == "VK0045"
    assert seen == []
    assert _position(site) == 0
    site.execute("ALTER SEQUENCE vulkan_message_id_seq CACHE 1")
    worker.drain()
    assert seen == [1]


def test_a_position_beyond_the_sequence_is_an_error_and_not_idleness(site: Site) -> None:
    """R33: VK0046 after a restart of the sequence, or a restore of an older copy."""
    site.publish(Job(n=1), Job(n=2), Job(n=3))
    seen: list[int] = []
    worker = site.worker(into(seen))
    worker.drain()
    _restart_sequence(site)
    with pytest.raises(DatabaseError, match="position is 3") as refused:
        worker.drain()
    assert refused.value.code == "VK0046"
    assert seen == [1, 2, 3]


def test_without_that_guard_what_is_published_next_is_never_delivered(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: what the guard of the position prevents."""
    site.publish(Job(n=1), Job(n=2), Job(n=3))
    seen: list[int] = []
    worker = site.worker(into(seen))
    worker.drain()
    _restart_sequence(site)
    _trust_last_value(monkeypatch)
    site.publish(Job(n=4))
    worker.drain()
    assert seen == [1, 2, 3]


def _restart_sequence(site: Site) -> None:
    site.execute("DELETE FROM vulkan_message")
    site.execute("ALTER SEQUENCE vulkan_message_id_seq RESTART")


def _position(site: Site) -> int:
    with Session(site.engine) as session:
        found: int = session.scalars(select(ConsumerGroup.position)).one()
        return found


def test_a_transaction_that_published_does_not_wait_for_itself(site: Site) -> None:
    """R33: as when a test of the host publishes and drains in one transaction."""
    assert _claim_own(site) == [1]


def test_without_that_guard_it_waits_for_ever(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """R33: what leaving out one's own lock prevents."""

    def publishers(installation: int, topic_id: int) -> Rows:
        clauses = fencing._publishing(installation, topic_id).clauses
        others = [each for each in clauses if "pg_backend_pid" not in str(each)]
        assert len(others) == len(clauses) - 1
        return select(fencing._LOCKS.c.virtualtransaction).where(*others)

    monkeypatch.setattr(fencing, "publishers", publishers)
    assert _claim_own(site) == []


def _claim_own(site: Site) -> list[int]:
    group = site.group()
    watermark = Watermark()
    with Session(site.engine) as session:
        site.topic.publish(session, Job(n=1))
        found = []
        for _ in range(3):
            claimed = DeliveryRepository(session).claim_range(
                group, "own", limit=10, lease=60, watermark=watermark
            )
            found += [] if claimed is None else [each.message_id for each in claimed.deliveries]
        session.rollback()
    return found


def test_an_engine_at_repeatable_read_loses_nothing(
    site: Site, publishers: list[Publisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: workers read at READ COMMITTED, so that no snapshot is older than the look."""
    assert _claim_at_repeatable_read(site, publishers, monkeypatch) == [1, 2]


def test_without_that_guard_a_snapshot_older_than_the_look_skips_a_message(
    site: Site, publishers: list[Publisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33, C01: what forcing the isolation level prevents."""
    monkeypatch.setattr(PostgreSQL, "worker_isolation", None)
    assert _claim_at_repeatable_read(site, publishers, monkeypatch) == [2]


def _claim_at_repeatable_read(
    site: Site, publishers: list[Publisher], monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    engine = create_engine(site.database.sync_url, isolation_level="REPEATABLE READ")
    vulkan = site.vulkan(engine)
    reader = Reader.on(site, vulkan)
    first, second, _ = publishers
    first.publish(1)
    second.publish(2)
    second.commit()
    advance = Watermark.advance

    def after_commit(
        watermark: Watermark, session: Session, topic_id: int, position: int
    ) -> int | None:
        first.commit()
        return advance(watermark, session, topic_id, position)

    monkeypatch.setattr(Watermark, "advance", after_commit)
    found = reader.claim()
    return found + reader.claim()


def test_a_savepoint_s_rollback_gives_the_fence_up_and_the_next_publish_takes_it_again(
    site: Site, publishers: list[Publisher]
) -> None:
    """R30, R33: the lock is taken by every publish and never remembered."""
    reader = Reader.on(site)
    first, second, third = publishers
    savepoint = first.session.begin_nested()
    first.publish(1)
    savepoint.rollback()
    second_id = second.publish(2)
    second.commit()
    # The transaction is open still, and holds nobody back.
    assert reader.claim() == [second_id]
    again = first.publish(3)
    last = third.publish(4)
    third.commit()
    assert reader.claim() == []
    first.commit()
    assert reader.claim() == [again, last]


def test_a_publish_by_copy_holds_its_topic_back_from_its_first_id_on(
    site: Site, publishers: list[Publisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: between its ids and its rows, which are two statements, another publish commits."""
    found, copied, overtaking = _overtaken_before_copy(site, publishers, monkeypatch)
    assert found == [[], [*copied, overtaking]]


def test_without_the_lock_before_its_ids_a_publish_by_copy_is_skipped(
    site: Site, publishers: list[Publisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: what taking the fence first prevents."""

    class Unfenced(PostgreSQL):
        def topic_with_fence(self, topic: Any, installation: int) -> Any:
            return select(Topic.id.label("id")).where(Topic.name == topic)

    unfenced = lambda _dialect, number, _offset: publishing.draw(Unfenced(), number)  # noqa: E731
    monkeypatch.setattr(publisher, "_drawing", unfenced)
    found, _, overtaking = _overtaken_before_copy(site, publishers, monkeypatch)
    assert found == [[overtaking], []]


def _overtaken_before_copy(
    site: Site, publishers: list[Publisher], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[list[int]], list[int], int]:
    """What a reader claimed before and after the commit; the ids copied, and the other's."""
    monkeypatch.setattr(publisher, "MIN_COPIED", 2)
    reader = Reader.on(site)
    first, second, _ = publishers
    overtaking: list[int] = []
    found: list[list[int]] = []
    copy = PostgreSQL.copy

    def overtaken(*args: Any) -> None:
        overtaking.append(second.publish(0))
        second.commit()
        found.append(reader.claim())
        copy(*args)

    monkeypatch.setattr(PostgreSQL, "copy", overtaken)
    copied = site.topic.publish_many(first.session, [Job(n=n) for n in range(1, 4)])
    first.commit()
    found.append(reader.claim())
    return found, copied, overtaking[0]


def test_a_prepared_transaction_holds_the_topic_back_until_it_is_committed(
    site: Site, publishers: list[Publisher]
) -> None:
    """R33: a two-phase commit has no process, and its message is as open as any."""
    with site.engine.connect() as connection:
        if connection.scalar(text("SHOW max_prepared_transactions")) == "0":
            pytest.skip("max_prepared_transactions is 0: the server takes no two-phase commits")
    reader = Reader.on(site)
    first, second, _ = publishers
    ids = [first.publish(1)]
    name = f"vulkan-{uuid4().hex}"
    first.session.execute(text(f"PREPARE TRANSACTION '{name}'"))
    first.session.close()
    ids.append(second.publish(2))
    second.commit()
    with _autocommit(site) as connection:
        try:
            assert reader.claim() == []
            assert reader.claim() == []
        finally:
            connection.execute(text(f"COMMIT PREPARED '{name}'"))
    assert reader.claim() == ids


@contextmanager
def _autocommit(site: Site) -> Iterator[Any]:
    with site.engine.connect() as connection:
        yield connection.execution_options(isolation_level="AUTOCOMMIT")
