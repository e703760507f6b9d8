"""Publishing as part of the caller's own transaction."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from typing_extensions import TypedDict

from tests.conformance.harness import GROUP, App, AsyncApp, Job
from tests.conformance.host import Effect
from vulkan_orm import Draft, UsageError
from vulkan_orm.models import ConsumerGroup, Message, Topic


def collect(app: App, **options: Any) -> list[str]:
    """A consumer that remembers the names of what it ran."""
    seen: list[str] = []
    app.consumer(lambda payload, session, meta: seen.append(payload.name), **options)
    return seen


def business(app: App, name: str) -> Callable[[Session], int]:
    def work(session: Session) -> int:
        session.add(Effect(value=name))
        return app.publish_in(session, Job(name=name))

    return work


def test_a_publish_commits_with_the_callers_rows(app: App) -> None:
    """R30."""
    seen = collect(app)
    app.in_transaction(business(app, "kept"))
    app.drain()
    assert (seen, app.effects()) == (["kept"], ["kept"])


def test_a_publish_never_commits_itself(app: App) -> None:
    """R30, G2."""
    seen = collect(app)
    app.upgrade()
    transaction = app.open()
    transaction.run(business(app, "open"))
    assert app.apart(select(func.count()).select_from(Message))[0][0] == 0
    transaction.rollback()
    assert app.drain() == {}
    assert (seen, app.effects()) == ([], [])


def test_a_publish_rolls_back_with_a_savepoint(app: App) -> None:
    """R30."""
    seen = collect(app)

    def work(session: Session) -> None:
        business(app, "before")(session)
        savepoint = session.begin_nested()
        business(app, "undone")(session)
        savepoint.rollback()
        business(app, "after")(session)

    app.in_transaction(work)
    app.drain()
    assert (seen, app.effects()) == (["before", "after"], ["after", "before"])


def test_a_savepoint_that_is_released_keeps_its_publish(app: App) -> None:
    """R30."""
    seen = collect(app)

    def work(session: Session) -> None:
        with session.begin_nested():
            business(app, "inner")(session)

    app.in_transaction(work)
    app.drain()
    assert seen == ["inner"]


def test_a_session_publishes_in_one_transaction_after_another(app: App) -> None:
    """R30."""
    seen = collect(app)
    transaction = app.open()
    transaction.run(business(app, "first"))
    transaction.commit()
    transaction.run(business(app, "second"))
    transaction.rollback()
    transaction.run(business(app, "third"))
    transaction.commit()
    app.drain()
    assert seen == ["first", "third"]


def test_a_publish_does_not_flush_what_the_caller_has_not_finished(app: App) -> None:
    """R30: the caller's objects stay as they are."""

    def work(session: Session) -> None:
        unfinished = Effect()
        session.add(unfinished)
        app.publish_in(session, Job())
        assert unfinished in session.new
        unfinished.value = "finished"

    app.in_transaction(work)
    assert app.effects() == ["finished"]


def test_a_scoped_session_publishes_as_the_session_behind_it(app: App) -> None:
    """R30."""
    seen = collect(app)
    if isinstance(app, AsyncApp):
        app.wait_for(lambda: _publish_scoped_async(app))
    else:
        scoped = scoped_session(sessionmaker(app.vulkan.engine))
        scoped.add(Effect(value="kept"))
        app.jobs.publish(scoped, Job(name="kept"))
        assert len(app.jobs.publish_many(scoped, [Job(name="too")])) == 1
        scoped.commit()
        app.jobs.publish(scoped, Job(name="undone"))
        scoped.rollback()
        scoped.remove()
    app.drain()
    assert (seen, app.effects()) == (["kept", "too"], ["kept"])


async def _publish_scoped_async(app: App) -> None:
    scoped = async_scoped_session(async_sessionmaker(app.vulkan.engine), scopefunc=lambda: 1)
    scoped.add(Effect(value="kept"))
    await app.jobs.publish(scoped, Job(name="kept"))
    assert len(await app.jobs.publish_many(scoped, [Job(name="too")])) == 1
    await scoped.commit()
    await app.jobs.publish(scoped, Job(name="undone"))
    await scoped.rollback()
    await scoped.remove()


def test_the_hosts_sessionmaker_serves_as_well_as_its_engine(app: App) -> None:
    """R40, section 7: a session class of the host's own stays what handlers get."""
    from vulkan_orm import Vulkan

    kinds: list[bool] = []

    class Own(Session):
        pass

    maker: Any = (
        async_sessionmaker(app.vulkan.engine, sync_session_class=Own)
        if isinstance(app, AsyncApp)
        else sessionmaker(app.vulkan.engine, class_=Own)
    )
    app.vulkan = Vulkan(maker)
    app.jobs = app.vulkan.topic("own", Job)
    app.consumer(lambda payload, session, meta: kinds.append(isinstance(session, Own)))
    app.publish()
    assert app.drain() == {"succeeded": 1}
    assert kinds == [True]


