"""Not now: delays asked for by a handler, their cap, and messages published for later."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests.conformance.harness import App, Job, at_once
from tests.conformance.host import Effect
from vulkan_orm import Delay, Draft, MessageMeta, RetryPolicy, UsageError

FAR = datetime(2038, 1, 20, 3, 14, 8, tzinfo=UTC)


def seconds_until_due(app: App, message: int) -> float:
    now: datetime = app.repo("now")
    return (app.row(message).can_run_after - now).total_seconds()


def test_a_delay_makes_the_row_ready_later_on_the_databases_clock(app: App) -> None:
    """R8: ready at the database's now + d, one more delay, a row in the log, no effect kept."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.add(Effect(value="undone"))
        raise Delay(timedelta(minutes=5), reason="bank closed")

    app.consumer(handler)
    app.pass_time(86_400)
    message = app.publish()
    assert app.drain() == {"delayed": 1}
    row = app.row(message)
    assert (row.state, row.attempts, row.delays, row.spent) == ("ready", 1, 1, 0)
    assert 290 < seconds_until_due(app, message) <= 300
    assert row.last_error == "bank closed"
    assert app.story(message) == [(1, "delayed")]
    assert app.effects() == []


def test_a_delayed_delivery_waits_until_it_is_due(app: App) -> None:
    """R8."""
    runs: list[int] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        runs.append(meta.delays)
        if not meta.delays:
            raise Delay(300)

    app.consumer(handler)
    app.publish()
    assert app.drain() == {"delayed": 1}
    assert app.later(290) == {}
    assert app.later(20) == {"succeeded": 1}
    assert runs == [0, 1]


def test_a_delay_is_counted_from_the_outcome_and_not_from_the_transactions_start(app: App) -> None:
    """R8: a delay after a long run is not due already."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.add(Effect(value="begins the transaction"))
        session.flush()
        app.pass_time(600)
        raise Delay(60)

    app.consumer(handler)
    message = app.publish()
    assert app.drain() == {"delayed": 1}
    assert 50 < seconds_until_due(app, message) <= 60


def test_until_is_stored_as_it_was_given(app: App) -> None:
    """R6, C67."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise Delay(until=FAR)

    app.consumer(handler)
    message = app.publish()
    app.drain()
    assert app.row(message).can_run_after == FAR


@pytest.mark.parametrize(
    "delay", [Delay(0), Delay(until=datetime(2001, 1, 1, tzinfo=UTC)), Delay(0.0001)]
)
def test_a_delay_of_nothing_means_again_at_once_and_is_no_failure(app: App, delay: Delay) -> None:
    """R6, C67."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if meta.delays < 3:
            raise delay

    app.consumer(handler, retry=at_once(0))
    message = app.publish()
    assert app.drain() == {"delayed": 3, "succeeded": 1}
    assert app.story(message) == [(1, "delayed"), (2, "delayed"), (3, "delayed"), (4, "succeeded")]


BAD_DELAYS: list[dict[str, Any]] = [
    {"wait": -5},
    {"wait": math.nan},
    {"wait": math.inf},
    {"wait": timedelta.max},
    {"wait": 10**12},
    {"wait": "5"},
    {"wait": None},
    {"until": datetime(2030, 1, 1)},
    {"until": datetime(1, 1, 1, tzinfo=UTC)},
    {"until": datetime(1969, 1, 1, tzinfo=UTC)},
]


@pytest.mark.parametrize("arguments", BAD_DELAYS, ids=str)
def test_an_unusable_delay_is_refused_where_it_is_made_and_is_a_failed_run(
    app: App, arguments: dict[str, Any]
) -> None:
    """R6, C67."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise Delay(**arguments)

    app.consumer(handler, retry=at_once(0))
    message = app.publish()
    assert app.drain() == {"exception": 1}
    assert app.log(message)[0].error_code == "VK0008"


def test_at_the_cap_a_delay_dead_letters_with_its_own_text(app: App) -> None:
    """R12."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise Delay(0, reason=f"still closed after {meta.delays}")

    app.consumer(handler, retry=at_once(0, max_delays=2))
    message = app.publish()
    assert app.drain() == {"delayed": 3}
    row = app.row(message)
    assert (row.state, row.attempts, row.delays) == ("dead", 3, 2)
    assert row.last_error == "still closed after 2"
    assert [entry.became for entry in app.log(message)] == ["ready", "ready", "dead"]


def test_without_a_cap_a_delivery_may_be_delayed_without_end(app: App) -> None:
    """R12: 0 means no cap."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if meta.delays < 12:
            raise Delay(0)

    app.consumer(handler, retry=at_once(0))
    app.publish()
    assert app.drain() == {"delayed": 12, "succeeded": 1}


