"""How many statements an operation comes to: the measure of speed that no machine changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, create_engine, event
from sqlalchemy.orm import Session

from tests.databases import Database
from vulkan_orm import DeliveryRepository, RetryPolicy, Topic, Vulkan
from vulkan_orm.core.outcomes import ErrorText, Failed, Succeeded
from vulkan_orm.core.pace import FIRST_RANGE
from vulkan_orm.service import publisher, waking
from vulkan_orm.service.deliveries import Report
from vulkan_orm.service.watermark import Watermark
from vulkan_orm.store import clock
from vulkan_orm.store.dialects.postgresql import PostgreSQL

NEVER = RetryPolicy(max_retries=0)
ONCE = RetryPolicy(max_retries=1, jitter=False)
FAILED = Failed(ErrorText("ValueError", "broken"))
# One less than a range, after a full one of which there is another look.
FEW, MANY = 3, FIRST_RANGE - 1


@contextmanager
def counted(engine: Engine) -> Iterator[list[str]]:
    """Statements in order, those that only bound transactions aside."""
    statements: list[str] = []

    def count(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith(("BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK")):
            statements.append(statement)

    event.listen(engine, "before_cursor_execute", count)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", count)


class Shop:
    """An application with a topic, whose database was looked at already."""

    def __init__(self, url: str) -> None:
        self.engine = create_engine(url, poolclass=NullPool)
        self.vulkan = Vulkan(self.engine)
        self.topic: Topic[int] = self.vulkan.topic("topic", int)
        self.run(lambda r: self.topic.publish(r.session, 0))
        self.group = self.run(lambda r: r.ensure_group("topic", "group"))
        self.names = iter(range(1_000))

    def run(self, work: Callable[[DeliveryRepository], Any]) -> Any:
        with Session(self.engine) as session, session.begin():
            return work(DeliveryRepository(session))

    def count(self, work: Callable[[DeliveryRepository], Any]) -> int:
        with counted(self.engine) as statements:
            self.run(work)
        return len(statements)

    def publish(self, amount: int) -> None:
        self.run(lambda r: self.topic.publish_many(r.session, [1] * amount))

    def read_on(self, repository: DeliveryRepository, failures: int = 0) -> int:
        """Claims what there is and reports it, the first so many as failed."""
        claimed = repository.claim_range(
            self.group, f"a{next(self.names)}", limit=1_000, lease=9.0, watermark=Watermark()
        )
        assert claimed is not None
        reports = [
            Report(delivery, FAILED if place < failures else Succeeded())
            for place, delivery in enumerate(claimed.deliveries)
        ]
        repository.settle_range(claimed, reports, ONCE, progress=claimed.last, lease=9.0)
        return len(claimed.deliveries)

    def fail(self, amount: int) -> None:
        """Leaves deliveries that are due."""
        self.publish(amount)
        assert self.run(lambda r: self.read_on(r, failures=1_000)) >= amount
        clock.set_offset(clock.offset() + 10)

    def retry(self, repository: DeliveryRepository, amount: int) -> None:
        name = f"b{next(self.names)}"
        claimed = repository.claim_due(self.group, ONCE, name, limit=1_000, lease=9.0)
        assert len(claimed) == amount
        reports = [
            Report(delivery, FAILED if place % 2 else Succeeded())
            for place, delivery in enumerate(claimed)
        ]
        repository.apply_outcomes(reports, ONCE)


@pytest.fixture
def shop(migrated: Database) -> Iterator[Shop]:
    shop = Shop(migrated.sync_url)
    yield shop
    shop.engine.dispose()
    clock.set_offset(0)


def test_a_publish_is_one_statement(shop: Shop) -> None:
    assert shop.count(lambda r: shop.topic.publish(r.session, 1)) == 1


@pytest.mark.parametrize("amount", [100, 1_000, 5_000])
def test_thousands_of_messages_are_published_in_one_statement(shop: Shop, amount: int) -> None:
    """And a COPY beside it, where the driver has that."""
    assert shop.count(lambda r: shop.topic.publish_many(r.session, [1] * amount)) == 1


def test_a_publish_by_copy_is_one_copy_whatever_its_size(
    migrated_postgresql: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(migrated_postgresql.sync_url)
    copies: list[object] = []
    copy: Any = PostgreSQL.copy

    def counted(*args: Any) -> None:
        copies.append(args)
        copy(*args)

    monkeypatch.setattr(PostgreSQL, "copy", counted)
    try:
        for amount in (publisher.MIN_COPIED - 1, publisher.MIN_COPIED, 12_000):
            assert shop.count(lambda r, n=amount: shop.topic.publish_many(r.session, [1] * n)) == 1  # type: ignore[misc]
    finally:
        shop.engine.dispose()
    assert len(copies) == 2


def test_a_publish_that_is_refused_reaches_no_database(shop: Shop) -> None:
    """R31"""

    def refused(repository: DeliveryRepository) -> None:
        with pytest.raises(Exception, match="VK0020"):
            shop.topic.publish(repository.session, 1, key="a\x00b")

    assert shop.count(refused) == 0


def test_an_idempotent_publish_is_two_statements(shop: Shop) -> None:
    """The key, then the message; or the key, then whose it is."""
    publish = lambda r: shop.topic.publish(r.session, 1, idempotency_key="key")  # noqa: E731
    assert shop.count(publish) == 2
    assert shop.count(publish) == 2


def test_a_look_at_a_group_with_nothing_to_do_is_one_statement(shop: Shop) -> None:
    """R34: what an idle worker costs, again and again."""
    shop.run(shop.read_on)
    mark = Watermark()
    assert shop.count(lambda r: waking.look(r.session, shop.group, mark)) == 1


def test_the_statements_of_a_range_do_not_depend_on_its_size(shop: Shop) -> None:
    shop.run(shop.read_on)
    counts = []
    for amount in (FEW, 500):
        shop.publish(amount)
        counts.append(shop.count(shop.read_on))

    assert counts[0] == counts[1] <= 8


def test_the_statements_of_a_range_do_not_depend_on_its_failures(shop: Shop) -> None:
    counts = []
    for failures in (1, 400):
        shop.publish(500)
        counts.append(shop.count(lambda r, failures=failures: shop.read_on(r, failures)))  # type: ignore[misc]

    assert counts[0] == counts[1]


def test_a_failure_costs_a_range_two_statements_more(shop: Shop) -> None:
    """Its row in the exception queue, and its row in the delivery log."""
    counts = []
    for failures in (0, 1):
        shop.publish(10)
        counts.append(shop.count(lambda r, failures=failures: shop.read_on(r, failures)))  # type: ignore[misc]

    assert counts[1] - counts[0] == 2


def test_the_statements_of_a_batch_of_retries_do_not_depend_on_its_size(shop: Shop) -> None:
    shop.run(shop.read_on)
    counts = []
    for amount in (FEW, 200):
        shop.fail(amount)
        counts.append(shop.count(lambda r, amount=amount: shop.retry(r, amount)))  # type: ignore[misc]
        shop.run(lambda r: r.discard("topic", "group"))

    assert counts[0] == counts[1] == 5


def test_a_claim_of_retries_is_two_statements_however_much_is_due(shop: Shop) -> None:
    """What is due, locked; and its runs, counted."""
    shop.run(shop.read_on)
    shop.fail(100)
    for limit in (10, 1, 50):
        name = f"b{limit}"
        claim = lambda r, name=name, limit=limit: r.claim_due(  # noqa: E731
            shop.group, ONCE, name, limit=limit, lease=9.0
        )
        assert shop.count(claim) == 2


def test_the_statements_of_a_recovery_do_not_depend_on_how_much_was_lost(shop: Shop) -> None:
    shop.run(shop.read_on)
    counts = []
    for amount in (FEW, 100):
        shop.fail(amount)
        shop.run(lambda r: r.claim_due(shop.group, ONCE, "lost", limit=1_000, lease=1.0))
        clock.set_offset(clock.offset() + 10)
        counts.append(shop.count(lambda r: r.recover()))
        shop.run(lambda r: r.discard("topic", "group"))

    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", ["hold", "release", "redrive", "discard"])
def test_an_act_of_an_operator_is_three_statements(shop: Shop, name: str) -> None:
    """Which group, the deliveries, the log; on one as on many."""
    shop.run(shop.read_on)
    shop.fail(50)
    if name != "hold":
        shop.run(lambda r: r.hold("topic", "group"))

    assert shop.count(lambda r: getattr(r, name)("topic", "group")) == 3


def drained(shop: Shop, amount: int) -> int:
    shop.publish(amount)
    with counted(shop.engine) as statements:
        shop.vulkan.drain()
    return len(statements)


def test_what_a_drain_costs_does_not_depend_on_how_much_there_is(shop: Shop) -> None:
    """For a handler that asks for no session, up to what one range takes."""

    @shop.topic.consumer(group="drained")
    def handler(payload: int) -> None:
        pass

    drained(shop, 1)
    assert drained(shop, FEW) == drained(shop, MANY)


def test_what_a_drain_costs_does_not_depend_on_how_much_fails(shop: Shop) -> None:
    @shop.topic.consumer(group="drained", retry=NEVER)
    def handler(payload: int) -> None:
        raise ValueError

    drained(shop, 1)
    assert drained(shop, FEW) == drained(shop, MANY)
