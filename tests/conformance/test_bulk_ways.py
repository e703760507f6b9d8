"""Many messages in one publish: as JSON documents or by COPY, whichever way, it is the same."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from tests.conformance.harness import App, Job
from tests.conformance.host import Effect
from vulkan_orm import Draft, MessageMeta
from vulkan_orm.models import Message, Topic
from vulkan_orm.service import publisher
from vulkan_orm.store.dialects import Dialect

NEVER = 10**9


@pytest.fixture(params=["documents", "copy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How messages reach the database, where its driver leaves a choice."""
    name: str = request.param
    monkeypatch.setattr(publisher, "MIN_COPIED", 1 if name == "copy" else NEVER)
    return name


ways = pytest.mark.usefixtures("way")


def mixed(amount: int) -> list[Job | Draft[Job]]:
    """Plain and with options by turns, each named by its place."""
    options: list[dict[str, Any]] = [{}, {"key": "k"}, {"max_retries": 2}, {"headers": {"h": "v"}}]
    return [
        Draft(Job(name=str(place)), **options[place % 4]) if place % 4 else Job(name=str(place))
        for place in range(amount)
    ]


def test_twelve_thousand_messages_keep_the_order_they_were_given_in(app: App) -> None:
    """R32."""
    ids = app.publish_many(mixed(12_000))
    assert ids == sorted(set(ids))
    statement = select(Message.payload, Message.key, Message.max_retries).order_by(Message.id)
    stored = app.rows(statement)
    assert [row.payload["name"] for row in stored] == [str(place) for place in range(12_000)]
    assert [row.key for row in stored] == [None, "k", None, None] * 3_000
    assert [row.max_retries for row in stored] == [None, None, 2, None] * 3_000


@ways
def test_a_bulk_publish_rolls_back_with_its_transaction_and_with_a_savepoint(app: App) -> None:
    """R30."""
    app.publish()

    def work(session: Session) -> None:
        session.add(Effect(value="kept"))
        app.publish_many_in(session, [Job(name="before"), Job(name="too")])
        savepoint = session.begin_nested()
        app.publish_many_in(session, [Job(name="undone")])
        savepoint.rollback()
        app.publish_many_in(session, [Job(name="after")])

    transaction = app.open()
    transaction.run(work)
    transaction.rollback()
    assert (app.count(Message), app.effects()) == (1, [])
    app.in_transaction(work)
    names = [row["name"] for row in app.scalars(select(Message.payload).order_by(Message.id))]
    assert (names, app.effects()) == (["job", "before", "too", "after"], ["kept"])


@ways
def test_a_bulk_publish_begins_the_transaction_of_a_session_that_has_none(app: App) -> None:
    """R30."""

    def work(session: Session) -> None:
        assert not session.in_transaction()
        app.publish_many_in(session, [Job()])
        assert session.in_transaction()

    transaction = app.open()
    transaction.run(work)
    assert app.apart(select(Message.id)) == []
    transaction.commit()
    assert app.count(Message) == 1


@ways
def test_a_bulk_publish_makes_a_missing_topic_in_the_callers_transaction(app: App) -> None:
    """R39."""
    transaction = app.open()
    transaction.run(lambda session: app.publish_many_in(session, mixed(8)))
    transaction.rollback()
    assert app.count(Topic) == 0
    assert len(app.publish_many(mixed(8))) == 8
    assert app.scalars(select(Topic.name)) == [app.jobs.name]


TEXTS = [
    "\\", "\\N", "\\.", "\\\\", "\\n", "\\u0041", "\t", "\n", "\r", "\r\n", "\x01\x7f", "a\tb\\\nc",
    '"', "'", "null", "NaN", "Infinity", "\\\\u0000", "😀\u2028\uffff", " ", "{}", "[1]",
]  # fmt: skip


@ways
def test_text_that_means_something_on_the_way_comes_back_bit_for_bit(app: App) -> None:
    """C77: in payloads, keys and headers."""
    seen: list[tuple[str, str | None, dict[str, str]]] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        seen.append((payload.name, meta.key, dict(meta.headers)))

    app.consumer(handler)
    plain = [Job(name=each) for each in TEXTS]
    drafts = [Draft(Job(name=each), key=each, headers={each: each}) for each in TEXTS]
    app.publish_many([*plain, *drafts])
    app.drain()
    assert seen == [
        *((each, None, {}) for each in TEXTS),
        *((each, each, {each: each}) for each in TEXTS),
    ]


VALUES: list[Any] = [
    None, True, 0, -1, 2**53 + 1, -(2**70), 10**4299, 0.1, 5e-324, "", [], {}, [None], {"": None},
    {"a": [1, {"b": "\\"}]}, [[[]]], "x" * 100_000,
]  # fmt: skip
FLOATS = [0.1, -0.0, 1e16, 1e22, 5e-324, 1.7976931348623157e308, 123456789012345680.0]


