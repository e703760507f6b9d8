"""The values that pass between the services and the consumers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, overload

from vulkan_orm.columns import in_utc
from vulkan_orm.core.budget import Counters
from vulkan_orm.core.outcomes import AnyOutcome


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group as the database knows it."""

    topic: str
    name: str
    id: int
    topic_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.name}"


# Not frozen, for a frozen one takes four times as long to make.
@dataclass(slots=True)
class Delivery:
    """One message for one group, owned by whoever claimed it.

    ``counters`` include the run in hand. ``payload`` and ``headers_text`` are JSON as stored, the
    former None where retention took the message before it ran.
    """

    group: Group
    message_id: int
    key: str | None
    payload: str | None
    headers_text: str | None
    published: datetime
    owner: str
    counters: Counters
    max_retries: int | None = None
    max_delays: int | None = None
    first: bool = True
    on_hold: bool = False
    careful: bool = False
    deferred_until: datetime | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        # Where there are none, a column may hold nothing or a JSON null.
        headers: Mapping[str, str] | None = json.loads(self.headers_text or "null")
        return headers or {}

    @property
    def published_at(self) -> datetime:
        return in_utc(self.published)


class Deliveries(Sequence[Delivery]):
    """Deliveries of one claim, each made from its row only where somebody asks for it.

    ``payloads`` are the texts to decode: None where there is nothing to run.
    """

    def __init__(
        self,
        rows: Sequence[Any],
        make: Callable[[Any], Delivery],
        payload: Callable[[Any], str | None],
    ) -> None:
        self._rows = rows
        self._make = make
        self._payload = payload
        self.payloads = list(map(payload, rows))

    @classmethod
    def of(cls, deliveries: Sequence[Delivery]) -> "Deliveries":
        """Deliveries that are made already."""
        return cls(deliveries, lambda each: each, lambda each: each.payload)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Delivery: ...

    @overload
    def __getitem__(self, place: slice) -> "Deliveries": ...

    def __getitem__(self, place: int | slice) -> "Delivery | Deliveries":
        if isinstance(place, slice):
            return Deliveries(self._rows[place], self._make, self._payload)
        return self._make(self._rows[place])


@dataclass(slots=True)
class Report:
    """What a run came to. ``began`` is monotonic time, ``duration`` seconds."""

    delivery: Delivery
    outcome: AnyOutcome
    duration: float | None = None
    began: float | None = None


@dataclass(frozen=True, slots=True)
class ClaimedRange:
    """A range of the log that is ours until its lease ends."""

    group: Group
    id: int
    owner: str
    first: int
    last: int
    progress: int
    careful: bool
    deliveries: Deliveries


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind: messages nobody claimed, and claimed ones not yet done."""

    ahead: int
    claimed: int

    @property
    def total(self) -> int:
        return self.ahead + self.claimed


@dataclass(frozen=True, slots=True)
class Blocker:
    """An open transaction that published to a topic and so holds its readers back."""

    pid: int
    application: str
    state: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One line of ``vulkan status``."""

    topic: str
    group: str
    lag: Lag
    states: Mapping[str, int] = field(default_factory=dict)
    blockers: Sequence[Blocker] = ()
