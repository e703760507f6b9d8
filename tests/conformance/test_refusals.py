"""What cannot be stored is refused at publish, by name, and the caller's session stays usable."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from sqlalchemy.orm import Session

from tests.conformance.harness import App, Job
from tests.conformance.host import Effect
from vulkan_orm import Delay, Draft, MessageMeta, PayloadError, UsageError

SURROGATE = "\ud83d"


class Inner(BaseModel):
    names: list[str] = []
    by_key: dict[str, Any] = {}


class Outer(BaseModel):
    inner: Inner = Inner()
    amount: float = 0.0
    anything: Any = None


def selfish() -> list[Any]:
    members: list[Any] = []
    members.append(members)
    return members


def deep(levels: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


class Rude:
    def __iter__(self) -> Iterator[int]:
        raise ValueError("not today")


def refused(app: App, payload: Any, topic: Any, code: str, *hints: str, **options: Any) -> None:
    """It is refused as said, whereupon the same transaction publishes and commits."""

    def work(session: Session) -> None:
        session.add(Effect(value="business"))
        session.flush()
        with pytest.raises(PayloadError) as caught:
            app.publish_in(session, payload, topic=topic, **options)
        assert caught.value.code == code
        for hint in hints:
            assert hint in str(caught.value)
        str(caught.value).encode()
        with pytest.raises(PayloadError):
            app.publish_many_in(session, [Draft(payload, **options)], topic=topic)
        app.publish_in(session, Job(name="good"))

    seen: list[str] = []
    app.consumer(lambda payload, session, meta: seen.append(payload.name))
    app.in_transaction(work)
    app.drain()
    assert (seen, app.effects()) == (["good"], ["business"])


BAD: dict[str, tuple[Any, tuple[str, ...]]] = {
    "nan": (Outer(amount=math.nan), ("amount",)),
    "inf": (Outer(amount=math.inf), ("amount",)),
    "nan-in-any": (Outer(anything=math.nan), ("anything",)),
    "nan-nested": (Outer(anything=[1, {"x": -math.inf}]), ("anything", "x")),
    "nul": (Outer(anything="x\x00y"), ("anything", "NUL")),
    "nul-nested": (Outer(inner=Inner(names=["a", "b\x00"])), ("inner", "names", "1")),
    "nul-in-a-key": (Outer(inner=Inner(by_key={"k\x00": 1})), ("by_key",)),
    "surrogate": (Outer(anything=SURROGATE), ("anything",)),
    "surrogate-nested": (Outer(inner=Inner(names=[SURROGATE])), ("names",)),
    "surrogate-escape": (Outer(anything=b"\xff".decode("utf8", "surrogateescape")), ("anything",)),
    "selfish": (Outer(anything=selfish()), ()),
    "deep": (Outer(anything=deep(5_000)), ()),
    "object": (Outer(anything=object()), ("anything",)),
    "rude": (Outer(anything=Rude()), ()),
}


@pytest.mark.parametrize("name", BAD)
def test_a_payload_that_no_database_keeps_is_refused_by_the_field(app: App, name: str) -> None:
    """R31, C20, C49, C77."""
    payload, hints = BAD[name]
    refused(app, payload, app.vulkan.topic("outer", Outer), "VK0020", *hints)


WRONG: dict[str, tuple[Any, str]] = {
    "field": ({"amount": "much"}, "amount"),
    "nested": ({"inner": {"names": [1]}}, "inner.names.0"),
    "type": (7, "payload"),
    "none": ([], "payload"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_payload_of_another_type_is_refused_by_the_field(app: App, name: str) -> None:
    """R31."""
    payload, hint = WRONG[name]
    refused(app, payload, app.vulkan.topic("outer", Outer), "VK0020", hint)


def test_an_oversized_payload_is_refused(app: App) -> None:
    """R31: the limit counts bytes, and each topic has its own."""
    small = app.vulkan.topic("small", Outer, max_payload_bytes=100)
    refused(app, Outer(anything="é" * 50), small, "VK0021", "100")


def test_a_payload_just_within_the_limit_is_taken(app: App) -> None:
    """R31."""
    small = app.vulkan.topic("small", str, max_payload_bytes=12)
    assert app.publish("x" * 10, topic=small)
    with pytest.raises(PayloadError):
        app.publish("x" * 11, topic=small)


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "key-nul": ({"key": "a\x00"}, "key"),
    "key-surrogate": ({"key": SURROGATE}, "key"),
    "key-empty": ({"key": ""}, "key"),
    "key-long": ({"key": "k" * 256}, "key"),
    "key-number": ({"key": 7}, "key"),
    "idempotency-nul": ({"idempotency_key": "a\x00"}, "idempotency_key"),
    "idempotency-surrogate": ({"idempotency_key": SURROGATE}, "idempotency_key"),
    "idempotency-empty": ({"idempotency_key": ""}, "idempotency_key"),
    "headers-nul": ({"headers": {"h": "a\x00"}}, "headers"),
    "headers-nul-name": ({"headers": {"h\x00": "a"}}, "headers"),
    "headers-surrogate": ({"headers": {"h": SURROGATE}}, "headers"),
    "headers-number": ({"headers": {"h": 7}}, "headers.h"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_keys_and_headers_that_no_database_keeps_are_refused_by_name(app: App, name: str) -> None:
    """R31, C20, C77."""
    options, hint = OPTIONS[name]
    refused(app, Job(), app.jobs, "VK0020", hint, **options)


@pytest.mark.parametrize("name", ["max_retries", "max_delays"])
@pytest.mark.parametrize("value", [-1, 1.5, True, "3", 10**9])
def test_an_unusable_limit_is_refused_by_name(app: App, name: str, value: Any) -> None:
    """R13."""
    with pytest.raises(UsageError, match=name) as caught:
        app.publish(Job(), **{name: value})
    assert caught.value.code == "VK0007"


def test_one_bad_payload_of_many_refuses_all_before_any_is_stored(app: App) -> None:
    """R31."""
    seen: list[str] = []
    app.consumer(lambda payload, session, meta: seen.append(payload.name))

    def work(session: Session) -> None:
        session.add(Effect(value="business"))
        with pytest.raises(PayloadError):
            app.publish_many_in(session, [Job(name="a"), Job(name="b\x00"), Job(name="c")])

    app.in_transaction(work)
    assert app.drain() == {}
    assert (seen, app.effects()) == ([], ["business"])


@pytest.mark.parametrize("options", [{"delay": 86_400}, {"delay": timedelta(days=400)}], ids=str)
def test_a_publish_for_later_than_the_retention_is_refused(
    app: App, options: dict[str, Any]
) -> None:
    """R21."""
    short = app.vulkan.topic("short", Job, retention=timedelta(days=1))
    refused(app, Job(), short, "VK0023", **options)


def test_a_publish_within_the_retention_is_taken(app: App) -> None:
    """R21."""
    short = app.vulkan.topic("short", Job, retention=timedelta(days=1))
    assert app.publish(Job(), topic=short, delay=86_000)
    with pytest.raises(PayloadError) as caught:
        app.publish(Job(), topic=short, deliver_at=datetime(9000, 1, 1, tzinfo=UTC))
    assert caught.value.code == "VK0023"


TEXTS = [
    "😀",
    "\uffff",
    "\u202eright to left",
    "e\u0301",
    "\\u0000",
    "\\\\u0000",
    '"quoted" \\ and \t\n\r\x01\x1f\x7f',
    "",
    "'; DROP TABLE vulkan_message; --",
]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_valid_unicode_comes_back_bit_for_bit(app: App, text: str) -> None:
    """C77."""
    seen: list[tuple[str, str, str | None, dict[str, str]]] = []

    def handler(payload: Outer, session: Session, meta: Any) -> None:
        seen.append((payload.anything, *payload.inner.by_key, meta.key, dict(meta.headers)))

    outer = app.vulkan.topic("outer", Outer)
    app.consumer(handler, topic=outer)
    payload = Outer(anything=text, inner=Inner(by_key={text: 1}))
    app.publish(payload, topic=outer, key=text or "k", headers={text: text})
    app.drain()
    assert seen == [(text, text, text or "k", {text: text})]


def test_a_megabyte_of_emoji_comes_back(app: App) -> None:
    """C77."""
    text = "😀" * 250_000
    seen: list[bool] = []
    app.consumer(lambda payload, session, meta: seen.append(payload.name == text))
    app.publish(Job(name=text))
    app.drain()
    assert seen == [True]


def test_keys_that_differ_by_case_or_accent_are_different(app: App) -> None:
    """C77."""
    keys = ["order", "Order", "órder", "order "]
    ids = [app.publish(idempotency_key=key) for key in keys]
    assert len(set(ids)) == len(keys)


class Rich(BaseModel):
    money: Decimal
    at: datetime
    who: UUID
    raw: bytes
    some: set[int]
    big: int
    by_number: dict[int, str]
    pair: tuple[int, str]


@dataclass
class Point:
    x: float
    y: float


def test_rich_types_make_an_exact_round_trip(app: App) -> None:
    """C49."""
    rich = Rich(
        money=Decimal("0.10"),
        at=datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
        who=UUID(int=7),
        raw=b"plain",
        some={1, 2},
        big=2**64 + 1,
        by_number={1: "one"},
        pair=(1, "a"),
    )
    seen: list[Any] = []
    for name, value in {"rich": rich, "point": Point(0.1, -0.0)}.items():
        topic = app.vulkan.topic(name, type(value))
        app.consumer(lambda payload, session, meta: seen.append(payload), topic=topic)
        app.publish(value, topic=topic)
    app.drain()
    assert seen == [rich, Point(0.1, -0.0)]
    assert str(seen[0].money) == "0.10"


@pytest.mark.parametrize("name", ["", "a\x00", "n" * 201, SURROGATE, "line\nbreak", 7])
def test_a_topic_or_group_cannot_have_an_unusable_name(app: App, name: Any) -> None:
    """C20, and the bad input of issue 2."""
    with pytest.raises(UsageError) as topic:
        app.vulkan.topic(name, Job)
    with pytest.raises(UsageError) as group:
        app.consumer(lambda payload, session, meta: None, group=name)
    assert topic.value.code == group.value.code == "VK0004"


def test_a_delay_that_outlasts_the_retention_is_warned_of(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """R21: it is granted, and whoever reads the log learns that the message will be gone."""
    short = app.vulkan.topic("short", Job, retention=timedelta(days=1))

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        if payload.name == "until":
            raise Delay(until=datetime(9000, 1, 1, tzinfo=UTC))
        raise Delay(timedelta(hours=1) if payload.name == "soon" else timedelta(days=2))

    app.consumer(handler, topic=short)
    app.publish(Job(name="soon"), topic=short)
    assert app.drain() == {"delayed": 1}
    assert "outlasts" not in caplog.text
    app.publish(Job(name="late"), topic=short)
    assert app.drain() == {"delayed": 1}
    assert "short/crew: a delay of 2 days, 0:00:00 outlasts the topic's retention" in caplog.text
    caplog.clear()
    app.publish(Job(name="until"), topic=short)
    assert app.drain() == {"delayed": 1}
    assert "outlasts" in caplog.text
