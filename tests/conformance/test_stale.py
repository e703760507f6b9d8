"""A late report is refused, and what its handler wrote is undone."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, select
from sqlalchemy.orm import Session

from tests.conformance.harness import GROUP, TOPIC, App, Job, at_once
from tests.conformance.host import Effect
from vulkan_orm import Delay, DeliveryRepository, MessageMeta, StaleClaim, Terminal
from vulkan_orm.core.classify import classify
from vulkan_orm.core.outcomes import AnyOutcome, Succeeded
from vulkan_orm.models import RangeClaim
from vulkan_orm.service.watermark import Watermark

LEASE = 60.0
OUTCOMES: list[AnyOutcome] = [
    Succeeded(),
    classify(ValueError("late")),
    classify(Terminal("late")),
    classify(Delay(5)),
]


def elsewhere(app: App, work: Callable[[DeliveryRepository], object]) -> None:
    """What another worker does, on a connection of its own, while a handler runs here."""
    engine = create_engine(app.database.sync_url, poolclass=NullPool)
    with Session(engine) as session, session.begin():
        work(DeliveryRepository(session))


def take_range(repository: DeliveryRepository) -> None:
    found = repository.claim_range(
        repository.group(TOPIC, GROUP), "thief", limit=10, lease=LEASE, watermark=Watermark()
    )
    assert found is not None


def recover(repository: DeliveryRepository) -> None:
    assert repository.recover() > 0


def test_a_range_that_went_to_another_is_not_settled_and_its_writes_are_undone(
    app: App, isolation: str
) -> None:
    """R18, R16: ownership is the token, and a slow handler's effects are not kept twice."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        # Before the session is used: with one writer, nobody could take it over after that.
        app.pass_time(LEASE + 1)
        elsewhere(app, take_range)
        session.add(Effect(value="too late"))

    app.consumer(handler, isolation=isolation)
    app.publish()
    with pytest.raises(StaleClaim) as caught:
        app.drain()
    assert caught.value.code == "VK0030"
    assert app.effects() == []
    assert app.log() == []
    assert app.scalars(select(RangeClaim.owner)) == ["thief"]


def test_a_retry_that_was_taken_back_is_not_settled_and_its_writes_are_undone(
    app: App, isolation: str
) -> None:
    """R18."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if meta.attempts == 0:
            raise ValueError("first")
        if meta.attempts == 1:
            app.pass_time(LEASE + 1)
            elsewhere(app, recover)
        session.add(Effect(value=f"run {meta.attempts}"))

    app.consumer(handler, isolation=isolation)
    message = app.publish()
    with pytest.raises(StaleClaim):
        app.drain()
    assert app.effects() == []
    assert app.row(message).state == "ready"
    assert app.story(message) == [(1, "exception"), (2, "interrupted")]
    assert app.drain() == {"succeeded": 1}
    assert app.effects() == ["run 2"]


def test_one_stale_retry_undoes_its_batch_and_each_effect_is_kept_once(app: App) -> None:
    """R18: a row that is no longer ours undoes the batch; nothing is lost and nothing doubled."""
    once = iter([True])

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if meta.attempts == 0:
            raise ValueError("first")
        if next(once, False):
            app.pass_time(LEASE + 1)
            elsewhere(app, recover)
        session.add(Effect(value=payload.name))

    app.consumer(handler, isolation="range")
    app.publish_many([Job(name="a"), Job(name="b"), Job(name="c")])
    with pytest.raises(StaleClaim):
        app.drain()
    assert app.effects() == []
    app.later(LEASE + 1)
    assert app.effects() == ["a", "b", "c"]
    assert app.queue() == {}


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_a_late_report_of_any_outcome_changes_nothing(app: App, outcome: AnyOutcome) -> None:
    """R18."""
    policy = at_once(5)

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise Delay(1)

    app.consumer(handler)
    message = app.publish()
    app.drain()
    app.pass_time(2)
    (late,) = app.repo("claim_due", app.group(), policy, "slow", limit=10, lease=LEASE)
    app.pass_time(LEASE + 1)
    app.repo("recover")
    before = _state(app, message)
    with pytest.raises(StaleClaim):
        app.repo("apply_outcome", late, outcome, policy)
    assert _state(app, message) == before
    (owned,) = app.repo("claim_due", app.group(), policy, "next", limit=10, lease=LEASE)
    before = _state(app, message)
    with pytest.raises(StaleClaim):
        app.repo("apply_outcome", late, outcome, policy)
    assert _state(app, message) == before
    app.repo("apply_outcome", owned, Succeeded(), policy)
    assert app.queue() == {}


@pytest.mark.parametrize("method", ["settle_range", "hand_back"])
def test_a_late_report_of_a_range_changes_nothing(app: App, method: str) -> None:
    """R18."""
    message = app.publish()
    group = app.group()
    options: dict[str, Any] = {"limit": 10, "lease": LEASE, "watermark": Watermark()}
    late = app.repo("claim_range", group, "slow", **options)
    app.pass_time(LEASE + 1)
    app.repo("claim_range", group, "next", **options)
    extra = {"lease": LEASE} if method == "settle_range" else {}
    with pytest.raises(StaleClaim):
        app.repo(method, late, [], at_once(1), progress=message, **extra)
    assert app.rows(select(RangeClaim.owner, RangeClaim.progress)) == [("next", message - 1)]


def test_a_late_first_delivery_cannot_be_reported_one_by_one_either(app: App) -> None:
    """R18."""
    app.publish()
    group = app.group()
    options: dict[str, Any] = {"limit": 10, "lease": LEASE, "watermark": Watermark()}
    late = app.repo("claim_range", group, "slow", **options).deliveries[0]
    app.pass_time(LEASE + 1)
    app.repo("claim_range", group, "next", **options)
    for outcome in OUTCOMES:
        with pytest.raises(StaleClaim):
            app.repo("apply_outcome", late, outcome, at_once(1))
    assert app.queue() == {}
    assert app.log() == []


def _state(app: App, message: int) -> tuple[object, ...]:
    row = app.row(message)
    return (
        row.state,
        row.attempts,
        row.delays,
        row.owner,
        row.can_run_after,
        row.last_error,
        len(app.log(message)),
    )
