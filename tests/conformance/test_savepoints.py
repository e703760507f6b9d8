"""A message's savepoint waits for its first statement; nobody can tell but by the speed."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, delete, event, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from tests.conformance.harness import App, Job, at_once
from tests.conformance.host import Effect, Host
from tests.databases import Database
from vulkan_orm import MessageMeta, Vulkan
from vulkan_orm.models import Message

NAMES = ["a", "bad", "b", "bad", "c"]
GOOD = ["a", "b", "c"]


def run_range(app: App, handler: Any) -> None:
    app.consumer(handler, isolation="range", retry=at_once(0))
    app.publish_many([Job(name=name) for name in NAMES])
    assert app.drain() == {"succeeded": 3, "exception": 2}


def by_raw_cursor(session: Session, value: str) -> None:
    cursor = session.connection().connection.cursor()
    cursor.execute(f"INSERT INTO {Effect.__tablename__} (value) VALUES ('{value}')")
    cursor.close()


def test_what_a_raw_cursor_wrote_is_undone_with_its_message(app: App) -> None:
    """R41: such a statement passes all hooks, and has nothing to travel with it."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        by_raw_cursor(session, payload.name)
        if payload.name == "bad":
            raise ValueError

    run_range(app, handler)
    assert app.effects() == GOOD


def test_what_a_mapper_event_wrote_by_a_raw_cursor_is_undone_with_its_message(app: App) -> None:
    """R41: it is given the connection by the flush, without asking the session for it."""

    def audit(_mapper: Any, connection: Connection, effect: Effect) -> None:
        cursor = connection.connection.cursor()
        cursor.execute(f"INSERT INTO {Effect.__tablename__} (value) VALUES ('{effect.value}')")
        cursor.close()

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.add(Effect(value=payload.name))
        session.flush()
        if payload.name == "bad":
            raise ValueError

    event.listen(Effect, "before_insert", audit)
    try:
        run_range(app, handler)
    finally:
        event.remove(Effect, "before_insert", audit)
    assert app.effects() == [name for name in GOOD for _ in range(2)]


def test_what_a_raw_cursor_wrote_is_undone_with_the_handlers_own_savepoint(app: App) -> None:
    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.execute(insert(Effect).values(value=payload.name))
        nested = session.begin_nested()
        by_raw_cursor(session, "undone")
        nested.rollback()
        if payload.name == "bad":
            raise ValueError

    run_range(app, handler)
    assert app.effects() == GOOD


def test_an_error_that_a_handler_contains_undoes_nothing_else(app: App) -> None:
    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        with pytest.raises(IntegrityError), session.begin_nested():
            session.execute(insert(Effect).values(value=None))
        session.add(Effect(value=payload.name))
        if payload.name == "bad":
            session.flush()
            raise ValueError

    run_range(app, handler)
    assert app.effects() == GOOD


def test_reading_first_and_writing_in_two_ways_is_one_piece(app: App) -> None:
    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.scalars(select(Effect)).all()
        session.execute(insert(Effect), [{"value": payload.name}, {"value": payload.name}])
        session.execute(text(f"DELETE FROM {Effect.__tablename__} WHERE value = 'nobody'"))
        if payload.name == "bad":
            raise ValueError

    run_range(app, handler)
    assert app.effects() == [name for name in GOOD for _ in range(2)]


@pytest.mark.parametrize("amount", [1, 2_500])
def test_what_a_failing_handler_published_is_not_published(app: App, amount: int) -> None:
    """R30; the larger amount goes by COPY where there is one."""
    later = app.vulkan.topic("later", Job)

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        app.call(session, later.publish_many, [payload] * amount)
        if payload.name == "bad":
            raise ValueError

    run_range(app, handler)
    assert app.count(Message) == len(NAMES) + 3 * amount


def test_who_ended_the_transaction_behind_our_back_is_blamed_alone(postgresql_app: App) -> None:
    """R42: the next message's statement is the first to meet the loss, and is no fault of it."""
    app = postgresql_app

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.execute(insert(Effect).values(value=payload.name))
        if payload.name == "bad":
            cursor = session.connection().connection.cursor()
            cursor.execute("ROLLBACK")
            cursor.close()

    run_range(app, handler)
    assert sorted(app.effects()) == GOOD
    assert {row.error_code for row in app.log()} == {"VK0031"}


def by_core(session: Session, value: str) -> None:
    session.execute(insert(Effect).values(value=value))


def by_orm(session: Session, value: str) -> None:
    session.add(Effect(value=value))


