"""One message for one idempotency key, whoever else is publishing it."""

import threading
import time
from collections.abc import Callable

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from tests.conformance.harness import PATIENCE, App, Job, at_once
from tests.conformance.host import Effect
from vulkan_orm import DatabaseError, Delay, Draft, MessageMeta
from vulkan_orm.models import IdempotencyKey, Message


def once(app: App, name: str, key: str = "K") -> Callable[[Session], int]:
    def work(session: Session) -> int:
        session.add(Effect(value=name))
        session.flush()
        return app.publish_in(session, Job(name=name), idempotency_key=key)

    return work


def names(app: App) -> list[str]:
    return [
        payload["name"] for payload in app.scalars(select(Message.payload).order_by(Message.id))
    ]


def wait_until_blocked(app: App) -> None:
    """Until a connection waits for a lock of another; where the database cannot say, at once."""
    if app.on_sqlite:
        return
    blocked = text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database()"
    )
    deadline = time.monotonic() + PATIENCE
    while not app.apart(blocked)[0][0]:  # type: ignore[arg-type]
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def test_a_second_publish_with_the_key_returns_the_first_id_and_adds_nothing(app: App) -> None:
    """R32."""
    first = app.publish(Job(name="first"), idempotency_key="K")
    assert app.publish(Job(name="second"), idempotency_key="K") == first
    assert names(app) == ["first"]


def test_the_same_holds_within_one_transaction_and_the_session_stays_usable(app: App) -> None:
    """R32."""
    ids = app.in_transaction(
        lambda session: [once(app, name)(session) for name in ("first", "second", "third")]
    )
    assert len(set(ids)) == 1
    assert names(app) == ["first"]
    assert app.effects() == ["first", "second", "third"]


def test_a_key_counts_in_its_own_topic_alone(app: App) -> None:
    """R32."""
    other = app.vulkan.topic("other", Job)
    ids = {
        app.publish(idempotency_key="K"),
        app.publish(idempotency_key="K", topic=other),
        app.publish(idempotency_key="L"),
    }
    assert len(ids) == 3


def test_many_with_keys_return_their_ids_in_input_order(app: App) -> None:
    """R32: repeats within the call, keys taken before, and messages without a key."""
    taken = app.publish(Job(name="taken"), idempotency_key="z")
    drafts: list[Draft[Job] | Job] = [
        Job(name="plain 1"),
        Draft(Job(name="b"), idempotency_key="b"),
        Draft(Job(name="again z"), idempotency_key="z"),
        Draft(Job(name="a"), idempotency_key="a"),
        Job(name="plain 2"),
        Draft(Job(name="again b"), idempotency_key="b"),
    ]
    ids = app.publish_many(drafts)
    assert ids[2] == taken
    assert ids[1] == ids[5]
    assert len(set(ids)) == 5
    stored = {row.id: row.payload["name"] for row in app.scalars(select(Message))}
    assert [stored[message] for message in ids] == ["plain 1", "b", "taken", "a", "plain 2", "b"]
    assert len(stored) == 5
    seen: list[str] = []
    app.consumer(lambda payload, session, meta: seen.append(payload.name))
    app.drain()
    assert sorted(seen) == ["a", "b", "plain 1", "plain 2", "taken"]


def test_a_key_of_a_rolled_back_publish_is_free_again(app: App) -> None:
    """R32, C10."""
    transaction = app.open()
    transaction.run(once(app, "undone"))
    transaction.rollback()
    app.in_transaction(once(app, "kept"))
    assert names(app) == ["kept"]


def test_a_key_of_a_rolled_back_savepoint_is_free_again(app: App) -> None:
    """R32, R30."""

    def work(session: Session) -> None:
        savepoint = session.begin_nested()
        once(app, "undone")(session)
        savepoint.rollback()
        once(app, "kept")(session)

    app.in_transaction(work)
    assert names(app) == ["kept"]
    assert app.count(IdempotencyKey) == 1


