"""Handlers that take many messages at a time (R43)."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from tests.conformance.harness import App, Job, SyncApp, at_once
from tests.conformance.host import Effect
from vulkan_orm import Delay, Draft, MessageMeta, Terminal, UsageError
from vulkan_orm.models import Message

Batch = Callable[[list[Job], Session, list[MessageMeta]], Mapping[int, BaseException] | None]


def register(app: App, function: Batch, **options: Any) -> None:
    """The function as a batch handler of the application's colour."""

    def handler(payloads: list[Job], session: Session, metas: list[MessageMeta]) -> Any:
        return function(payloads, session, metas)

    async def async_handler(
        payloads: list[Job], session: AsyncSession, metas: list[MessageMeta]
    ) -> Any:
        return await session.run_sync(lambda sync: function(payloads, sync, metas))

    chosen: Any = handler if isinstance(app, SyncApp) else async_handler
    app.jobs.consumer(group="crew", **options)(chosen)


def names(payloads: list[Job]) -> list[str]:
    return [each.name for each in payloads]


def write(session: Session, payloads: list[Job]) -> None:
    if payloads:
        session.execute(insert(Effect), [{"value": each.name} for each in payloads])


def test_a_batch_handler_gets_the_messages_of_a_range_at_once_and_in_order(app: App) -> None:
    calls: list[tuple[list[str], list[int]]] = []

    def handler(payloads: list[Job], session: Session, metas: list[MessageMeta]) -> None:
        calls.append((names(payloads), [each.message_id for each in metas]))
        write(session, payloads)

    register(app, handler)
    messages = app.publish_many([Job(name=name) for name in "abcde"])
    assert app.drain() == {"succeeded": 5}
    assert calls == [(list("abcde"), messages)]
    assert app.effects() == list("abcde")
    assert app.log() == []


def test_a_batch_is_no_larger_than_the_handler_wants(app: App) -> None:
    calls: list[list[str]] = []

    def handler(payloads: list[Job], session: Session, metas: list[MessageMeta]) -> None:
        calls.append(names(payloads))

    register(app, handler, max_batch=2)
    app.publish_many([Job(name=name) for name in "abcde"])
    assert app.drain() == {"succeeded": 5}
    assert calls == [["a", "b"], ["c", "d"], ["e"]]


def test_an_error_is_the_outcome_of_every_message_of_the_batch_and_undoes_its_writes(
    app: App,
) -> None:
    def handler(payloads: list[Job], session: Session, metas: list[MessageMeta]) -> None:
        write(session, payloads)
        raise Terminal("all of them")

    register(app, handler)
    app.publish_many([Job(name=name) for name in "abc"])
    assert app.drain() == {"terminal": 3}
    assert app.effects() == []
    assert [row.state for row in app.queue().values()] == ["dead"] * 3


def test_what_failed_of_a_batch_runs_again_alone(app: App) -> None:
    """One bad message must not use up the retries of those that came with it."""
    calls: list[list[str]] = []

    def handler(payloads: list[Job], session: Session, metas: list[MessageMeta]) -> None:
        calls.append(names(payloads))
        write(session, payloads)
        if "bad" in names(payloads):
            raise ValueError("one of them")

    register(app, handler, retry=at_once(1))
    app.publish_many([Job(name=name) for name in ("a", "bad", "b")])
    assert app.drain() == {"exception": 4, "succeeded": 2}
    assert sorted(calls[1:]) == [["a"], ["b"], ["bad"]]
    assert sorted(app.effects()) == ["a", "b"]


def by_mapping(failures: dict[int, BaseException]) -> Mapping[int, BaseException]:
    return failures


def by_group(failures: dict[int, BaseException]) -> Mapping[int, BaseException]:
    for place, error in failures.items():
        error.position = place  # type: ignore[attr-defined]
    raise BaseExceptionGroup("some", list(failures.values()))


