"""What a drain runs, what a worker runs, and that both get to everything."""

from collections import Counter
from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from tests.conformance.harness import GROUP, TOPIC, App, Job, at_once
from tests.conformance.host import Effect
from vulkan_orm import Delay, MessageMeta
from vulkan_orm.consumers import worker

ENDLESS = 10_000
PASSES = 12


@pytest.fixture
def fewer_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a drain comes after 100 passes, which is long to wait for four times."""
    assert worker.MAX_PASSES == 100
    monkeypatch.setattr(worker, "MAX_PASSES", PASSES)


def test_an_empty_topic_drains_to_nothing(app: App) -> None:
    """Section 7."""
    app.consumer(lambda payload, session, meta: None)
    assert app.drain() == {}


def test_messages_run_in_the_order_of_the_log(app: App, isolation: str) -> None:
    """Section 1."""
    seen: list[str] = []
    app.consumer(lambda payload, session, meta: seen.append(payload.name), isolation=isolation)
    names = [f"{n:03}" for n in range(250)]
    app.publish_many([Job(name=name) for name in names])
    assert app.drain() == {"succeeded": 250}
    assert seen == names
    assert app.drain() == {}


@pytest.mark.usefixtures("fewer_passes")
def test_a_row_put_back_and_due_at_once_runs_once_a_pass_until_the_drain_ends(app: App) -> None:
    """Section 7: it always ends."""
    runs: list[int] = []

    def handler(payload: Job, meta: MessageMeta) -> None:
        runs.append(meta.attempts)
        raise Delay(0)

    app.consumer(handler, session=False)
    message = app.publish()
    assert app.drain() == {"delayed": len(runs)}
    assert PASSES - 1 <= len(runs) <= PASSES + 1
    assert app.row(message).state == "ready"


@pytest.mark.usefixtures("fewer_passes")
def test_a_handler_that_feeds_its_own_topic_for_ever_does_not_keep_a_drain_from_ending(
    app: App,
) -> None:
    """Section 7."""
    runs: list[str] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        runs.append(payload.name)
        app.publish_in(session, Job(name="next"))

    app.consumer(handler)
    app.publish()
    assert app.drain() == {"succeeded": len(runs)}
    assert 1 < len(runs) <= PASSES
    assert app.repo("lag", TOPIC, GROUP).total == 1


def test_what_a_handler_publishes_is_drained_too(app: App) -> None:
    """Section 7: until nothing is due, over several topics."""
    second = app.vulkan.topic("second", Job)
    seen: list[str] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        app.publish_in(session, Job(name="follows"), topic=second)

    # Registered first, so that its turn in a pass comes before there is anything.
    app.consumer(lambda payload, session, meta: seen.append(payload.name), topic=second)
    app.consumer(handler)
    app.publish()
    assert app.drain() == {"succeeded": 2}
    assert seen == ["follows"]


def test_what_is_not_due_is_left_alone(app: App) -> None:
    """Section 7."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        raise Delay(3600)

    app.consumer(handler)
    app.publish()
    assert app.drain() == {"delayed": 1}
    assert app.drain() == {}


def test_two_groups_read_a_topic_independently(app: App) -> None:
    """Section 1: one's failures are not the other's."""
    seen: list[str] = []

    def failing(payload: Job, session: Session, meta: MessageMeta) -> None:
        session.add(Effect(value="undone"))
        raise ValueError("mine alone")

    def working(payload: Job, session: Session, meta: MessageMeta) -> None:
        seen.append(payload.name)
        session.add(Effect(value="kept"))

    app.consumer(failing, group="failing", retry=at_once(0))
    app.consumer(working, group="working")
    first, second = app.publish_many([Job(name="a"), Job(name="b")])
    assert app.drain() == {"exception": 2, "succeeded": 2}
    assert seen == ["a", "b"]
    assert list(app.queue("failing")) == [first, second]
    assert app.queue("working") == {}
    assert app.log(group="working") == []
    assert app.effects() == ["kept", "kept"]


@pytest.mark.parametrize("with_session", [True, False], ids=["session", "no-session"])
def test_successes_are_logged_where_the_group_asks_for_it(
    app: App, isolation: str, with_session: bool
) -> None:
    """G5: with success logging on, every run leaves a row."""

    def handler(payload: Job, *rest: object) -> None:
        meta = rest[-1]
        assert isinstance(meta, MessageMeta)
        if payload.name == "once" and not meta.attempts:
            raise ValueError

    app.consumer(handler, session=with_session, isolation=isolation, log_successes=True)
    good, once = app.publish_many([Job(name="good"), Job(name="once")])
    app.drain()
    assert app.story(good) == [(1, "succeeded")]
    assert app.story(once) == [(1, "exception"), (2, "succeeded")]
    assert app.log(good)[0].became == "gone"


