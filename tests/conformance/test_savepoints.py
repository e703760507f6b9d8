"""A message's savepoint may wait for its first statement; nobody can tell but by the speed."""

from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tests.conformance.harness import App, Job, at_once
from tests.conformance.host import Effect
from vulkan_orm import MessageMeta
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