@pytest.mark.parametrize("tell", [by_mapping, by_group])
def test_each_message_can_have_an_outcome_of_its_own(
    app: App, tell: Callable[[dict[int, BaseException]], Mapping[int, BaseException]]
) -> None:
    errors: dict[str, BaseException] = {
        "bad": Terminal("bad"),
        "later": Delay(timedelta(hours=1)),
        "again": ValueError("again"),
    }

    def handler(
        payloads: list[Job], session: Session, metas: list[MessageMeta]
    ) -> Mapping[int, BaseException] | None:
        write(session, [each for each in payloads if each.name not in errors])
        failures = {
            place: errors[each.name] for place, each in enumerate(payloads) if each.name in errors
        }
        return tell(failures) if failures else None

    register(app, handler, retry=at_once(1))
    kinds = ["a", "bad", "b", "later", "again", "c"]
    ids = dict(zip(kinds, app.publish_many([Job(name=name) for name in kinds]), strict=True))
    assert app.drain() == {"terminal": 1, "delayed": 1, "succeeded": 3, "exception": 2}
    assert sorted(app.effects()) == ["a", "b", "c"]
    assert app.row(ids["bad"]).state == "dead"
    assert app.row(ids["later"]).delays == 1
    assert "again" in (app.log(ids["again"])[0].error_text or "")


@pytest.mark.parametrize(
    "answer",
    [[1], {7: ValueError("beyond")}, {0: "no error"}, {"a": ValueError("no place")}],
)
def test_an_answer_that_names_no_message_fails_the_whole_batch(app: App, answer: Any) -> None:
    """VK0036; guessing which message was meant could lose one."""

    def handler(payloads: list[Job], session: Session, metas: list[MessageMeta]) -> Any:
        write(session, payloads)
        return answer

    register(app, handler, retry=at_once(0))
    message, _ = app.publish_many([Job(name="a"), Job(name="b")])
    assert app.drain() == {"exception": 2}
    assert app.effects() == []
    assert app.log(message)[0].error_code == "VK0036"


def test_a_payload_that_does_not_fit_fails_alone_and_the_others_run(app: App) -> None:
    """R19a."""
    calls: list[list[str]] = []

    def handler(payloads: list[Job], session: Session, metas: list[MessageMeta]) -> None:
        calls.append(names(payloads))

    register(app, handler, retry=at_once(0))
    _, broken, _ = app.publish_many([Job(name=name) for name in ("a", "broken", "c")])
    app.in_transaction(
        lambda session: session.execute(
            update(Message).where(Message.id == broken).values(payload=["no job"])
        )
    )
    assert app.drain() == {"succeeded": 2, "exception": 1}
    assert calls == [["a", "c"]]
    assert app.log(broken)[0].error_code == "VK0022"


def test_a_message_for_later_is_not_in_the_batch(app: App) -> None:
    calls: list[list[str]] = []

    def handler(payloads: list[Job], session: Session, metas: list[MessageMeta]) -> None:
        calls.append(names(payloads))

    register(app, handler)
    app.publish_many([Job(name="a"), Draft(Job(name="later"), delay=3600), Job(name="b")])
    assert app.drain() == {"succeeded": 2, "deferred": 1}
    assert calls == [["a", "b"]]


def test_a_write_that_only_the_commit_refuses_is_the_failure_of_its_message_alone(
    app: App,
) -> None:
    """R41a: the batch comes to nothing and is run again, one by one."""

    def handler(payloads: list[Job], session: Session, metas: list[MessageMeta]) -> None:
        for each in payloads:
            session.add(Effect(value=None if each.name == "bad" else each.name))

    register(app, handler, retry=at_once(1))
    app.publish_many([Job(name=name) for name in ("a", "bad", "b")])
    app.drain()
    assert sorted(app.effects()) == ["a", "b"]


@pytest.mark.parametrize("option", [{"isolation": "message"}, {"max_batch": 0}])
def test_options_that_contradict_a_batch_are_refused(app: App, option: Any) -> None:
    with pytest.raises(UsageError, match="VK0007"):
        register(app, lambda payloads, session, metas: None, **option)


def test_max_batch_is_refused_for_a_handler_of_single_messages(app: App) -> None:
    with pytest.raises(UsageError, match="VK0007"):
        app.consumer(lambda payload, session, meta: None, max_batch=10)


def test_a_batch_handler_that_asks_for_the_meta_of_one_message_is_refused(app: App) -> None:
    def handler(payloads: list[Job], meta: MessageMeta) -> None:
        pass

    with pytest.raises(UsageError, match="VK0005"):
        app.jobs.consumer(group="crew")(handler)