@pytest.mark.parametrize("first_commits", [True, False], ids=["commits", "rolls-back"])
def test_of_two_transactions_with_one_key_the_second_waits_for_the_first(
    app: App, first_commits: bool
) -> None:
    """C10: never success without a message."""
    app.upgrade()
    first, second = app.open(), app.open()
    id_of_first = first.run(once(app, "first"))

    def work() -> int:
        found = second.run(once(app, "second"))
        second.commit()
        return found

    waiting = app.meanwhile(work)
    wait_until_blocked(app)
    assert not waiting.done()
    if first_commits:
        first.commit()
        assert waiting.result(PATIENCE) == id_of_first
        assert names(app) == ["first"]
        assert app.effects() == ["first", "second"]
    else:
        first.rollback()
        assert waiting.result(PATIENCE)
        assert names(app) == ["second"]
        assert app.effects() == ["second"]


def test_of_five_transactions_where_only_the_last_commits_one_message_exists(app: App) -> None:
    """C10."""
    app.upgrade()
    for n in range(4):
        transaction = app.open()
        transaction.run(once(app, str(n)))
        transaction.rollback()
    app.in_transaction(once(app, "last"))
    assert names(app) == ["last"]


def test_the_same_keys_in_another_order_do_not_deadlock(postgresql_app: App) -> None:
    """R32: keys are taken in one order, whatever order they are given in."""
    app = postgresql_app
    app.upgrade()
    keys = [f"{n}" for n in range(40)]

    def publish(order: list[str]) -> list[int]:
        return app.publish_many([Draft(Job(name=key), idempotency_key=key) for key in order])

    one = app.meanwhile(lambda: publish(keys))
    other = app.meanwhile(lambda: publish(keys[::-1]))
    assert one.result(PATIENCE) == other.result(PATIENCE)[::-1]
    assert len(names(app)) == 40


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_with_a_snapshot_the_loser_gets_an_error_and_a_usable_session(
    postgresql_app: App, level: str
) -> None:
    """R32, C10: a retryable code, the business row still there."""
    app = postgresql_app
    app.upgrade()
    loser = app.open(level)
    loser.run(lambda session: session.execute(select(Effect)).all())
    app.in_transaction(once(app, "winner"))

    def work(session: Session) -> None:
        session.add(Effect(value="loser's"))
        session.flush()
        with pytest.raises(DatabaseError) as caught:
            app.publish_in(session, Job(name="loser"), idempotency_key="K")
        assert caught.value.code == "VK0024"
        assert caught.value.condition.kind == "transient"
        app.publish_in(session, Job(name="without a key"))

    loser.run(work)
    loser.commit()
    assert names(app) == ["winner", "without a key"]
    assert app.effects() == ["loser's", "winner"]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_with_a_snapshot_a_key_nobody_contests_is_simply_taken(
    postgresql_app: App, level: str
) -> None:
    """R32."""
    app = postgresql_app
    transaction = app.open(level)
    first = transaction.run(once(app, "first"))
    assert transaction.run(once(app, "second")) == first
    transaction.commit()
    again = app.open(level)
    assert again.run(once(app, "third")) == first
    again.commit()
    assert names(app) == ["first"]


def test_a_key_in_use_does_not_disturb_the_retry_of_its_message(app: App) -> None:
    """C47: the second publish is settled at publish time, and nobody else is affected."""
    seen: list[str] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if not meta.attempts:
            raise Delay(60)
        seen.append(payload.name)

    app.consumer(handler, retry=at_once(0))
    first = app.publish(Job(name="K"), idempotency_key="K")
    app.publish_many([Job(name=str(n)) for n in range(50)])
    assert app.drain() == {"delayed": 51}
    assert app.publish(Job(name="again"), idempotency_key="K") == first
    assert app.later(61) == {"succeeded": 51}
    assert len(seen) == 51
