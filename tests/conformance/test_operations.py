"""What an operator does to deliveries, and what the dead keep."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tests.conformance.harness import GROUP, TOPIC, App, Job, at_once
from tests.conformance.host import Effect
from vulkan_orm import (
    Delay,
    DeliveryRepository,
    MessageMeta,
    RetryPolicy,
    Terminal,
    UsageError,
)
from vulkan_orm.models import Message
from vulkan_orm.service.watermark import Watermark


def refusing(payload: Job, session: Session, meta: MessageMeta) -> None:
    raise Terminal("no")


def dead(app: App, **options: Any) -> int:
    """A message that is dead in its group."""
    app.consumer(refusing)
    message = app.publish(Job(name="kept", amount=0.1), **options)
    app.drain()
    return message


def test_a_dead_delivery_keeps_everything_its_publish_said(app: App) -> None:
    """C76, R50: retention must not take what may still be redriven."""
    message = dead(
        app,
        key="order-17",
        headers={"trace": "abc"},
        idempotency_key="once",
        max_retries=3,
        max_delays=4,
    )
    published = app.scalars(select(Message.published_at).where(Message.id == message))[0]
    app.in_transaction(lambda session: session.execute(delete(Message)))
    (row,) = app.repo("dead", TOPIC, GROUP)
    assert row.payload == {"name": "kept", "amount": 0.1}
    assert row.headers == {"trace": "abc"}
    assert (row.key, row.max_retries, row.max_delays) == ("order-17", 3, 4)
    assert row.published_at == published
    assert (row.attempts, row.last_error) == (1, "Terminal: no")


def test_a_redriven_delivery_runs_from_its_own_copy(app: App) -> None:
    """C76: the message itself may be gone from the log."""
    seen: list[tuple[Job, str | None, dict[str, str]]] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        seen.append((payload, meta.key, dict(meta.headers)))
        if len(seen) == 1:
            raise Terminal("no")

    app.consumer(handler)
    app.publish(Job(name="kept", amount=0.1), key="k", headers={"trace": "abc"})
    app.drain()
    app.in_transaction(lambda session: session.execute(delete(Message)))
    app.repo("redrive", TOPIC, GROUP)
    assert app.drain() == {"succeeded": 1}
    assert seen[0] == seen[1]


def test_a_message_whose_log_entry_is_gone_ends_dead_and_says_so(app: App) -> None:
    """R21: a delay that outlasts the retention is a message gone before it runs."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise Delay(3600)

    app.consumer(handler)
    message = app.publish()
    app.drain()
    app.in_transaction(lambda session: session.execute(delete(Message)))
    assert app.later(3601) == {"terminal": 1}
    row = app.row(message)
    assert row.state == "dead"
    assert "log" in (row.last_error or "")
    assert app.log(message)[-1].error_code == "VK0035"


def test_a_redrive_goes_only_to_its_own_group(app: App) -> None:
    """C76."""
    ran: list[str] = []
    app.consumer(refusing)
    app.consumer(lambda payload, session, meta: ran.append("other"), group="other")
    app.publish()
    app.drain()
    app.repo("redrive", TOPIC, GROUP)
    app.drain()
    assert ran == ["other"]


