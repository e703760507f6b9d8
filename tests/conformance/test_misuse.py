"""Handlers that break their session: a clear error of their own, and no harm to others."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import insert, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from tests.conformance.harness import App, AsyncApp, Job, at_once
from tests.conformance.host import Effect
from vulkan_orm import MessageMeta

Misuse = Callable[[Session], Any]


def swallowed_error(session: Session) -> None:
    """Leaves the session in a failed state, and returns."""
    session.add(Effect(value=None))
    with suppress(IntegrityError):
        session.flush()


def rolled_back_by_hand(session: Session) -> None:
    transaction = session.get_transaction()
    assert transaction is not None
    transaction.rollback()


MISUSES: dict[str, tuple[Misuse, tuple[str, ...]]] = {
    "commit": (lambda session: session.commit(), ("VK0031",)),
    "rollback": (lambda session: session.rollback(), ("VK0031",)),
    "close": (lambda session: session.close(), ("VK0031",)),
    "reset": (lambda session: session.reset(), ("VK0031",)),
    "invalidate": (lambda session: session.invalidate(), ("VK0031",)),
    "raw-commit": (lambda session: session.execute(text("COMMIT")), ("VK0031", "VK0032")),
    "raw-rollback": (lambda session: session.execute(text("ROLLBACK")), ("VK0031", "VK0032")),
    "raw-end": (lambda session: session.execute(text(" end ;")), ("VK0031", "VK0032")),
    "by-hand": (rolled_back_by_hand, ("VK0031", "VK0032")),
    "left-open": (lambda session: session.begin_nested(), ("VK0032",)),
    "swallowed": (swallowed_error, ("VK0032",)),
}


def misusing(misuse: Misuse) -> Callable[[Job, Session, MessageMeta], None]:
    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if payload.name == "bad":
            session.execute(select(Effect)).all()
            misuse(session)
        else:
            session.add(Effect(value=payload.name))
            session.flush()

    return handler


@pytest.mark.parametrize("name", MISUSES)
def test_a_handler_that_breaks_its_session_fails_alone_and_is_told_so(
    app: App, isolation: str, name: str
) -> None:
    """R42: its delivery follows the normal failure path, no other message is harmed."""
    misuse, codes = MISUSES[name]
    app.consumer(misusing(misuse), isolation=isolation, retry=at_once(1))
    a, bad, b = app.publish_many([Job(name="a"), Job(name="bad"), Job(name="b")])
    assert app.drain() == {"succeeded": 2, "exception": 2}
    assert app.effects() == ["a", "b"]
    assert app.row(bad).state == "dead"
    assert app.story(bad) == [(1, "exception"), (2, "exception")]
    assert {entry.error_code for entry in app.log(bad)} <= set(codes)
    assert app.log(a) == app.log(b) == []


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_among_retries_harms_no_other_retry(app: App, name: str) -> None:
    """R42."""
    misuse, _ = MISUSES[name]

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if not meta.attempts:
            raise ValueError("first")
        misusing(misuse)(payload, session, meta)

    app.consumer(handler, isolation="range", retry=at_once(1))
    a, bad, b = app.publish_many([Job(name="a"), Job(name="bad"), Job(name="b")])
    assert app.drain() == {"succeeded": 2, "exception": 4}
    assert app.effects() == ["a", "b"]
    assert app.row(bad).state == "dead"
    assert app.story(a) == app.story(b) == [(1, "exception"), (2, "succeeded")]


def test_a_savepoint_of_the_handlers_own_works(app: App, isolation: str) -> None:
    """R42: this is how to contain a database error."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        try:
            with session.begin_nested():
                session.add(Effect(value="undone"))
                session.flush()
                session.add(Effect(value=None))
                session.flush()
        except IntegrityError:
            session.add(Effect(value=f"{payload.name} contained"))
        with session.begin_nested(), session.begin_nested():
            session.add(Effect(value=f"{payload.name} nested"))
        session.begin_nested().rollback()

    app.consumer(handler, isolation=isolation)
    app.publish_many([Job(name="a"), Job(name="b")])
    assert app.drain() == {"succeeded": 2}
    assert app.effects() == ["a contained", "a nested", "b contained", "b nested"]


def test_the_async_session_refuses_what_the_sync_one_does(app: App, isolation: str) -> None:
    """R42: awaited, as an async handler would write it."""
    if not isinstance(app, AsyncApp):
        pytest.skip("async alone")

    async def handler(payload: Job, session: AsyncSession) -> None:
        session.add(Effect(value=payload.name))
        if payload.name == "bad":
            await session.flush()
            await session.commit()

    app.jobs.consumer(group="crew", retry=at_once(0), isolation=isolation)(handler)  # type: ignore[arg-type]
    _, bad, _ = app.publish_many([Job(name="a"), Job(name="bad"), Job(name="b")])
    assert app.drain() == {"succeeded": 2, "exception": 1}
    assert app.effects() == ["a", "b"]
    assert app.log(bad)[0].error_code == "VK0031"


def test_an_integrity_error_that_is_let_out_poisons_no_later_message(
    app: App, isolation: str
) -> None:
    """C11."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.execute(insert(Effect).values(value=payload.name))
        if payload.name == "bad":
            session.execute(insert(Effect).values(value=None))

    app.consumer(handler, isolation=isolation, retry=at_once(1))
    bad, *_ = app.publish_many([Job(name="bad"), *[Job(name=f"{n:02}") for n in range(20)]])
    assert app.drain() == {"succeeded": 20, "exception": 2}
    assert app.effects() == [f"{n:02}" for n in range(20)]
    assert "IntegrityError" in (app.log(bad)[0].error_type or "")


@pytest.mark.parametrize("swallows", [False, True], ids=["let-out", "swallowed"])
def test_a_lost_connection_costs_one_run_and_the_worker_goes_on(
    postgresql_app: App, isolation: str, swallows: bool
) -> None:
    """C11: without a restart, and without a session that stays failed."""
    app = postgresql_app

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.execute(insert(Effect).values(value=payload.name))
        if payload.name != "bad":
            return
        try:
            session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
        except Exception:
            if not swallows:
                raise

    app.consumer(handler, isolation=isolation, retry=at_once(1))
    names = [f"{n:02}" for n in range(20)]
    a, bad, *_ = app.publish_many([Job(name="a"), Job(name="bad"), *[Job(name=n) for n in names]])
    assert app.drain() == {"succeeded": 21, "exception": 2}
    assert app.effects() == [*names, "a"]
    assert app.row(bad).state == "dead"
    assert app.story(bad) == [(1, "exception"), (2, "exception")]
    assert app.log(a) == []