@ways
@pytest.mark.parametrize(("kind", "values"), [(Any, VALUES), (float, FLOATS)], ids=["any", "float"])
def test_json_of_every_kind_comes_back_exactly(app: App, kind: Any, values: list[Any]) -> None:
    """R31, C49."""
    topic = app.vulkan.topic("any", kind)
    seen: list[Any] = []
    app.consumer(lambda payload, session, meta: seen.append(payload), topic=topic)
    app.publish_many(values, topic=topic)
    app.drain()
    assert seen == values
    assert list(map(type, seen)) == list(map(type, values))


@ways
def test_each_of_many_waits_as_its_own_options_say(app: App) -> None:
    """R32: a delay counts from the publish, on the database's clock."""
    app.pass_time(1_000_000)
    instant = datetime(2200, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    drafts = [
        Draft(Job(), delay=timedelta(hours=1), max_delays=0),
        Draft(Job(), deliver_at=instant, max_retries=0),
        Job(),
    ]
    app.publish_many(drafts)
    delayed, fixed, plain = app.scalars(select(Message).order_by(Message.id))
    assert (delayed.deliver_at - delayed.published_at).total_seconds() == pytest.approx(3600, abs=1)
    assert plain.published_at - datetime.now(UTC) > timedelta(seconds=900_000)
    assert fixed.deliver_at == instant
    assert plain.deliver_at is None
    limits = [(row.max_retries, row.max_delays) for row in (delayed, fixed, plain)]
    assert limits == [(None, 0), (0, None), (None, None)]


@pytest.fixture
def copying(app: App, monkeypatch: pytest.MonkeyPatch) -> App:
    """An application that publishes by COPY alone."""
    if app.on_sqlite:
        pytest.skip("SQLite has no COPY")
    app.publish()
    monkeypatch.setattr(publisher, "MIN_COPIED", 1)
    return app


REFUSAL = text("ALTER TABLE vulkan_message ADD CHECK (payload ->> 'name' <> 'refused')")


def test_what_the_database_refuses_leaves_a_session_that_rolls_back_to_its_savepoint(
    copying: App,
) -> None:
    """R30: the constraint of this test goes with its transaction."""

    def work(session: Session) -> None:
        session.execute(REFUSAL)
        savepoint = session.begin_nested()
        with pytest.raises(IntegrityError) as caught:
            copying.publish_many_in(session, [Job(), Job(name="refused")])
        assert getattr(caught.value.orig, "sqlstate", None) == "23514"
        with pytest.raises(DBAPIError, match="abort"):
            session.execute(select(1))
        savepoint.rollback()
        assert len(copying.publish_many_in(session, [Job(), Job()])) == 2

    transaction = copying.open()
    transaction.run(work)
    transaction.rollback()
    transaction.run(lambda session: copying.publish_many_in(session, [Job()]))
    transaction.commit()
    assert copying.count(Message) == 2


def test_a_connection_that_is_lost_is_given_up_as_in_any_statement(
    copying: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R30: the rollback that follows finds nothing to roll back, and the next begins anew."""

    def cut(connection: Connection) -> None:
        backend = connection.scalar(select(func.pg_backend_pid()))
        copying.apart(select(func.pg_terminate_backend(backend)))

    transaction = copying.open()
    with monkeypatch.context() as patch:
        before_copies(copying, patch, cut)
        with pytest.raises(DBAPIError) as caught:
            transaction.run(lambda session: copying.publish_many_in(session, [Job()]))
    assert caught.value.connection_invalidated
    transaction.rollback()
    transaction.run(lambda session: copying.publish_many_in(session, [Job()]))
    transaction.commit()
    assert copying.count(Message) == 2


def test_without_a_transaction_nothing_is_copied(
    copying: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: ids and rows would be two transactions, and the fence ends with the first."""
    sent: list[Connection] = []
    before_copies(copying, monkeypatch, sent.append)
    copying.publish_many([Job()])
    assert len(sent) == 1
    transaction = copying.open(isolation_level="AUTOCOMMIT")
    transaction.run(lambda session: copying.publish_many_in(session, [Job(), Job()]))
    assert (len(sent), copying.count(Message)) == (1, 4)


def before_copies(
    app: App, monkeypatch: pytest.MonkeyPatch, work: Callable[[Connection], object]
) -> None:
    """Runs work just before rows are sent by COPY."""
    kind = type(app.vulkan.engines.dialect)
    copy: Callable[..., None] = kind.copy

    def preceded(dialect: Dialect, connection: Connection, *args: Any) -> None:
        work(connection)
        copy(dialect, connection, *args)

    monkeypatch.setattr(kind, "copy", preceded)