DEATHS: dict[str, Callable[[], BaseException]] = {
    "retries": lambda: ValueError("always"),
    "delays": lambda: Delay(0),
    "terminal": lambda: Terminal("no"),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_redrive_gives_a_fresh_budget_without_resetting_the_counters(
    app: App, death: str
) -> None:
    """R50, C41: whatever it died of, the first error of the new round does not kill it."""
    script: list[Callable[[], BaseException]] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if script:
            raise script.pop(0)()

    script += [DEATHS[death]] * 2
    app.consumer(handler, retry=at_once(1, max_delays=1))
    message = app.publish()
    app.drain()
    row = app.row(message)
    assert row.state == "dead"
    script[:] = [DEATHS["delays"], DEATHS["retries"]]
    assert app.repo("redrive", TOPIC, GROUP, by="ann", reason="mended") == [message]
    fresh = app.row(message)
    assert (fresh.state, fresh.attempts, fresh.delays) == ("ready", row.attempts, row.delays)
    assert (fresh.granted_retries, fresh.granted_delays) == (row.spent, row.delays)
    assert app.drain() == {"delayed": 1, "exception": 1, "succeeded": 1}
    numbers = [attempt for attempt, _ in app.story(message) if attempt is not None]
    assert numbers == list(range(1, row.attempts + 4))


def test_after_a_redrive_the_budget_is_the_policys_again_and_no_more(app: App) -> None:
    """R50, R11."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise ValueError("always")

    app.consumer(handler, retry=at_once(1))
    message = app.publish()
    for round_ in (1, 2, 3):
        assert app.drain() == {"exception": 2}
        assert app.row(message).attempts == 2 * round_
        assert app.repo("redrive", TOPIC, GROUP, message) == [message]


def test_the_backoff_after_a_redrive_begins_anew(app: App) -> None:
    """R50: the backoff counts from what was granted."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise ValueError("always")

    policy = RetryPolicy(max_retries=2, backoff_base=timedelta(minutes=1), jitter=False)
    app.consumer(handler, retry=policy)
    message = app.publish()
    for _ in range(3):
        app.drain()
        app.pass_time(1000)
    app.repo("redrive", TOPIC, GROUP)
    app.drain()
    wait = (app.row(message).can_run_after - app.repo("now")).total_seconds()
    assert 50 < wait <= 60


def test_actions_leave_rows_in_the_log_that_say_who_and_why(app: App) -> None:
    """R50, C41."""
    message = dead(app)
    for action in ("hold", "release", "hold", "redrive", "discard"):
        assert app.repo(action, TOPIC, GROUP, [message], by="ann", reason="ticket 7") == [message]
    entries = app.log(message)[1:]
    assert [(entry.attempt, entry.outcome, entry.became) for entry in entries] == [
        (None, "held", "held"),
        (None, "released", "ready"),
        (None, "held", "held"),
        (None, "redriven", "ready"),
        (None, "discarded", "gone"),
    ]
    assert {(entry.owner, entry.error_text) for entry in entries} == {("ann", "ticket 7")}


@pytest.mark.parametrize("action", ["hold", "redrive", "discard", "release"])
def test_doing_it_twice_is_harmless(app: App, action: str) -> None:
    """R50."""
    message = dead(app)
    if action == "release":
        app.repo("hold", TOPIC, GROUP)
    assert app.repo(action, TOPIC, GROUP) == [message]
    before = len(app.log(message))
    assert app.repo(action, TOPIC, GROUP) == []
    assert app.repo(action, TOPIC, GROUP, [message]) == []
    assert len(app.log(message)) == before


@pytest.mark.parametrize("action", ["hold", "redrive", "discard", "release"])
def test_a_running_delivery_is_never_touched(app: App, action: str) -> None:
    """R50: each acts on the state it saw."""
    message = dead(app)
    app.repo("redrive", TOPIC, GROUP)
    app.repo("claim_due", app.group(), at_once(5), "busy", limit=1, lease=60)
    before = len(app.log(message))
    assert app.repo(action, TOPIC, GROUP, [message]) == []
    row = app.row(message)
    assert (row.state, row.owner) == ("running", "busy")
    assert len(app.log(message)) == before


def test_a_ready_delivery_is_not_redriven(app: App) -> None:
    """R50: it has a budget already."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise Delay(60)

    app.consumer(handler)
    message = app.publish()
    app.drain()
    assert app.repo("redrive", TOPIC, GROUP, message) == []
    assert app.row(message).granted_delays == 0


def test_a_discarded_delivery_is_gone_for_good_and_the_log_remembers(app: App) -> None:
    """R50."""
    message = dead(app)
    app.repo("discard", TOPIC, GROUP, message)
    assert app.queue() == {}
    assert app.later(10_000) == {}
    assert [outcome for _, outcome in app.story(message)] == ["terminal", "discarded"]


def test_an_action_is_part_of_the_callers_transaction(app: App) -> None:
    """R50, R30."""
    message = dead(app)

    def work(session: Session) -> None:
        session.add(Effect(value="business"))
        assert DeliveryRepository(session).redrive(TOPIC, GROUP) == [message]

    transaction = app.open()
    transaction.run(work)
    transaction.rollback()
    assert app.row(message).state == "dead"
    assert app.effects() == []
    assert len(app.log(message)) == 1


def test_dead_deliveries_come_a_page_at_a_time(app: App) -> None:
    """R50."""
    app.consumer(refusing)
    messages = app.publish_many([Job()] * 5)
    app.drain()
    first = app.repo("dead", TOPIC, GROUP, limit=3)
    rest = app.repo("dead", TOPIC, GROUP, limit=3, after=first[-1].message_id)
    assert [row.message_id for row in [*first, *rest]] == messages


def test_lag_tells_what_is_ahead_and_what_is_claimed(app: App) -> None:
    """R50."""
    app.consumer(refusing)
    group = app.group()
    app.publish_many([Job()] * 5)
    app.repo("claim_range", group, "busy", limit=2, lease=60, watermark=Watermark())
    lag = app.repo("lag", TOPIC, GROUP)
    assert (lag.ahead, lag.claimed, lag.total) == (3, 2, 5)


@pytest.mark.parametrize(
    "method", ["dead", "redrive", "hold", "release", "discard", "lag", "group"]
)
def test_an_unknown_topic_or_group_is_an_error_that_names_the_known_ones(
    app: App, method: str
) -> None:
    """R39."""
    app.consumer(refusing)
    app.drain()
    with pytest.raises(UsageError, match=f"VK0002.*{GROUP}"):
        app.repo(method, TOPIC, "crwe")
    with pytest.raises(UsageError, match=f"VK0001.*{TOPIC}"):
        app.repo(method, "jbos", GROUP)