def test_waiting_deliveries_take_nobodys_place(app: App) -> None:
    """C74: not the delayed, not those in backoff, not the dead, not those of a lost worker."""
    ran: list[str] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if payload.name == "delayed":
            raise Delay(3600)
        if payload.name == "failing":
            raise ValueError("bad")
        ran.append(payload.name)

    slow = at_once(5).model_copy(update={"backoff_base": timedelta(hours=1)})
    app.consumer(handler, concurrency=2, retry=slow)
    app.publish_many([Job(name=name) for name in ["delayed", "failing", "delayed", "failing"]])
    assert app.drain() == {"delayed": 2, "exception": 2}
    app.pass_time(3601)
    assert len(app.repo("claim_due", app.group(), slow, "lost", limit=9, lease=60)) == 4
    app.publish_many([Job(name="new")] * 50)
    assert app.drain() == {"succeeded": 50}


@pytest.mark.parametrize("flow", ["endless-failures", "endless-new-work"])
def test_new_work_and_retries_both_make_progress(app: App, flow: str) -> None:
    """C59: neither waits for the other to run dry."""
    counted: Counter[str] = Counter()
    enough = 10

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        counted[payload.name] += 1
        if flow == "endless-new-work" and payload.name == "good":
            app.publish_in(session, Job(name="good"))
        if min(counted["bad"], counted["good"]) >= enough:
            app.vulkan.stop()
        if payload.name == "bad":
            raise ValueError("at once again")

    app.consumer(handler, retry=at_once(ENDLESS))
    bad = 20 if flow == "endless-failures" else 1
    good = 100 if flow == "endless-failures" else 2
    app.publish_many([Job(name="bad")] * bad + [Job(name="good")] * good)
    app.run()
    assert min(counted["bad"], counted["good"]) >= enough
    assert app.repo("recover") == 0


def test_a_stopped_worker_leaves_nothing_charged_and_nothing_lost(app: App) -> None:
    """R47: claimed work that did not start is given back."""
    ran: list[str] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        ran.append(payload.name)
        app.vulkan.stop()

    app.consumer(handler, retry=at_once(0))
    app.publish_many([Job(name=str(n)) for n in range(5)])
    app.run()
    assert 1 <= len(ran) < 5
    assert app.log() == []
    while app.repo("lag", TOPIC, GROUP).total:
        app.run()
    assert ran == [str(n) for n in range(5)]


def test_a_stop_gives_claimed_retries_back_uncharged(app: App) -> None:
    """R15: interrupted, which adds to delays and interruptions alike."""

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        delays.append(meta.delays)
        if not meta.attempts:
            raise Delay(0)
        if len(delays) == 4:
            app.vulkan.stop()

    delays: list[int] = []
    app.consumer(handler, retry=at_once(0, max_delays=1))
    messages = app.publish_many([Job(), Job(), Job()])
    app.run()
    stories = sorted(app.story(message)[1:] for message in messages)
    assert stories == [[(2, "interrupted")], [(2, "interrupted")], [(2, "succeeded")]]
    for row in app.queue().values():
        assert (row.state, row.attempts, row.delays, row.interruptions) == ("ready", 2, 2, 1)
        assert row.spent == 0
    assert app.drain() == {"succeeded": 2}
    assert delays == [0, 0, 0, 1, 1, 1], "an interruption is no delay that was asked for"


def test_what_is_held_back_by_a_stop_runs_in_the_next_drain(app: App) -> None:
    """R47."""
    ran: list[str] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        ran.append(payload.name)
        session.add(Effect(value=payload.name))
        if payload.name == "b":
            app.vulkan.stop()

    app.consumer(handler, isolation="range")
    app.publish_many([Job(name=name) for name in "abcd"])
    assert app.drain() == {"succeeded": 2}
    assert app.drain() == {"succeeded": 2}
    assert ran == list("abcd")
    assert app.effects() == list("abcd")


def test_a_group_with_no_message_of_its_own_topic_costs_no_error(app: App) -> None:
    """R39: workers make the rows that are missing."""
    empty = app.vulkan.topic("never published to", Job)
    app.consumer(lambda payload, session, meta: None, topic=empty)
    assert app.drain() == {}
    assert app.repo("lag", empty.name, GROUP).total == 0
