"""Every index earns its keep: the statement it is named for uses it, and none scans a big table."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, insert, text
from sqlalchemy.orm import Session

from vulkan_orm import DeliveryRepository, RetryPolicy, Topic, Vulkan
from vulkan_orm.core.outcomes import ErrorText, Failed
from vulkan_orm.models import ConsumerGroup, DeliveryLog, ExceptionQueue, RangeClaim
from vulkan_orm.models import Topic as TopicRow
from vulkan_orm.service import waking
from vulkan_orm.service.deliveries import Group
from vulkan_orm.service.watermark import Watermark

ROWS = 5_000
# Below some 30,000 rows of the queue PostgreSQL rightly reads them all to find a batch by its keys.
QUEUED = 40_000
FEW = 40
POLICY = RetryPolicy()
ERROR = Failed(ErrorText("ValueError", "broken"))
PAST = datetime.now(UTC) - timedelta(days=1)
BIG = ("vulkan_message", "exception_queue", "delivery_log", "vulkan_idempotency_key")

# SQLite gives the indexes of constraints names of its own.
ON_SQLITE = {
    "pk_vulkan_message": "ix_vulkan_message_topic",
    "pk_exception_queue": "sqlite_autoindex_exception_queue_1",
    "pk_vulkan_idempotency_key": "sqlite_autoindex_vulkan_idempotency_key_1",
    "uq_vulkan_range_claim_first": "sqlite_autoindex_vulkan_range_claim_1",
    "uq_vulkan_topic_name": "sqlite_autoindex_vulkan_topic_1",
    "uq_vulkan_consumer_group_name": "sqlite_autoindex_vulkan_consumer_group_1",
    "uq_delivery_log_attempt": "sqlite_autoindex_delivery_log_1",
}


@dataclass
class Full:
    """A database with enough in it for a planner to have a choice."""

    topic: Topic[int]
    group: Group

    def read_on(self, repository: DeliveryRepository) -> None:
        # The second time with what the first has proven about the log.
        watermark = Watermark()
        for owner in "ab":
            repository.claim_range(self.group, owner, limit=10, lease=60.0, watermark=watermark)

    def look(self, repository: DeliveryRepository) -> None:
        sight = waking.look(repository.session, self.group, Watermark())
        assert sight.unread
        assert sight.due

    def retry(self, repository: DeliveryRepository) -> None:
        for delivery in repository.claim_due(self.group, POLICY, "b", limit=5, lease=60.0):
            repository.apply_outcome(delivery, ERROR, POLICY)

    def recover(self, repository: DeliveryRepository) -> None:
        assert repository.recover() == FEW

    def renew(self, repository: DeliveryRepository) -> None:
        assert repository.renew("lost 3", 60.0)

    def operate(self, repository: DeliveryRepository) -> None:
        repository.dead("topic", "group", limit=10, after=100)
        repository.hold("topic", "group", [1, 2, 3])

    def history(self, repository: DeliveryRepository) -> None:
        assert repository.history("topic", "group", 7)

    def publish(self, repository: DeliveryRepository) -> None:
        self.topic.publish(repository.session, 1)

    def publish_again(self, repository: DeliveryRepository) -> None:
        self.topic.publish(repository.session, 1, idempotency_key="7")


USES: dict[str, Callable[[Full, DeliveryRepository], None]] = {
    "ix_exception_queue_due": Full.retry,
    "ix_exception_queue_lease": Full.recover,
    "pk_exception_queue": Full.operate,
    "pk_vulkan_message": Full.read_on,
    "pk_vulkan_idempotency_key": Full.publish_again,
    "uq_vulkan_range_claim_first": Full.read_on,
    "uq_vulkan_topic_name": Full.publish,
    "uq_vulkan_consumer_group_name": Full.history,
    "uq_delivery_log_attempt": Full.history,
}


def rows_of_queue(group_id: int) -> Iterator[dict[str, Any]]:
    for number in range(1, QUEUED + 1):
        lost = number > QUEUED - FEW
        ready = not lost and number % 100 == 0
        yield {
            "group_id": group_id,
            "message_id": number,
            "state": "running" if lost else "ready" if ready else "dead",
            "attempts": 2 if lost else 1,
            "delays": 0,
            "interruptions": 0,
            "can_run_after": PAST,
            "granted_retries": 0,
            "granted_delays": 0,
            "careful": False,
            "on_hold": False,
            "owner": f"lost {number % 10}" if lost else None,
            "lease_until": PAST if lost else None,
            "claimed_at": PAST,
            "first_failed_at": PAST,
            "published_at": PAST,
        }


def fill(session: Session, topic: Topic[int]) -> Group:
    repository = DeliveryRepository(session)
    group = repository.ensure_group("topic", "group")
    other = repository.ensure_group("topic", "other")
    session.execute(insert(TopicRow), [{"name": f"topic {n}"} for n in range(ROWS)])
    session.execute(
        insert(ConsumerGroup),
        [{"topic_id": group.topic_id, "name": f"g{n}", "position": 0} for n in range(ROWS)],
    )
    for number in range(50):
        topic.publish(session, 1, idempotency_key=str(number))
    topic.publish_many(session, [1] * ROWS)
    session.execute(insert(ExceptionQueue), list(rows_of_queue(group.id)))
    session.execute(
        insert(DeliveryLog),
        [
            {
                "group_id": group.id,
                "message_id": number,
                "attempt": 1,
                "outcome": "exception",
                "became": "ready",
                "logged_at": PAST,
            }
            for number in range(1, ROWS + 1)
        ],
    )
    session.execute(
        insert(RangeClaim),
        [
            {
                "group_id": other.id,
                "first": n,
                "last": n,
                "progress": n - 1,
                "claims": 1,
                "careful": False,
            }
            for n in range(1, ROWS)
        ],
    )
    session.execute(
        text(
            "INSERT INTO vulkan_idempotency_key"
            " SELECT topic_id, 'k' || id, id, published_at FROM vulkan_message"
        )
    )
    return group


@pytest.fixture
def full(ready: Engine) -> Full:
    vulkan = Vulkan(ready)
    topic = vulkan.topic("topic", int)
    with Session(ready) as session, session.begin():
        group = fill(session, topic)
    if ready.dialect.name != "sqlite":  # where few do it, and it has to work without
        with ready.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ANALYZE"))
    return Full(topic, group)


def plans_of(engine: Engine, work: Callable[[DeliveryRepository], None]) -> dict[str, str]:
    """The statements that some work comes to, each with its plan; nothing stays changed."""
    plans: dict[str, str] = {}

    def explain(
        connection: Connection, cursor: Any, statement: str, parameters: Any, *_: Any
    ) -> None:
        if statement.startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")):
            prefix = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
            apart = cursor.connection.cursor()
            apart.execute(f"{prefix} {statement}", parameters)
            plans[statement] = "\n".join(str(row[-1]) for row in apart.fetchall())
            apart.close()

    event.listen(engine, "before_cursor_execute", explain)
    try:
        with Session(engine) as session:
            work(DeliveryRepository(session))
    finally:
        event.remove(engine, "before_cursor_execute", explain)
    return plans


SORT = re.compile("Sort|TEMP B-TREE")
SCAN = re.compile(rf"(?:Seq Scan on|SCAN) (?:{'|'.join(BIG)})\b(?!.* USING )")


def test_each_index_is_used_by_the_statement_it_is_for(
    full: Full, ready: Engine, subtests: pytest.Subtests
) -> None:
    for index, use in USES.items():
        with subtests.test(index):
            name = ON_SQLITE.get(index, index) if ready.dialect.name == "sqlite" else index
            plans = plans_of(ready, lambda repository, use=use: use(full, repository))  # type: ignore[misc]
            using = [plan for plan in plans.values() if name in plan]
            assert using, "\n\n".join(f"{sql}\n{plan}" for sql, plan in plans.items())


def test_no_hot_statement_scans_a_big_table(
    full: Full, ready: Engine, subtests: pytest.Subtests
) -> None:
    for use in {*USES.values(), Full.renew, Full.look}:
        plans = plans_of(ready, lambda repository, use=use: use(full, repository))  # type: ignore[misc]
        for statement, plan in plans.items():
            with subtests.test(f"{use.__name__}: {statement[:60]}"):
                assert not SCAN.search(plan), f"{statement}\n{plan}"


def test_the_log_is_read_on_in_its_own_order(ready: Engine, full: Full) -> None:
    """Sorting would take longer the more is unread."""
    plans = plans_of(ready, full.read_on)
    reading = [plan for plan in plans.values() if "vulkan_message" in plan]
    assert reading
    for plan in reading:
        assert not re.search(r"Sort Key: vulkan_message|USE TEMP B-TREE", plan), plan


def test_a_claim_of_retries_reads_no_more_than_it_takes(full: Full, ready: Engine) -> None:
    """The index gives the whole order, so a sort never looks at all that is due."""
    plans = plans_of(ready, full.retry)
    (due,) = (plan for sql, plan in plans.items() if sql.startswith("SELECT exception_queue."))
    assert "ix_exception_queue_due" in due
    assert not SORT.search(due), due


def test_a_look_costs_the_same_whatever_there_is(full: Full, ready: Engine) -> None:
    """R34: an idle group is looked at by one statement, an index for each of its questions."""
    plans = plans_of(ready, lambda repository: full.look(repository))
    (plan,) = [plan for sql, plan in plans.items() if "AS unread" in sql]
    for index in ("pk_vulkan_message", "uq_vulkan_range_claim_first", "ix_exception_queue_due"):
        assert (
            ON_SQLITE.get(index, index) in plan if ready.dialect.name == "sqlite" else index in plan
        )
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan
