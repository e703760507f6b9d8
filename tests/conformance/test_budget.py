"""How often a delivery runs, and what it knows about that."""

from datetime import timedelta

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from tests.conformance.harness import GROUP, TOPIC, App, Job, at_once
from vulkan_orm import Delay, MessageMeta, RetryPolicy
from vulkan_orm.models import ExceptionQueue
from vulkan_orm.service.watermark import Watermark


def failing(payload: Job, session: Session, meta: MessageMeta) -> None:
    raise ValueError("always")


@pytest.mark.parametrize("retries", [0, 1, 2, 5])
def test_n_retries_mean_n_plus_one_failing_runs_numbered_without_holes(
    app: App, isolation: str, retries: int
) -> None:
    """R9, R11, C14."""
    app.consumer(failing, retry=at_once(retries), isolation=isolation)
    message = app.publish()
    assert app.drain() == {"exception": retries + 1}
    assert app.story(message) == [(n, "exception") for n in range(1, retries + 2)]
    row = app.row(message)
    assert (row.state, row.attempts, row.spent) == ("dead", retries + 1, retries + 1)
    assert [entry.became for entry in app.log(message)] == ["ready"] * retries + ["dead"]
    assert app.later(10_000) == {}


@pytest.mark.parametrize(
    ("asked", "runs"), [(0, 1), (1, 2), (2, 3), (9, 3)], ids=["none", "below", "equal", "above"]
)
def test_a_message_may_ask_for_fewer_retries_never_for_more(
    app: App, asked: int, runs: int
) -> None:
    """R13, C14."""
    app.consumer(failing, retry=at_once(2))
    message = app.publish(max_retries=asked)
    assert app.drain() == {"exception": runs}
    assert len(app.log(message)) == runs
    assert app.row(message).state == "dead"


def test_attempts_count_every_run_and_never_fall(app: App) -> None:
    """R9: delays, failures and a redrive only ever add."""
    counted: list[int] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        counted.append(meta.attempts)
        if meta.attempts % 2:
            raise Delay(0)
        raise ValueError

    app.consumer(handler, retry=at_once(1))
    message = app.publish()
    app.drain()
    app.repo("redrive", TOPIC, GROUP)
    app.drain()
    assert counted == list(range(len(counted)))
    numbers = [entry.attempt for entry in app.log(message) if entry.attempt is not None]
    assert numbers == list(range(1, len(counted) + 1))


def test_a_retry_is_counted_before_it_runs_and_committed(app: App) -> None:
    """R9: the claim counts, so a run that kills its process is counted already."""
    seen: list[tuple[str, int]] = []

    def handler(payload: Job, meta: MessageMeta) -> None:
        # Another connection sees only what has been committed.
        for state, attempts in app.apart(select(ExceptionQueue.state, ExceptionQueue.attempts)):
            seen.append((state, attempts))
        raise ValueError

    app.consumer(handler, session=False, retry=at_once(2))
    app.publish()
    app.drain()
    assert seen == [("running", 2), ("running", 3)]


def test_meta_tells_the_runs_before_and_which_is_the_last(app: App) -> None:
    """R14."""
    seen: list[tuple[int, int, bool]] = []
    ids: set[str] = set()

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        seen.append((meta.attempts, meta.delays, meta.last_run))
        ids.add(meta.delivery_id)
        if meta.attempts == 1:
            raise Delay(0)
        raise ValueError

    app.consumer(handler, retry=at_once(1))
    app.publish()
    assert app.drain() == {"exception": 2, "delayed": 1}
    assert seen == [(0, 0, False), (1, 0, True), (2, 1, True)]
    assert len(ids) == 1


def test_with_no_retries_the_first_run_is_the_last(app: App) -> None:
    """R14, R11."""
    seen: list[bool] = []
    app.consumer(lambda payload, session, meta: seen.append(meta.last_run), retry=at_once(0))
    app.publish()
    app.drain()
    assert seen == [True]


def test_meta_tells_what_was_published(app: App) -> None:
    """R14."""
    metas: list[MessageMeta] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        metas.append(meta)
        if not meta.attempts:
            raise ValueError

    app.consumer(handler)
    before = app.repo("now")
    message = app.publish(key="order-17", headers={"trace": "abc"})
    after = app.repo("now")
    app.drain()
    for meta in metas:
        assert (meta.topic, meta.group, meta.message_id) == (TOPIC, GROUP, message)
        assert (meta.key, dict(meta.headers)) == ("order-17", {"trace": "abc"})
        assert before <= meta.published_at <= after
    assert len({meta.published_at for meta in metas}) == 1


