"""Handlers get what their annotations ask for, or are refused when they are registered."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from tests.conformance.harness import AT_ONCE, App, AsyncApp, Job
from vulkan_orm import MessageMeta, UsageError


def register(app: App, handler: Any, group: str = "crew", **options: Any) -> Any:
    return app.jobs.consumer(group=group, **options)(handler)


def test_the_payload_is_given_by_its_type_whatever_its_name(app: App) -> None:
    """R40."""
    seen: list[object] = []

    def handler(whatever: Job) -> None:
        seen.append(whatever)

    register(app, handler)
    app.publish(Job(name="a", amount=0.5))
    app.drain()
    assert seen == [Job(name="a", amount=0.5)]


def test_the_order_of_parameters_does_not_matter(app: App) -> None:
    """R40."""
    seen: list[tuple[object, ...]] = []
    if isinstance(app, AsyncApp):

        async def handler(meta: MessageMeta, session: AsyncSession, *, job: Job) -> None:
            seen.append((type(meta), isinstance(session, AsyncSession), job.name))

        register(app, handler)
    else:

        def sync_handler(meta: MessageMeta, session: Session, *, job: Job) -> None:
            seen.append((type(meta), isinstance(session, Session), job.name))

        register(app, sync_handler)
    app.publish()
    assert app.drain() == {"succeeded": 1}
    assert seen == [(MessageMeta, True, "job")]


def test_a_handler_may_ask_for_nothing_at_all(app: App) -> None:
    """R40."""
    ran: list[int] = []

    def handler() -> None:
        ran.append(1)

    register(app, handler)
    app.publish()
    assert app.drain() == {"succeeded": 1}
    assert ran == [1]


def test_a_handler_stays_the_function_it_is(app: App) -> None:
    """R40."""

    def handler(payload: Job) -> str:
        return payload.name

    assert register(app, handler) is handler
    assert handler(Job(name="called")) == "called"


def test_a_sync_handler_without_session_runs_on_either_engine(app: App) -> None:
    """R40: on an async engine, in a thread."""
    ran: list[str] = []

    def handler(payload: Job, meta: MessageMeta) -> None:
        ran.append(payload.name)
        if meta.attempts == 0:
            raise ValueError("once")

    register(app, handler, retry=AT_ONCE)
    app.publish()
    assert app.drain() == {"exception": 1, "succeeded": 1}
    assert ran == ["job", "job"]


class Callables:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, payload: Job) -> None:
        self.seen.append("call")

    def method(self, payload: Job) -> None:
        self.seen.append("method")

    def more(self, extra: str, payload: Job, unknown: int = 7) -> None:
        self.seen.append(f"{extra} {unknown}")


class Opaque:
    pass


class Base(BaseModel):
    pass


class Derived(Base):
    pass


def test_methods_partials_and_callable_objects_are_handlers(app: App) -> None:
    """R40."""
    handlers = Callables()
    register(app, handlers, "a")
    register(app, handlers.method, "b")
    register(app, functools.partial(handlers.more, "partial"), "c")
    app.publish()
    assert app.drain() == {"succeeded": 3}
    assert handlers.seen == ["call", "method", "partial 7"]


@pytest.mark.parametrize("annotation", [Derived, Base, BaseModel, Any, object], ids=str)
def test_a_payload_may_be_asked_for_by_a_wider_type(app: App, annotation: Any) -> None:
    """R40."""
    seen: list[object] = []

    def handler(payload: Any) -> None:
        seen.append(payload)

    handler.__annotations__["payload"] = annotation
    topic = app.vulkan.topic("derived", Derived)
    topic.consumer(group="crew")(handler)
    app.publish(Derived(), topic=topic)
    app.drain()
    assert seen == [Derived()]


def unknown_parameter(payload: Job, number: int) -> None: ...
def no_annotation(payload) -> None: ...  # type: ignore[no-untyped-def]
def unresolvable(payload: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def another_type(payload: Derived) -> None: ...
def two_payloads(one: Job, two: Job) -> None: ...
def two_metas(one: MessageMeta, two: MessageMeta) -> None: ...
def positional(payload: Job, /) -> None: ...


def generator(payload: Job) -> Iterator[None]:
    yield


REFUSED: list[Callable[..., Any]] = [
    unknown_parameter,
    no_annotation,
    unresolvable,
    another_type,
    two_payloads,
    two_metas,
    positional,
    generator,
]


@pytest.mark.parametrize("handler", REFUSED, ids=lambda handler: handler.__name__)
def test_a_handler_that_cannot_be_called_is_refused_when_registered(
    app: App, handler: Callable[..., Any]
) -> None:
    """R40, and the bad input of issue 2."""
    with pytest.raises(UsageError, match=handler.__name__) as caught:
        register(app, handler)
    assert caught.value.code == "VK0005"
    assert app.vulkan.consumers == []


def test_a_handler_of_the_other_colour_is_refused_when_registered(app: App) -> None:
    """Section 7."""

    async def asynchronous(payload: Job) -> None: ...

    async def with_async_session(payload: Job, session: AsyncSession) -> None: ...

    def with_session(payload: Job, session: Session) -> None: ...

    wrong = [with_session] if isinstance(app, AsyncApp) else [asynchronous, with_async_session]
    for handler in wrong:
        with pytest.raises(UsageError) as caught:
            register(app, handler)
        assert caught.value.code == "VK0006"


def test_the_calls_of_the_other_colour_are_refused(app: App) -> None:
    """Section 7."""
    vulkan = app.vulkan
    call = vulkan.drain if isinstance(app, AsyncApp) else lambda: vulkan.adrain().send(None)
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.code == "VK0006"


def test_a_sync_handler_that_returns_a_coroutine_has_done_nothing(app: App) -> None:
    """R40: dead with a code that says so, since no retry can help."""

    async def work() -> None: ...

    def handler(payload: Job) -> Any:
        return work()

    register(app, handler)
    message = app.publish()
    assert app.drain() == {"terminal": 1}
    assert app.log(message)[0].error_code == "VK0033"


def test_a_second_consumer_with_the_same_name_is_refused(app: App) -> None:
    """The bad input of issue 2."""

    def handler(payload: Job) -> None: ...

    register(app, handler)
    with pytest.raises(UsageError, match="crew") as caught:
        register(app, handler)
    assert caught.value.code == "VK0003"
    with pytest.raises(UsageError) as topic:
        app.vulkan.topic(app.jobs.name, Job)
    assert topic.value.code == "VK0003"


@pytest.mark.parametrize(
    "options",
    [
        {"isolation": "serializable"},
        {"concurrency": 0},
        {"lease": -1},
        {"lease": 0.01},
        {"treat": {ValueError: 5}},
        {"treat": {"ValueError": 5}},
    ],
    ids=str,
)
def test_an_unusable_option_is_refused_when_registered(app: App, options: dict[str, Any]) -> None:
    """The bad input of issue 2."""

    def handler(payload: Job) -> None: ...

    with pytest.raises(UsageError) as caught:
        register(app, handler, **options)
    assert caught.value.code in ("VK0007", "VK0008")
    assert app.vulkan.consumers == []


def test_a_type_that_cannot_be_adapted_is_refused_as_payload(app: App) -> None:
    """R31."""
    with pytest.raises(UsageError) as caught:
        app.vulkan.topic("odd", Opaque)
    assert caught.value.code == "VK0007"
