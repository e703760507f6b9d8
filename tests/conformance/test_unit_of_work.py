"""The session of a handler: what it writes is kept with its outcome, and with no other's."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, insert
from sqlalchemy.orm import Session

from tests.conformance.harness import AT_ONCE, App, Job, SyncApp, at_once
from tests.conformance.host import Account, Booking, Effect
from vulkan_orm import MessageMeta
from vulkan_orm.service.savepoints import MessageSavepoint

NAMES = ["a", "bad", "b", "bad", "c"]


def effect_then_fail(payload: Job, session: Session, meta: MessageMeta) -> None:
    session.add(Effect(value=payload.name))
    if payload.name == "bad":
        session.flush()
        session.execute(insert(Effect).values(value="bad, by a statement"))
        raise ValueError("bad")


def test_a_failing_messages_writes_are_undone_and_its_neighbours_kept(
    app: App, isolation: str
) -> None:
    """R41."""
    app.consumer(effect_then_fail, isolation=isolation, retry=at_once(1))
    app.publish_many([Job(name=name) for name in NAMES])
    assert app.drain() == {"succeeded": 3, "exception": 4}
    assert app.effects() == ["a", "b", "c"]


def test_the_same_holds_for_a_batch_of_retries(app: App, isolation: str) -> None:
    """R41, R17."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if not meta.attempts:
            raise ValueError("first")
        effect_then_fail(payload, session, meta)

    app.consumer(handler, isolation=isolation, retry=at_once(2))
    app.publish_many([Job(name=name) for name in NAMES])
    assert app.drain() == {"exception": 5 + 4, "succeeded": 3}
    assert app.effects() == ["a", "b", "c"]


def test_writes_that_were_not_flushed_are_kept_too(app: App, isolation: str) -> None:
    """R41."""
    app.consumer(
        lambda payload, session, meta: session.add(Effect(value=payload.name)),
        isolation=isolation,
    )
    app.publish_many([Job(name=name) for name in "abc"])
    app.drain()
    assert app.effects() == ["a", "b", "c"]


def test_a_write_that_is_refused_at_the_flush_is_its_own_failure(app: App, isolation: str) -> None:
    """R41: the handler has returned by then."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.add(Effect(value=None if payload.name == "bad" else payload.name))

    app.consumer(handler, isolation=isolation, retry=at_once(0))
    _, bad, _ = app.publish_many([Job(name="a"), Job(name="bad"), Job(name="b")])
    assert app.drain() == {"succeeded": 2, "exception": 1}
    assert app.effects() == ["a", "b"]
    assert (app.log(bad)[0].error_type or "").endswith("IntegrityError")


def test_one_message_does_not_see_the_objects_of_another(app: App, isolation: str) -> None:
    """R41."""
    left: list[int] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        left.append(len(list(session)))
        session.add(Effect(value=payload.name))
        session.flush()

    app.consumer(handler, isolation=isolation)
    app.publish_many([Job(), Job(), Job()])
    app.drain()
    assert left == [0, 0, 0]


def test_effects_and_outcome_commit_together(app: App, isolation: str) -> None:
    """R41: a retry's row is gone when its effect is there, and not before."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if not meta.attempts:
            raise ValueError("first")
        session.add(Effect(value="done"))

    app.consumer(handler, isolation=isolation)
    app.publish()
    app.drain()
    assert (app.effects(), app.queue()) == (["done"], {})


