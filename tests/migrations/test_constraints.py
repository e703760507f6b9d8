"""The database refuses what the code promises never to write."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, insert, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from vulkan_orm.models import (
    Base,
    ConsumerGroup,
    DeliveryLog,
    ExceptionQueue,
    Message,
    Meta,
    RangeClaim,
    Topic,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING = {"state": "running", "owner": "somebody", "lease_until": NOW}

VALID: dict[type[Base], dict[str, Any]] = {
    ExceptionQueue: {
        "group_id": 1,
        "message_id": 1,
        "state": "ready",
        "attempts": 3,
        "delays": 2,
        "interruptions": 1,
        "can_run_after": NOW,
        "granted_retries": 0,
        "granted_delays": 0,
        "careful": False,
        "on_hold": False,
        "first_failed_at": NOW,
        "published_at": NOW,
    },
    RangeClaim: {
        "group_id": 1,
        "first": 10,
        "last": 20,
        "progress": 9,
        "claims": 1,
        "careful": False,
    },
    DeliveryLog: {
        "group_id": 1,
        "message_id": 1,
        "attempt": 1,
        "outcome": "exception",
        "became": "ready",
        "logged_at": NOW,
    },
    ConsumerGroup: {"topic_id": 1, "name": "another", "position": 0},
    Meta: {"id": 1, "schema_version": 1, "identity": "x", "installation": 1},
}

ILLEGAL: list[tuple[str, type[Base], dict[str, Any]]] = [
    ("running without an owner", ExceptionQueue, {"state": "running"}),
    ("owned without running", ExceptionQueue, {**RUNNING, "state": "ready"}),
    ("running without a lease", ExceptionQueue, {**RUNNING, "lease_until": None}),
    ("a lease without an owner", ExceptionQueue, {"lease_until": NOW}),
    ("more delays than attempts", ExceptionQueue, {"delays": 4}),
    ("more interruptions than delays", ExceptionQueue, {"interruptions": 3}),
    ("negative interruptions", ExceptionQueue, {"interruptions": -1}),
    ("negative grant of retries", ExceptionQueue, {"granted_retries": -1}),
    ("negative grant of delays", ExceptionQueue, {"granted_delays": -1}),
    ("an unknown state", ExceptionQueue, {"state": "gone"}),
    ("a group that is not there", ExceptionQueue, {"group_id": 77}),
    ("a range that ends before it begins", RangeClaim, {"first": 21, "progress": 20}),
    ("progress before the range", RangeClaim, {"progress": 8}),
    ("progress after the range", RangeClaim, {"progress": 21}),
    ("running what is done", RangeClaim, {"progress": 12, "running": 12}),
    ("running outside of the range", RangeClaim, {"running": 21}),
    ("a range owned without a lease", RangeClaim, {"owner": "somebody"}),
    ("a range leased without an owner", RangeClaim, {"lease_until": NOW}),
    ("attempt zero", DeliveryLog, {"attempt": 0}),
    ("becoming something unknown", DeliveryLog, {"became": "lost"}),
    ("a position before the log", ConsumerGroup, {"position": -1}),
    ("a second row of vulkan_meta", Meta, {"id": 2}),
]
LEGAL: list[tuple[str, type[Base], dict[str, Any]]] = [
    ("a ready delivery", ExceptionQueue, {}),
    ("a running delivery", ExceptionQueue, RUNNING),
    ("only delays", ExceptionQueue, {"delays": 3, "interruptions": 3}),
    ("a new range", RangeClaim, {}),
    ("a range that runs its last message", RangeClaim, {"progress": 19, "running": 20}),
    ("a held range", RangeClaim, {"owner": "somebody", "lease_until": NOW}),
    ("a run", DeliveryLog, {}),
    ("no run", DeliveryLog, {"attempt": None}),
    ("what is gone", DeliveryLog, {"became": "gone"}),
]


@pytest.fixture
def session(ready: Engine) -> Iterator[Session]:
    with ready.begin() as connection:
        connection.execute(insert(Topic).values(id=1, name="topic"))
        connection.execute(insert(ConsumerGroup).values(id=1, topic_id=1, name="g", position=0))
    with Session(ready) as session:
        if ready.dialect.name == "sqlite":
            session.execute(text("PRAGMA foreign_keys = ON"))
            session.execute(text("BEGIN"))  # the driver sends none before a savepoint
        yield session


def test_illegal_rows_are_refused(session: Session, subtests: pytest.Subtests) -> None:
    for what, model, values in ILLEGAL:
        with (
            subtests.test(what),
            pytest.raises(IntegrityError),
            session.begin_nested(),
        ):
            session.execute(insert(model).values(VALID[model] | values))


def test_legal_rows_are_taken(session: Session, subtests: pytest.Subtests) -> None:
    for what, model, values in LEGAL:
        with subtests.test(what), session.begin_nested() as savepoint:
            session.execute(insert(model).values(VALID[model] | values))
            savepoint.rollback()


def test_an_attempt_is_logged_once(session: Session) -> None:
    """R9"""
    session.execute(insert(DeliveryLog).values(VALID[DeliveryLog]))

    with pytest.raises(IntegrityError):
        session.execute(insert(DeliveryLog).values(VALID[DeliveryLog]))


def test_what_did_not_run_is_logged_as_often_as_it_happens(session: Session) -> None:
    """R15: it carries no attempt number."""
    row = VALID[DeliveryLog] | {"attempt": None}
    session.execute(insert(DeliveryLog).values(row))
    session.execute(insert(DeliveryLog).values(row))


def test_a_group_has_one_row_a_message(session: Session) -> None:
    session.execute(insert(ExceptionQueue).values(VALID[ExceptionQueue]))

    with pytest.raises(IntegrityError):
        session.execute(insert(ExceptionQueue).values(VALID[ExceptionQueue]))


def test_the_sequence_of_message_ids_hands_them_out_one_by_one(ready_postgresql: Engine) -> None:
    """R33: of ids that a session holds in stock, the fence could prove nothing."""
    with ready_postgresql.connect() as connection:
        found = connection.execute(
            text(
                "SELECT seqcache, seqincrement, seqcycle FROM pg_sequence"
                " WHERE seqrelid = 'vulkan_message_id_seq'::regclass"
            )
        ).one()

    assert tuple(found) == (1, 1, False)


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_a_message_cannot_slip_past_the_fence(ready_postgresql: Engine) -> None:
    """R33: only a publish draws an id, so session.add() has none to give."""
    message = Message(topic_id=1, payload={}, published_at=NOW)
    with Session(ready_postgresql) as session:
        session.add(message)

        with pytest.raises(IntegrityError):
            session.flush()