def flushed(session: Session, value: str) -> None:
    session.add(Effect(value=value))
    session.flush()


def in_own_savepoint(session: Session, value: str) -> None:
    with session.begin_nested():
        by_core(session, value)


def beside_an_undone_savepoint(session: Session, value: str) -> None:
    nested = session.begin_nested()
    flushed(session, "undone")
    nested.rollback()
    by_orm(session, value)


def beside_a_contained_error(session: Session, value: str) -> None:
    with pytest.raises(IntegrityError), session.begin_nested():
        session.execute(insert(Effect).values(value=None))
    by_core(session, value)


def with_one_deleted(session: Session, value: str) -> None:
    by_core(session, value)
    gone = Effect(value="gone")
    session.add(gone)
    session.flush()
    session.delete(gone)


def with_one_deleted_in_bulk(session: Session, value: str) -> None:
    flushed(session, "gone")
    by_core(session, value)
    session.execute(delete(Effect).where(Effect.value == "gone"))


def read_only(session: Session, value: str) -> None:
    session.scalars(select(Effect).limit(3)).all()


def nothing(session: Session, value: str) -> None:
    pass


def refused_flush(session: Session, value: str) -> None:
    session.add(Effect(value=value))
    session.add(Effect(value=None))
    session.flush()


def contained_without_a_savepoint(session: Session, value: str) -> None:
    with pytest.raises(IntegrityError):
        refused_flush(session, value)


def left_in_a_savepoint(session: Session, value: str) -> None:
    session.begin_nested()
    by_core(session, value)


WRITING: list[Callable[[Session, str], None]] = [
    by_core,
    by_core,
    by_core,
    by_orm,
    flushed,
    by_raw_cursor,
    in_own_savepoint,
    beside_an_undone_savepoint,
    beside_a_contained_error,
    with_one_deleted,
    with_one_deleted_in_bulk,
]
WITHOUT_EFFECT: list[Callable[[Session, str], None]] = [read_only, nothing]
REFUSED: list[Callable[[Session, str], None]] = [
    refused_flush,
    contained_without_a_savepoint,
    left_in_a_savepoint,
]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_handlers_do_exactly_what_succeeded_is_kept(app: App, seed: int) -> None:
    """R41: many messages of many kinds in the same transactions."""
    chance = random.Random(seed)
    ways = [chance.choice(WRITING + WITHOUT_EFFECT + REFUSED) for _ in range(130)]
    raising = {place for place in range(len(ways)) if chance.random() < 0.2}
    refused = {place for place, way in enumerate(ways) if way in REFUSED} | raising

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        place = int(payload.name)
        ways[place](session, payload.name)
        if place in raising:
            raise ValueError

    app.consumer(handler, isolation="range", retry=at_once(0))
    app.publish_many([Job(name=f"{place:03}") for place in range(len(ways))])
    tally = app.drain()
    kept = [p for p, way in enumerate(ways) if way in WRITING and p not in refused]
    assert app.effects() == [f"{place:03}" for place in kept]
    assert tally == {"succeeded": len(ways) - len(refused), "exception": len(refused)}


def test_a_failure_leaves_the_objects_of_earlier_messages_as_they_were(app: App) -> None:
    """One that was written and is still held must not look as if it never was."""
    held: list[Effect] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        effect = Effect(value=payload.name)
        session.add(effect)
        session.flush()
        if payload.name == "bad":
            raise ValueError
        held.append(effect)

    run_range(app, handler)
    assert [inspect(each).detached for each in held] == [True] * len(GOOD)


def test_in_another_database_too_a_failure_undoes_its_message_alone(
    migrated: Database, database: Database
) -> None:
    """Nobody promises that both commit; but what was kept must not be undone for a neighbour."""
    ours, theirs = create_engine(migrated.sync_url), create_engine(database.sync_url)
    Host.metadata.create_all(theirs)
    vulkan = Vulkan(sessionmaker(ours, binds={Effect: theirs}))
    topic = vulkan.topic("topic", str)

    @topic.consumer(group="group", isolation="range", retry=at_once(0))
    def handler(payload: str, session: Session) -> None:
        session.execute(select(Message.id)).all()
        by_core(session, payload)
        if payload == "bad":
            raise ValueError

    with Session(ours) as session, session.begin():
        topic.publish_many(session, NAMES)
    assert vulkan.drain() == {"succeeded": 3, "exception": 2}
    with Session(theirs) as session:
        assert [*session.scalars(select(Effect.value).order_by(Effect.id))] == GOOD
    ours.dispose()
    theirs.dispose()
