"""What the tables should hold, worked out a second time and as plainly as possible.

Times are seconds since the example began, all multiples of 500; time moves by multiples of 1000
and every wait is an odd multiple of 500, so nothing is ever due at the very moment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from vulkan_orm.core.outcomes import (
    AnyOutcome,
    Deferred,
    Delayed,
    Ended,
    Failed,
    Interrupted,
    Killed,
    Succeeded,
)

TICK = 500
BACKOFF_BASE, BACKOFF_FACTOR, BACKOFF_MAX = TICK, 3, 9 * TICK


def seconds(instant: datetime, began: datetime) -> int:
    """The model's time: what really passed since then is less than a tick."""
    return int((instant - began + timedelta(seconds=1)).total_seconds() // TICK) * TICK


@dataclass(frozen=True)
class Policy:
    retries: int
    delays: int


@dataclass(frozen=True)
class Message:
    id: int
    payload: int
    max_retries: int | None
    max_delays: int | None
    deliver_at: int | None


@dataclass
class Row:
    """One row of the exception queue."""

    max_retries: int | None
    max_delays: int | None
    state: str = "running"
    attempts: int = 1
    delays: int = 0
    interruptions: int = 0
    granted_retries: int = 0
    granted_delays: int = 0
    due: int = 0
    careful: bool = False
    on_hold: bool = False
    owner: str | None = None
    lease: int | None = None

    @property
    def spent(self) -> int:
        return self.attempts - self.delays

    def retries(self, policy: Policy) -> int:
        asked = policy.retries if self.max_retries is None else self.max_retries
        return min(asked, policy.retries) + self.granted_retries

    def delay_cap(self, policy: Policy) -> int | None:
        caps = [cap for cap in (policy.delays, self.max_delays) if cap]
        return min(caps) + self.granted_delays if caps else None


@dataclass
class Range:
    first: int
    last: int
    progress: int
    owner: str | None
    lease: int | None
    running: int | None = None
    careful: bool = False
    claims: int = 1


@dataclass(frozen=True)
class Entry:
    """One row of the delivery log."""

    message_id: int
    attempt: int | None
    outcome: str
    became: str


@dataclass
class Model:
    began: datetime
    now: int = 0
    position: int = 0
    messages: dict[int, Message] = field(default_factory=dict)
    ranges: dict[int, Range] = field(default_factory=dict)
    queue: dict[int, Row] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    log: list[Entry] = field(default_factory=list)

    # The log and its ranges

    def ahead(self, upto: int | None = None) -> list[int]:
        return sorted(
            each
            for each in self.messages
            if each > self.position and (upto is None or each <= upto)
        )

    def waiting_range(self) -> int | None:
        free = [
            (each.first, number)
            for number, each in self.ranges.items()
            if each.lease is None or each.lease < self.now
        ]
        return min(free)[1] if free else None

    def unread(self) -> bool:
        return bool(self.ahead()) or self.waiting_range() is not None

    def members(self, held: Range) -> list[int]:
        return sorted(each for each in self.messages if held.progress < each <= held.last)

    def is_split(self, number: int, limit: int) -> bool:
        """Whether only the beginning of a range is taken: never of one that may be poisoned."""
        left = self.ranges[number]
        careful = left.careful or left.owner is not None
        return not careful and len(self.members(left)) > limit

    def split(self, number: int, beginning: int, owner: str, lease: int, limit: int) -> None:
        left = self.ranges[number]
        first, last = left.progress + 1, self.members(left)[limit - 1]
        left.first, left.progress = last + 1, last
        self.ranges[beginning] = Range(first, last, first - 1, owner, self.now + lease)

    def take_over(self, number: int, owner: str, lease: int) -> bool:
        """Whether the range still holds something; what it was running when it was lost pays."""
        held = self.ranges[number]
        held.careful = held.careful or held.owner is not None
        held.claims += 1
        held.owner, held.lease = owner, self.now + lease
        if held.running is not None:
            self._kill_first(self.messages[held.running])
            self.move(number, held.running, None, lease)
        return number in self.ranges

    def _kill_first(self, message: Message) -> None:
        row = Row(message.max_retries, message.max_delays, "ready", due=self.now, careful=True)
        self.queue[message.id] = row
        self.log.append(Entry(message.id, 1, "killed", "ready"))

    def move(self, number: int, progress: int, running: int | None, lease: int) -> None:
        held = self.ranges[number]
        if progress >= held.last:
            del self.ranges[number]
            return
        held.progress, held.running, held.lease = progress, running, self.now + lease

    def hand_back(self, number: int, progress: int) -> None:
        held = self.ranges[number]
        if progress >= held.last:
            del self.ranges[number]
            return
        held.progress, held.running = progress, None
        held.owner = held.lease = None

    def report_first(
        self, message_id: int, outcome: AnyOutcome, policy: Policy, *, log_successes: bool
    ) -> None:
        message = self.messages[message_id]
        row = Row(message.max_retries, message.max_delays)
        row.attempts = 0 if isinstance(outcome, Deferred) else 1
        entry = self._settle(message_id, row, outcome, policy)
        if entry.became != "gone":
            self.queue[message_id] = row
        if entry.became != "gone" or log_successes:
            self.log.append(entry)

    # The queue

    def is_due(self, row: Row) -> bool:
        return row.state == "ready" and row.due <= self.now

    def due(self) -> list[int]:
        return [each for each, row in self.queue.items() if self.is_due(row)]

    def claim_due(self, in_order: Sequence[int], limit: int, policy: Policy) -> list[int]:
        """What a claim takes of what is due; what it finds over budget becomes dead."""
        left = list(in_order)
        while left:
            window, left = left[:limit], left[limit:]
            runnable = [each for each in window if not self._bury(each, policy)]
            if runnable:
                apart = [each for each in runnable if not self.queue[each].careful]
                return runnable[:1] if self.queue[runnable[0]].careful else apart
        return []

    def _bury(self, message_id: int, policy: Policy) -> bool:
        row = self.queue[message_id]
        spent = row.spent > row.retries(policy)
        if spent:
            row.state = "dead"
            self.log.append(Entry(message_id, None, "dead", "dead"))
        return spent

    def start(self, message_ids: Iterable[int], owner: str, lease: int) -> None:
        for each in message_ids:
            row = self.queue[each]
            row.on_hold = row.state == "held"
            row.state, row.attempts = "running", row.attempts + 1
            row.owner, row.lease = owner, self.now + lease

    def owns(self, message_id: int, owner: str, attempts: int) -> bool:
        row = self.queue.get(message_id)
        return row is not None and (row.owner, row.attempts) == (owner, attempts)

    def report_retry(self, message_id: int, outcome: AnyOutcome, policy: Policy) -> None:
        row = self.queue[message_id]
        entry = self._settle(message_id, row, outcome, policy)
        self.log.append(entry)
        if entry.became == "gone":
            del self.queue[message_id]

    def recover(self, killed: AnyOutcome, lost: AnyOutcome) -> int:
        ended = [
            each
            for each, row in self.queue.items()
            if row.lease is not None and row.lease < self.now
        ]
        for each in ended:
            row = self.queue[each]
            outcome = killed if row.careful or row.on_hold else lost
            self.report_retry(each, outcome, Policy(0, 0))
        return len(ended)

    # What an operator does

    def redrive(self, row: Row) -> None:
        row.state, row.due = "ready", self.now
        row.granted_retries = row.spent
        row.granted_delays = row.delays - row.interruptions

    def act(self, name: str, message_ids: Sequence[int] | None) -> list[int]:
        fitting, logged, became = _ACTIONS[name]
        changed = sorted(
            each
            for each, row in self.queue.items()
            if row.state in fitting and (message_ids is None or each in message_ids)
        )
        for each in changed:
            if name == "redrive":
                self.redrive(self.queue[each])
            elif name == "discard":
                del self.queue[each]
                self.done.add(each)
            else:
                self.queue[each].state = became
            self.log.append(Entry(each, None, logged, became))
        return changed

    # What becomes of a run

    def _settle(self, message_id: int, row: Row, outcome: AnyOutcome, policy: Policy) -> Entry:
        attempt = None if isinstance(outcome, Deferred) else row.attempts
        word = self._apply(row, outcome, policy)
        row.owner = row.lease = None
        row.on_hold = False
        if row.state == "gone":
            self.done.add(message_id)
        return Entry(message_id, attempt, word, row.state)

    def _apply(self, row: Row, outcome: AnyOutcome, policy: Policy) -> str:
        careful, row.careful, row.due = row.careful, False, self.now
        again = "held" if row.on_hold else "ready"
        match outcome:
            case Succeeded():
                row.state = "gone"
                row.careful = careful
                return "succeeded"
            case Ended():
                row.state = "dead"
                return "terminal"
            case Interrupted(lost=lost):
                row.state, row.careful = again, lost
                row.delays += 1
                row.interruptions += 1
                return "interrupted"
            case Killed():
                row.state, row.careful = again, True
                return "killed"
            case Deferred():
                row.state = "ready"
                row.due = max(self.now, self._seconds(outcome))
                return "deferred"
            case Delayed() if not row.on_hold:
                return self._delay(row, outcome, policy)
            case Delayed() | Failed():
                return self._fail(row, policy)

    def _delay(self, row: Row, outcome: Delayed, policy: Policy) -> str:
        cap = row.delay_cap(policy)
        if cap is not None and row.delays - row.interruptions >= cap:
            row.state = "dead"
            return "delayed"
        row.state = "ready"
        row.delays += 1
        row.due = max(self.now + int(outcome.wait.total_seconds()), self._seconds(outcome))
        return "delayed"

    def _fail(self, row: Row, policy: Policy) -> str:
        if row.spent > row.retries(policy):
            row.state = "dead"
            return "exception"
        failures = max(row.spent - row.granted_retries, 1)
        wait = min(BACKOFF_BASE * BACKOFF_FACTOR ** (failures - 1), BACKOFF_MAX)
        row.state, row.due = "ready", self.now + wait
        return "exception"

    def _seconds(self, outcome: Delayed | Deferred) -> int:
        if outcome.until is None:
            return 0
        return seconds(outcome.until, self.began)


_ACTIONS = {
    "redrive": (("dead", "held"), "redriven", "ready"),
    "hold": (("ready", "dead"), "held", "held"),
    "release": (("held",), "released", "ready"),
    "discard": (("ready", "held", "dead"), "discarded", "gone"),
}