@pytest.mark.parametrize(
    ("policy", "message", "cap"),
    [(2, 1, 1), (2, 2, 2), (2, 9, 2), (2, 0, 2), (0, 2, 2), (2, None, 2)],
    ids=["below", "equal", "above", "no-cap-beats-no-cap", "cap-on-no-cap", "policy"],
)
def test_a_message_may_ask_for_fewer_delays_never_for_more(
    app: App, policy: int, message: int | None, cap: int
) -> None:
    """R13."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise Delay(0)

    app.consumer(handler, retry=at_once(5, max_delays=policy))
    published = app.publish(max_delays=message)
    assert app.drain() == {"delayed": cap + 1}
    row = app.row(published)
    assert (row.state, row.delays) == ("dead", cap)


def test_delays_do_not_inflate_the_backoff_and_errors_do_not_spend_delays(app: App) -> None:
    """C19: many delays, an error, more delays, an error, then success."""
    failing = {20, 26}

    def handler(payload: Job, meta: MessageMeta) -> None:
        if meta.attempts in failing:
            raise ValueError("plain")
        if meta.attempts < 27:
            raise Delay(0)

    policy = RetryPolicy(max_retries=2, backoff_base=timedelta(seconds=10), jitter=False)
    app.consumer(handler, session=False, retry=policy)
    message = app.publish()
    assert app.drain() == {"delayed": 20, "exception": 1}
    assert round(seconds_until_due(app, message)) == 10
    assert app.later(11) == {"delayed": 5, "exception": 1}
    assert round(seconds_until_due(app, message)) == 20
    row = app.row(message)
    assert (row.attempts, row.delays, row.spent) == (27, 25, 2)
    assert app.later(21) == {"succeeded": 1}


@pytest.mark.parametrize("given", ["deliver_at", "delay"])
def test_a_message_for_later_is_put_back_without_a_run(app: App, given: str) -> None:
    """R15: no attempt, a log row without a number, due on the database's clock."""
    attempts: list[int] = []
    app.consumer(lambda payload, session, meta: attempts.append(meta.attempts))
    due = app.repo("now") + timedelta(hours=1)
    options: dict[str, Any] = {"deliver_at": due} if given == "deliver_at" else {"delay": 3600}
    message = app.publish(**options)
    assert app.drain() == {"deferred": 1}
    row = app.row(message)
    assert (row.state, row.attempts, row.delays) == ("ready", 0, 0)
    assert abs((row.can_run_after - due).total_seconds()) < 5
    assert app.story(message) == [(None, "deferred")]
    assert app.later(3500) == {}
    assert app.later(200) == {"succeeded": 1}
    assert attempts == [0]
    assert app.story(message) == [(None, "deferred"), (1, "succeeded")]


def test_a_deferred_message_has_its_whole_budget_left(app: App) -> None:
    """R15, R11."""
    last: list[bool] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        last.append(meta.last_run)
        raise ValueError

    app.consumer(handler, retry=at_once(1))
    message = app.publish(delay=60)
    app.drain()
    assert app.later(61) == {"exception": 2}
    assert last == [False, True]
    assert app.story(message) == [(None, "deferred"), (1, "exception"), (2, "exception")]


def test_a_message_for_a_past_instant_runs_at_once(app: App) -> None:
    """R15."""
    app.consumer(lambda payload, session, meta: None)
    app.publish(deliver_at=datetime(2001, 1, 1, tzinfo=UTC))
    assert app.drain() == {"succeeded": 1}


def test_only_the_later_ones_of_a_range_are_put_back(app: App) -> None:
    """R15."""
    ran: list[str] = []
    app.consumer(lambda payload, session, meta: ran.append(payload.name))
    app.publish_many([Draft(Job(name="later"), delay=60), Job(name="now")])
    assert app.drain() == {"deferred": 1, "succeeded": 1}
    assert app.later(61) == {"succeeded": 1}
    assert ran == ["now", "later"]


@pytest.mark.parametrize(
    "options",
    [
        {"deliver_at": datetime(2030, 1, 1)},
        {"deliver_at": datetime(1, 1, 1, tzinfo=UTC)},
        {"delay": -1},
        {"delay": math.nan},
        {"delay": math.inf},
        {"delay": 10**12},
        {"delay": timedelta.max},
        {"delay": 5, "deliver_at": FAR},
    ],
    ids=str,
)
def test_a_publish_for_an_unusable_time_is_refused_and_harms_nothing(
    app: App, options: dict[str, Any]
) -> None:
    """R6, R31, C67, and the bad input of issue 2."""

    def work(session: Session) -> None:
        session.add(Effect(value="business"))
        with pytest.raises(UsageError) as caught:
            app.publish_in(session, Job(), **options)
        assert caught.value.code in ("VK0007", "VK0008")
        app.publish_in(session, Job(name="good"))

    seen: list[str] = []
    app.consumer(lambda payload, session, meta: seen.append(payload.name))
    app.in_transaction(work)
    app.drain()
    assert (app.effects(), seen) == (["business"], ["good"])