@pytest.mark.parametrize("wrong", [None, "session", object()])
def test_what_is_no_session_is_refused(app: App, wrong: Any) -> None:
    """The bad input of issue 2."""
    with pytest.raises(UsageError) as caught:
        app.jobs.publish(wrong, Job())
    assert caught.value.code == "VK0012"


def test_publishing_many_returns_ids_in_order(app: App) -> None:
    """R32."""
    names = [f"{n}" for n in range(300)]
    ids = app.publish_many([Job(name=name) for name in names])
    assert ids == sorted(ids)
    stored = {row.id: row.payload["name"] for row in app.scalars(select(Message))}
    assert [stored[message] for message in ids] == names
    assert app.publish_many([]) == []


def test_each_draft_of_many_has_options_of_its_own(app: App) -> None:
    """R32."""
    drafts = [
        Draft(Job(name="a"), key="k", headers={"h": "1"}, max_retries=1),
        Job(name="b"),
        Draft(Job(name="c"), max_delays=2, delay=60),
    ]
    ids = app.publish_many(drafts)
    rows = {row.id: row for row in app.scalars(select(Message))}
    a, b, c = (rows[message] for message in ids)
    assert (a.key, a.headers, a.max_retries, a.max_delays) == ("k", {"h": "1"}, 1, None)
    assert (b.key, b.headers, b.max_retries, b.deliver_at) == (None, None, None, None)
    assert (c.max_delays, (c.deliver_at - c.published_at).total_seconds()) == (
        2,
        pytest.approx(60, abs=5),
    )


def test_a_missing_topic_is_made_in_the_callers_transaction(app: App) -> None:
    """R39."""
    transaction = app.open()
    transaction.run(business(app, "undone"))
    transaction.rollback()
    assert app.count(Topic) == 0
    app.in_transaction(business(app, "kept"))
    assert app.scalars(select(Topic.name)) == [app.jobs.name]


def test_a_new_group_starts_at_the_earliest_message(app: App) -> None:
    """R39."""
    app.publish_many([Job(name="a"), Job(name="b")])
    seen = collect(app)
    assert app.drain() == {"succeeded": 2}
    app.publish(Job(name="c"))
    late = collect(app, group="late")
    app.drain()
    assert (seen, late) == (["a", "b", "c"], ["a", "b", "c"])


def test_upgrade_makes_the_rows_of_what_is_declared(app: App) -> None:
    """R39."""
    app.vulkan.topic("unread", Job)
    collect(app)
    app.upgrade()
    assert sorted(app.scalars(select(Topic.name))) == [app.jobs.name, "unread"]
    assert app.scalars(select(ConsumerGroup.name)) == [GROUP]
    app.upgrade()
    assert app.count(Topic) == 2


def test_topics_are_logs_of_their_own(app: App) -> None:
    """R39."""
    other = app.vulkan.topic("other", Job)
    seen = collect(app)
    others = collect(app, topic=other)
    app.publish(Job(name="here"))
    app.publish(Job(name="there"), topic=other)
    app.publish(Job(name="here too"))
    app.drain()
    assert (seen, others) == (["here", "here too"], ["there"])


class Note(TypedDict):
    text: str


PAYLOADS: list[tuple[Any, Any]] = [
    (int, 2**70),
    (list[int], [1, 2]),
    (dict[str, float], {"a": 0.1}),
    (str, "text"),
    (int | None, None),
    (Note, {"text": "typed"}),
    (tuple[int, str], (1, "a")),
]


@pytest.mark.parametrize(("kind", "value"), PAYLOADS, ids=str)
def test_whatever_pydantic_adapts_comes_back_exactly(app: App, kind: Any, value: Any) -> None:
    """R31, C49."""
    topic = app.vulkan.topic("any", kind)
    seen: list[Any] = []
    app.consumer(lambda payload, session, meta: seen.append(payload), topic=topic)
    app.publish_many([value], topic=topic)
    app.drain()
    assert seen == [value]
    assert type(seen[0]) is type(value)


def test_an_async_session_is_awaited(app: App) -> None:
    """R30: the call returns something to await, and nothing was done before."""
    if not isinstance(app, AsyncApp):
        pytest.skip("async alone")

    async def work() -> int:
        async with AsyncSession(app.vulkan.engine) as session, session.begin():
            return await app.jobs.publish(session, Job())

    assert app.wait_for(work) > 0