def test_delivery_ids_differ_between_groups_and_messages(app: App) -> None:
    """R14."""
    ids: list[str] = []
    for group in ("one", "two"):
        app.consumer(lambda payload, session, meta: ids.append(meta.delivery_id), group=group)
    app.publish_many([Job(), Job()])
    app.drain()
    assert len(set(ids)) == 4


def test_the_backoff_waits_on_the_databases_clock(app: App) -> None:
    """R2, R10: each failure doubles the wait, up to the policy's maximum."""
    policy = RetryPolicy(
        max_retries=4,
        backoff_base=timedelta(seconds=10),
        backoff_max=timedelta(seconds=30),
        jitter=False,
    )
    app.consumer(failing, retry=policy)
    message = app.publish()
    waits = []
    for _ in range(4):
        assert app.drain() == {"exception": 1}
        # Against the log's time of the failure, and not against now, which a busy machine delays.
        wait = (app.row(message).can_run_after - app.log(message)[-1].logged_at).total_seconds()
        waits.append(round(wait))
        assert app.later(wait - 3) == {}
        app.pass_time(4)
    assert waits == [10, 20, 30, 30]
    assert app.drain() == {"exception": 1}
    assert app.row(message).state == "dead"


def test_what_is_spent_is_one_definition_in_python_and_in_sql(app: App) -> None:
    """R10."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise Delay(60) if payload.name == "delayed" else ValueError()

    app.consumer(handler, retry=at_once(2).model_copy(update={"backoff_base": timedelta(60)}))
    delayed, failed = app.publish_many([Job(name="delayed"), Job(name="failed")])
    app.drain()
    in_sql = dict(
        tuple(row) for row in app.rows(select(ExceptionQueue.message_id, ExceptionQueue.spent))
    )
    in_python = {message: row.spent for message, row in app.queue().items()}
    assert in_sql == in_python == {delayed: 0, failed: 1}
    statement = select(ExceptionQueue.message_id).where(ExceptionQueue.spent > 0)
    assert app.scalars(statement) == [failed]


def test_a_policy_lowered_by_a_deploy_strands_no_row(app: App) -> None:
    """R16, R10: what is over the new budget is made dead by the next claim."""
    app.consumer(failing, retry=at_once(5).model_copy(update={"backoff_base": timedelta(60)}))
    message = app.publish()
    for _ in range(3):
        assert app.drain() == {"exception": 1}
        app.pass_time(100 * 86_400)
    app.redeploy(at_once(1))
    assert app.drain() == {}
    row = app.row(message)
    assert (row.state, row.attempts) == ("dead", 3)
    assert row.payload == {"name": "job", "amount": None}
    assert row.last_error == "ValueError: always"


def test_a_policy_raised_by_a_deploy_holds_at_once(app: App) -> None:
    """R13: the policy lives in code."""
    app.consumer(failing, retry=at_once(0).model_copy(update={"backoff_base": timedelta(60)}))
    app.redeploy(at_once(3))
    message = app.publish()
    assert app.drain() == {"exception": 4}
    assert app.row(message).attempts == 4


def test_a_row_over_budget_is_not_claimed(app: App) -> None:
    """R10: the claim gate."""
    app.consumer(failing, retry=at_once(5).model_copy(update={"backoff_base": timedelta(60)}))
    message = app.publish()
    app.drain()
    app.pass_time(100 * 86_400)
    group = app.group()
    claimed = app.repo("claim_due", group, at_once(0), "me", limit=10, lease=60)
    assert claimed == []
    assert app.row(message).state == "dead"
    assert app.repo("claim_range", group, "me", limit=10, lease=60, watermark=Watermark()) is None


def test_what_is_over_budget_hides_nothing_that_is_due_behind_it(app: App) -> None:
    """R16: however little a worker claims at a time."""
    app.consumer(failing, retry=at_once(5).model_copy(update={"backoff_base": timedelta(60)}))
    over = app.publish_many([Job() for _ in range(3)])
    app.drain()
    within = app.publish()
    app.drain()
    app.pass_time(100 * 86_400)
    twice = update(ExceptionQueue).where(ExceptionQueue.message_id.in_(over)).values(attempts=3)
    app.in_transaction(lambda session: session.execute(twice))
    (claimed,) = app.repo("claim_due", app.group(), at_once(1), "me", limit=1, lease=60)
    assert claimed.message_id == within
    assert [app.row(each).state for each in over] == ["dead"] * 3
    assert [app.story(each)[-1] for each in over] == [(None, "dead")] * 3
