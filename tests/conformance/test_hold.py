"""Deliveries on hold: out of everybody's reach until an operator asks."""

from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from tests.conformance.harness import GROUP, TOPIC, App, Job, at_once
from tests.conformance.host import Effect
from vulkan_orm import Delay, MessageMeta, RetryPolicy, Terminal, UsageError

POLICY = RetryPolicy(max_retries=1, backoff_base=timedelta(minutes=1), jitter=False)
LEASE = 5.0


class Script:
    """A handler that does something else on each run."""

    def __init__(self, *errors: BaseException | None) -> None:
        self._errors = iter(errors)
        self.runs: list[int] = []

    def __call__(self, payload: Job, session: Session, meta: MessageMeta) -> None:
        self.runs.append(meta.message_id)
        session.add(Effect(value=payload.name))
        if (error := next(self._errors, None)) is not None:
            raise error


def held(app: App, *then: BaseException | None, policy: RetryPolicy = POLICY) -> tuple[int, Script]:
    """A delivery that failed once and was put on hold."""
    script = Script(ValueError("first"), *then)
    app.consumer(script, retry=policy)
    message = app.publish()
    app.drain()
    assert app.repo("hold", TOPIC, GROUP, [message]) == [message]
    return message, script


def test_a_held_delivery_is_claimed_by_nobody_else(app: App) -> None:
    """R17."""
    message, script = held(app)
    assert app.later(10_000) == {}
    assert app.row(message).state == "held"
    assert script.runs == [message]
    assert app.deliver() == {"succeeded": 1}
    assert app.queue() == {}
    assert app.effects() == ["job"]


def test_a_held_delivery_runs_whatever_its_due_time_and_budget(app: App) -> None:
    """R17: an operator asked."""
    message, script = held(app, Delay(3600), policy=at_once(0))
    assert app.row(message).spent == 1
    assert app.deliver() == {"exception": 1}
    assert app.row(message).state == "dead"
    assert app.repo("hold", TOPIC, GROUP, [message]) == [message]
    assert app.deliver() == {"succeeded": 1}
    assert len(script.runs) == 3


def test_a_delay_of_a_held_run_is_a_failure(app: App) -> None:
    """R17."""
    message, _ = held(app, Delay(3600, reason="later"))
    assert app.deliver() == {"exception": 1}
    row = app.row(message)
    assert (row.state, row.attempts, row.delays, row.spent) == ("dead", 2, 0, 2)
    assert app.story(message)[-1] == (2, "exception")
    assert "later" in (row.last_error or "")


def test_a_failure_of_a_held_run_goes_back_to_the_retries(app: App) -> None:
    """R17: any other outcome is applied as ever."""
    policy = POLICY.model_copy(update={"max_retries": 5})
    message, script = held(app, ValueError("second"), policy=policy)
    assert app.deliver() == {"exception": 1}
    row = app.row(message)
    assert (row.state, row.on_hold) == ("ready", False)
    wait = (row.can_run_after - app.repo("now")).total_seconds()
    assert 110 < wait <= 120
    assert app.later(121) == {"succeeded": 1}
    assert len(script.runs) == 3


def test_a_terminal_of_a_held_run_is_terminal(app: App) -> None:
    """R17."""
    message, _ = held(app, Terminal("no"))
    assert app.deliver() == {"terminal": 1}
    assert app.row(message).state == "dead"
    assert app.effects() == []


def test_only_the_named_held_deliveries_run(app: App) -> None:
    """R17."""
    script = Script(*[ValueError("first")] * 3)
    app.consumer(script, retry=POLICY)
    first, second, third = app.publish_many([Job(name=name) for name in "abc"])
    app.drain()
    app.repo("hold", TOPIC, GROUP, [first, second])
    assert app.deliver([second, third]) == {"succeeded": 1}
    assert {m: row.state for m, row in app.queue().items()} == {first: "held", third: "ready"}
    assert app.effects() == ["b"]
    assert app.deliver() == {"succeeded": 1}
    assert app.deliver() == {}


def test_a_held_run_that_crashes_is_held_again_and_counted(app: App) -> None:
    """R17."""
    message, script = held(app)
    for attempt in (2, 3, 4):
        (delivery,) = app.repo("claim_held", app.group(), f"dead {attempt}", lease=LEASE)
        assert delivery.counters.attempts == attempt
        app.pass_time(LEASE + 1)
        assert app.repo("recover") == 1
        row = app.row(message)
        assert (row.state, row.attempts, row.spent) == ("held", attempt, attempt)
        assert app.story(message)[-1] == (attempt, "killed")
    assert app.drain() == {}
    assert app.row(message).state == "held"
    assert app.deliver() == {"succeeded": 1}
    assert script.runs == [message, message]


def test_a_running_held_delivery_is_not_claimed_twice(app: App) -> None:
    """R17."""
    message, _ = held(app)
    app.repo("claim_held", app.group(), "busy", lease=LEASE)
    assert app.row(message).state == "running"
    assert app.repo("claim_held", app.group(), "other", lease=LEASE) == []
    assert app.deliver() == {}


def test_released_deliveries_have_the_due_time_and_budget_they_had(app: App) -> None:
    """R50."""
    message, script = held(app)
    due = app.row(message).can_run_after
    assert app.repo("release", TOPIC, GROUP, [message]) == [message]
    row = app.row(message)
    assert (row.state, row.attempts, row.can_run_after) == ("ready", 1, due)
    assert app.drain() == {}
    assert app.later(61) == {"succeeded": 1}
    assert script.runs == [message, message]


def test_a_released_delivery_over_budget_is_dead_again(app: App) -> None:
    """R50, R10: a release gives no budget; that is what a redrive is for."""
    message, script = held(app, policy=at_once(0))
    app.repo("release", TOPIC, GROUP)
    assert app.later(1) == {}
    assert app.row(message).state == "dead"
    assert script.runs == [message]


def test_delivering_for_an_unknown_group_names_the_known_ones(app: App) -> None:
    """R39."""
    app.consumer(Script())
    with pytest.raises(UsageError) as caught:
        app.deliver(group="crwe")
    assert caught.value.code == "VK0002"
    assert f"{TOPIC}/{GROUP}" in str(caught.value)
