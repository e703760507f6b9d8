"""What a codec writes in one go is what a careful writer would have written, or is refused."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, TypeAdapter
from typing_extensions import TypedDict

from vulkan_orm import PayloadError
from vulkan_orm.service.codec import Codec


class Text(str):
    """A text that is a class of its own."""


class Number(int):
    """A number that is a class of its own."""


class Colour(Enum):
    RED = "rouge"
    NULL = "null"


class Level(IntEnum):
    LOW = 1


@dataclass
class Point:
    x: float
    note: str | None = None


class Note(TypedDict, total=False):
    text: str | None
    number: float


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    text: str | None = None


class Constants(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="constants")

    number: float = 0.0
    anything: Any = None


class Strings(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="strings")

    number: float = 0.0


class Everything(BaseModel):
    text: str = ""
    number: int = 0
    fraction: float | None = None
    named: str | None = Field(None, alias="nämed")
    money: Decimal | None = None
    at: datetime | None = None
    day: date | time | None = None
    span: timedelta | None = None
    who: UUID | None = None
    raw: bytes = b""
    colour: Colour | None = None
    level: Level | None = None
    some: set[int] = set()
    by_number: dict[int, float] = {}
    by_text: dict[str, Any] = {}
    pair: tuple[int, str | None] = (0, None)
    inner: "Everything | None" = None
    point: Point | None = None
    note: Note | None = None
    anything: Any = None
    shown: Annotated[float, PlainSerializer(lambda v: v * 2, float, when_used="json")] = 0.0


def careful(codec: Codec[Any], value: Any) -> str:
    """The text, by way of plain data of which every member is looked at.

    :raises ValueError: for what does not come back, wherever it is.
    """
    adapter: TypeAdapter[Any] = codec._adapter
    valid = adapter.validate_python(value)
    plain = adapter.dump_python(valid, mode="json", warnings="error")
    for each in (*members(plain), *members(adapter.dump_python(valid))):
        if isinstance(each, float) and not math.isfinite(each):
            raise ValueError(each)
    for each in members(plain):
        if isinstance(each, str) and ("\x00" in each or each.encode() is None):
            raise ValueError(each)
    return json.dumps(plain, ensure_ascii=False)


def members(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from members(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from members(each)


def agrees(codec: Codec[Any], value: Any) -> None:
    try:
        wanted = careful(codec, value)
    except Exception:
        with pytest.raises(PayloadError):
            codec.encode(value)
        return
    text = codec.encode(value)
    # Not the text: an exponent or a repeated key may be written in more ways than one.
    assert repr(json.loads(text)) == repr(json.loads(wanted))
    assert repr(codec.decode(text)) == repr(codec.decode(wanted))


# Half a surrogate pair and NUL among them, and what the fast way looks for in a text.
TEXTS = st.one_of(
    st.text(),
    st.text(alphabet='\x00\\u0"\ud83d\ude00é\n'),
    st.sampled_from(["null", "NaN", "Infinity", "\\u0000", "\x00", "\ud83d", "7" * 4301]),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.decimals(), TEXTS, st.binary(),
    st.datetimes(timezones=st.just(UTC)), st.dates(), st.times(), st.timedeltas(), st.uuids(),
    st.sampled_from([*Colour, *Level, Number(3), Text("null"), 10**4299]),
    st.builds(object), TEXTS.map(Text),
)  # fmt: skip
KEYS = st.one_of(TEXTS, st.integers(), st.booleans(), st.uuids(), st.dates())
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.builds(Point, st.floats(), st.none()),
        st.builds(Open, text=st.none(), more=inner),
    ),
    max_leaves=8,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXTS,
    "number": st.integers(),
    "fraction": st.none() | st.floats(),
    "nämed": st.none() | TEXTS,
    "money": st.none() | st.decimals(allow_nan=False),
    "at": st.datetimes(timezones=st.none() | st.just(UTC)),
    "day": st.dates() | st.times(),
    "span": st.timedeltas(),
    "who": st.uuids(),
    "raw": st.binary(),
    "colour": st.sampled_from(Colour),
    "level": st.sampled_from(Level),
    "some": st.sets(st.integers()),
    "by_number": st.dictionaries(st.integers(), st.floats()),
    "by_text": st.dictionaries(TEXTS, ANYTHING, max_size=3),
    "pair": st.tuples(st.integers(), st.none() | TEXTS),
    "inner": st.none() | st.builds(Everything, text=TEXTS),
    "point": st.builds(Point, st.floats(), st.none() | TEXTS),
    "note": st.fixed_dictionaries({}, optional={"text": st.none(), "number": st.floats()}),
    "anything": ANYTHING,
    "shown": st.floats(),
}

ANY: Codec[Any] = Codec(Any)
EVERYTHING: Codec[Everything] = Codec(Everything)
CONFIGURED: list[Codec[Any]] = [Codec(Constants), Codec(Strings)]


@settings(max_examples=400, deadline=None)
@given(ANYTHING)
@example({1: "a\x00", "1": "b"})
@example([None, {"a": None}, math.nan])
@example(["\\u0000", "null", None])
def test_whatever_has_no_type_is_written_exactly_or_refused(value: Any) -> None:
    """R31, C49, C77."""
    agrees(ANY, value)


@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries({}, optional=FIELDS))
def test_fields_of_every_type_are_written_exactly_or_refused(fields: dict[str, Any]) -> None:
    """R31, C49, C77."""
    agrees(EVERYTHING, fields)


@settings(max_examples=100, deadline=None)
@given(st.floats(), st.sampled_from(CONFIGURED), st.sampled_from(["number", "anything"]))
@example(math.inf, CONFIGURED[0], "anything")
@example(math.nan, CONFIGURED[1], "number")
def test_a_float_that_is_none_is_refused_however_a_model_would_write_it(
    value: float, codec: Codec[Any], field: str
) -> None:
    """R31."""
    agrees(codec, {field: value})


@pytest.mark.parametrize("digits", [4299, 4300, 4301, 9000])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_of_more_digits_than_python_reads_back_is_refused(
    digits: int, sign: int
) -> None:
    """R31."""
    agrees(ANY, {"a": [sign * 10 ** (digits - 1)]})


def once(value: Any) -> Callable[[], Iterator[Any]]:
    def members() -> Iterator[Any]:
        yield "first"
        yield value
        yield "last"

    return members


BAD = {"nul": "\x00", "surrogate": "\ud83d", "huge": 10**4300, "object": object()}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_what_can_be_read_only_once_is_never_half_written(value: Any) -> None:
    """R31: looking again would find the rest alone, which has nothing wrong."""
    with pytest.raises(PayloadError):
        ANY.encode(once(value)())


@pytest.mark.parametrize("value", [None, "null", "\\u0000", "NaN", "7" * 4301], ids=ascii)
def test_what_can_be_read_only_once_is_written_whole(value: Any) -> None:
    """R31."""
    assert ANY.decode(ANY.encode(once(value)())) == ["first", value, "last"]


def test_a_payload_of_nothing_suspect_is_written_once_and_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What makes it quick: neither plain data nor another text is made; a None costs one more."""
    looked: list[str] = []
    examined = Codec._examined

    def counted(self: Codec[Any], valid: Any, text: str) -> str:
        looked.append(text)
        return examined(self, valid, text)

    monkeypatch.setattr(Codec, "_examined", counted)
    EVERYTHING.encode(Everything(text="é" * 5_000, number=2**70, pair=(1, "a")))
    assert looked == []
    EVERYTHING.encode(Everything(pair=(1, None)))
    assert len(looked) == 1