def test_more_writing_messages_than_one_transaction_takes_are_all_kept_once(app: App) -> None:
    """R41: committed piecewise beyond 60 savepoints."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.add(Effect(value=payload.name))
        if int(payload.name) % 50 == 49:
            raise ValueError("bad")

    app.consumer(handler, isolation="range", retry=at_once(0))
    app.publish_many([Job(name=f"{n:03}") for n in range(150)])
    assert app.drain() == {"succeeded": 147, "exception": 3}
    assert app.effects() == [f"{n:03}" for n in range(150) if n % 50 != 49]


@contextmanager
def counted(app: App) -> Iterator[Counter[str]]:
    """What reaches the database while the block lasts, by the statement's first word."""
    words: Counter[str] = Counter()

    def executed(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        words[statement.split()[0].upper()] += 1

    event.listen(app.engine, "before_cursor_execute", executed)
    try:
        yield words
    finally:
        event.remove(app.engine, "before_cursor_execute", executed)


@contextmanager
def round_trips(app: App) -> Iterator[Callable[[], int]]:
    """How often the driver waits for the server, told after the block: libpq's own trace."""
    with tempfile.TemporaryFile("w+") as file:

        def trace(proxied: Any, *_: object) -> None:
            driver = getattr(proxied, "driver_connection", proxied)
            driver.pgconn.trace(file.fileno())

        def untrace(proxied: Any, *_: object) -> None:
            getattr(proxied, "driver_connection", proxied).pgconn.untrace()

        event.listen(app.engine, "checkout", trace)
        event.listen(app.engine, "checkin", untrace)
        told = 0
        yield lambda: told
        event.remove(app.engine, "checkout", trace)
        event.remove(app.engine, "checkin", untrace)
        file.seek(0)
        told = sum("\tF\t" in line and bool({"Sync", "Query"} & {*line.split()}) for line in file)


def statements_for(app: App, amount: int) -> Counter[str]:
    app.publish_many([Job()] * amount)
    with counted(app) as words:
        assert app.drain() == {"succeeded": amount}
    return words


def test_a_handler_without_a_session_costs_no_transaction_work(app: App) -> None:
    """R40, R41: as many statements for fifty messages as for one."""
    app.consumer(lambda payload, meta: None, session=False)
    statements_for(app, 1)
    one, fifty = statements_for(app, 1), statements_for(app, 50)
    assert one == fifty
    assert "SAVEPOINT" not in fifty


def test_a_session_that_is_not_used_costs_no_statement_a_message(app: App) -> None:
    """R41: the savepoint is opened by the first use."""
    app.consumer(lambda payload, session, meta: None, isolation="range")
    statements_for(app, 1)
    one, fifty = statements_for(app, 1), statements_for(app, 50)
    assert one == fifty


def test_only_a_message_that_uses_its_session_opens_a_savepoint(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R41."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if payload.name == "writes":
            session.execute(insert(Effect).values(value="written"))

    opened: list[str] = []
    take = MessageSavepoint.take

    def counted(savepoint: MessageSavepoint) -> str:
        opened.append(take(savepoint))
        return opened[-1]

    monkeypatch.setattr(MessageSavepoint, "take", counted)
    app.consumer(handler, isolation="range")
    app.publish_many([Job(), Job(name="writes"), Job(), Job(name="writes"), Job()])
    app.drain()
    assert len(opened) == 2


def test_the_savepoint_of_a_message_travels_with_its_statement(postgresql_app: App) -> None:
    """R41: one round trip for a message that writes a row, or two where drivers can no better."""
    app = postgresql_app

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.execute(insert(Effect).values(value="written"))

    app.consumer(handler, isolation="range")
    costs = []
    for amount in (10, 10, 40):
        app.publish_many([Job()] * amount)
        with round_trips(app) as trips_of:
            app.drain()
        costs.append(trips_of())
    # And a few for what does not depend on their number.
    assert costs[2] - costs[1] <= 30 * (1 if isinstance(app, SyncApp) else 2) + 5


def book(payload: Job, session: Session, meta: MessageMeta) -> None:
    """Refused at COMMIT: there is no such account."""
    session.add(Effect(value=payload.name))
    if payload.name == "bad":
        session.add(Booking(account_id=404))
        session.flush()


@pytest.mark.parametrize("path", ["first", "retry"])
def test_a_refused_commit_fails_the_culprit_alone(app: App, isolation: str, path: str) -> None:
    """R41a: a deferred constraint speaks up at COMMIT."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if path == "retry" and not meta.attempts:
            raise ValueError("first")
        book(payload, session, meta)

    app.consumer(handler, isolation=isolation, retry=at_once(2))
    a, bad, b = app.publish_many([Job(name="a"), Job(name="bad"), Job(name="b")])
    first = 3 if path == "retry" else 0
    failures = 2 if path == "retry" else 3
    assert app.drain() == Counter({"exception": first + failures, "succeeded": 2})
    assert app.effects() == ["a", "b"]
    assert app.row(bad).state == "dead"
    assert [attempt for attempt, _ in app.story(bad)] == [1, 2, 3]
    assert (app.log(bad)[-1].error_type or "").endswith("IntegrityError")
    expected = [(1, "exception"), (2, "succeeded")] if path == "retry" else []
    assert app.story(a) == app.story(b) == expected


def test_a_deferred_constraint_that_holds_by_the_commit_is_no_trouble(
    app: App, isolation: str
) -> None:
    """R41a."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        book(payload, session, meta)
        if payload.name == "bad":
            session.add(Account(id=404))

    app.consumer(handler, isolation=isolation)
    app.publish_many([Job(name="a"), Job(name="bad")])
    assert app.drain() == {"succeeded": 2}
    assert app.count(Booking) == 1


def test_a_publish_inside_a_handler_joins_its_unit_of_work(app: App, isolation: str) -> None:
    """R30, R41: undone with the handler's failure, kept with its success."""
    follow_ups = app.vulkan.topic("follow-ups", Job)
    seen: list[str] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        app.publish_in(session, Job(name=f"after {payload.name}"), topic=follow_ups)
        app.publish_in(session, Job(name="for all"), topic=follow_ups, idempotency_key="for all")
        if payload.name == "bad":
            raise ValueError("bad")

    app.consumer(handler, isolation=isolation, retry=at_once(0))
    app.consumer(
        lambda payload, session, meta: seen.append(payload.name), topic=follow_ups, retry=AT_ONCE
    )
    app.publish_many([Job(name="bad"), Job(name="a"), Job(name="b")])
    app.drain()
    assert seen == ["after a", "for all", "after b"]
