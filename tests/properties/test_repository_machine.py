"""The repository against a model: whatever the order of events, the rules G1 to G6 hold.

Each step is a transaction of a worker, a publisher or an operator; after it, every row is where
the model says, and the rules are checked on what the database holds.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import create_engine, event, select
from sqlalchemy.orm import Session

from tests.databases import Database
from tests.properties.model import (
    BACKOFF_BASE,
    BACKOFF_FACTOR,
    BACKOFF_MAX,
    TICK,
    Entry,
    Message,
    Model,
    Policy,
    Range,
    Row,
)
from tests.properties.snapshot import Snapshot, empty, snapshot
from vulkan_orm import DeliveryRepository, Draft, RetryPolicy, StaleClaim, Vulkan
from vulkan_orm.core.outcomes import (
    AnyOutcome,
    Deferred,
    Delayed,
    Ended,
    ErrorText,
    Failed,
    Interrupted,
    Killed,
    Succeeded,
)
from vulkan_orm.models import ExceptionQueue
from vulkan_orm.service.deliveries import ClaimedRange, Delivery, Report
from vulkan_orm.service.watermark import Watermark
from vulkan_orm.store import clock

T = TypeVar("T")
DEEP = os.environ.get("VULKAN_TEST_HYPOTHESIS") == "deep"
STEPS = 40
EXAMPLES = {"sqlite": 60, "postgresql": 50}
WORKERS = 2
ERROR = ErrorText("ValueError", "broken")
PUBLISHES = ("many", "many", "once", "gap")
OPERATIONS = ("redrive", "redrive", "redrive", "hold", "release", "discard")

SMALL = st.integers(0, 3)
LIMITS = st.none() | SMALL
POLICIES = st.builds(Policy, SMALL, SMALL)
WAITS = st.sampled_from([0, TICK, 3 * TICK, 7 * TICK])
LEASES = st.sampled_from([TICK, 3 * TICK])
WORKER = st.integers(0, WORKERS - 1)
SIZES = st.integers(1, 5)
PASSED = st.sampled_from([0, 0, 2, 20])
OFTEN = st.sampled_from([True, True, True, False])
RARELY = st.sampled_from([False, False, False, True])
LEFT = st.sampled_from(["going on", "going on", "handed back", "lost"])


@dataclass
class HeldRange:
    """A range as its worker sees it, whether or not it still has it."""

    claimed: ClaimedRange
    rest: list[Delivery] = field(init=False)

    def __post_init__(self) -> None:
        self.rest = list(self.claimed.deliveries)

    def progress(self) -> int:
        return self.rest[0].message_id - 1 if self.rest else self.claimed.last

    def running(self) -> int | None:
        """What a careful worker names: nothing where the next message is only put off."""
        runs = self.rest and self.claimed.careful and self.rest[0].deferred_until is None
        return self.rest[0].message_id if runs else None


class RepositoryMachine(RuleBasedStateMachine):
    def __init__(self, vulkan: Vulkan) -> None:
        super().__init__()
        self.vulkan = vulkan
        self.engines = vulkan.engines
        self.topic = vulkan.topics["topic"]
        self.other = vulkan.topics["other"]
        self.fenced = self.engines.dialect.ids_commit_out_of_order
        clock.set_offset(0)
        with self.engines.session() as session, session.begin():
            empty(session)
            repository = DeliveryRepository(session)
            self.group = repository.ensure_group("topic", "group")
            began = repository.now()
        self.model = Model(began)
        self.policy = Policy(1, 1)
        self.watermarks = [Watermark() for _ in range(WORKERS)]
        self.ranges: list[HeldRange] = []
        self.batches: list[list[Delivery]] = []
        self.open: list[tuple[Session, Message]] = []
        self.owners = count()
        self.payloads = count(1)
        self.keys: dict[str, int] = {}
        self.attempts: dict[int, int] = {}
        self.asked_runs: Counter[int] = Counter()
        self.most = self.policy

    # How steps reach the database

    def transact(self, work: Callable[[DeliveryRepository], T]) -> T:
        with self.engines.session() as session:
            return self.engines.transact(session, lambda s: work(DeliveryRepository(s)))

    @property
    def retry_policy(self) -> RetryPolicy:
        return RetryPolicy(
            max_retries=self.policy.retries,
            max_delays=self.policy.delays,
            backoff_base=timedelta(seconds=BACKOFF_BASE),
            backoff_factor=BACKOFF_FACTOR,
            backoff_max=timedelta(seconds=BACKOFF_MAX),
            jitter=False,
        )

    def owner(self, worker: int) -> str:
        return f"worker{worker}/{next(self.owners)}"

    # Publishing

    def draft(self, data: st.DataObject) -> tuple[Draft[int], Callable[[int], Message]]:
        payload = next(self.payloads)
        retries, delays = data.draw(LIMITS, "max_retries"), data.draw(LIMITS, "max_delays")
        wait = data.draw(st.none() | WAITS, "wait")
        due = None if wait is None else self.model.now + wait
        as_instant = wait is not None and data.draw(st.booleans(), "as instant")
        draft = Draft(
            payload,
            max_retries=retries,
            max_delays=delays,
            deliver_at=self.model.began + timedelta(seconds=due) if due and as_instant else None,
            delay=None if due and as_instant else wait,
        )
        return draft, lambda number: Message(number, payload, retries, delays, due)

    def published(self, message: Message) -> None:
        assert message.id not in self.model.messages
        self.model.messages[message.id] = message

    @precondition(lambda self: len(self.model.ahead()) < 8)
    @rule(data=st.data(), kind=st.sampled_from(PUBLISHES), amount=SIZES)
    def publish(self, data: st.DataObject, kind: str, amount: int) -> None:
        match kind:
            case "many":
                self._publish_many([self.draft(data) for _ in range(amount)])
            case "once":
                self._publish_once(data.draw(st.sampled_from("ab"), "idempotency_key"))
            case "gap":
                self._leave_gap(data, amount)

    def _leave_gap(self, data: st.DataObject, amount: int) -> None:
        """Ids that this topic never sees: another's, or rolled back."""
        topic, commit = data.draw(st.sampled_from([(self.other, True), (self.topic, False)]))
        with self.engines.session() as session:
            topic.publish_many(session, [0] * amount)
            if commit:
                session.commit()

    def _publish_many(self, drafts: Sequence[tuple[Draft[int], Callable[[int], Message]]]) -> None:
        many = [draft for draft, _ in drafts]
        ids = self.transact(lambda r: self.topic.publish_many(r.session, many))
        assert ids == sorted(ids)
        for number, (_, message) in zip(ids, drafts, strict=True):
            self.published(message(number))

    def _publish_once(self, key: str) -> None:
        payload = next(self.payloads)
        number = self.transact(
            lambda r: self.topic.publish(r.session, payload, idempotency_key=key)
        )
        if key in self.keys:
            assert number == self.keys[key]
            return
        self.keys[key] = number
        self.published(Message(number, payload, None, None, None))

    @precondition(lambda self: self.fenced and len(self.open) < 3)
    @rule(data=st.data())
    def publish_and_leave_open(self, data: st.DataObject) -> None:
        draft, message = self.draft(data)
        session = self.engines.session()
        (number,) = self.topic.publish_many(session, [draft])
        self.open.append((session, message(number)))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), commit=st.booleans())
    def end_open_publish(self, data: st.DataObject, commit: bool) -> None:
        session, message = self.open.pop(data.draw(st.integers(0, len(self.open) - 1), "which"))
        with session:
            if not commit:
                session.rollback()
                return
            session.commit()
        self.published(message)

    # The range path

    @rule(data=st.data(), passed=PASSED, worker=WORKER, limit=SIZES, lease=LEASES, left=LEFT)
    def read_on(
        self, data: st.DataObject, passed: int, worker: int, limit: int, lease: int, left: str
    ) -> None:
        """A worker takes a range, and is lost or goes on a while."""
        self._time_passes(passed)
        if not self.model.unread() and data.draw(OFTEN, "new messages"):
            self._publish_many([self.draft(data) for _ in range(limit)])
            if data.draw(st.booleans(), "gap"):
                self._leave_gap(data, 1)
        if data.draw(RARELY, "reconnected"):
            self.watermarks[worker] = Watermark()
        ahead = data.draw(st.integers(0, 8), "upto") if data.draw(RARELY, "bounded") else None
        claimed = self._claim_range(worker, limit, lease, ahead)
        if claimed is not None and left != "lost":
            self._report_range(data, self.ranges[-1], lease, back=left == "handed back")

    def _claim_range(
        self, worker: int, limit: int, lease: int, ahead: int | None
    ) -> ClaimedRange | None:
        upto = None if ahead is None else self.model.position + ahead
        owner, watermark = self.owner(worker), self.watermarks[worker]
        claimed = self.transact(
            lambda r: r.claim_range(
                self.group, owner, limit=limit, lease=lease, watermark=watermark, upto=upto
            )
        )
        waiting = self.model.waiting_range()
        if waiting is not None and self.model.is_split(waiting, limit):
            assert claimed is not None
            self.model.split(waiting, claimed.id, owner, lease, limit)
        elif waiting is not None and self.model.take_over(waiting, owner, lease):
            assert claimed is not None
            assert claimed.id == waiting
        else:
            self._expect_new_range(claimed, owner, limit, lease, upto)
        if claimed is not None:
            self._check_claimed(claimed)
            self.ranges.append(HeldRange(claimed))
        return claimed

    def _expect_new_range(
        self, claimed: ClaimedRange | None, owner: str, limit: int, lease: int, upto: int | None
    ) -> None:
        ahead = self.model.ahead(upto)
        if claimed is None:
            assert self.open or not ahead, "stalled: there are messages and nobody holds them back"
            return
        got = [delivery.message_id for delivery in claimed.deliveries]
        # Nothing is skipped. Fewer may come: a watermark is only looked for when it is reached.
        assert got == ahead[: len(got)]
        assert 0 < len(got) <= limit
        assert self.fenced or len(got) == min(limit, len(ahead))
        first, last = got[0], got[-1]
        self.model.position = last
        self.model.ranges[claimed.id] = Range(first, last, first - 1, owner, self.model.now + lease)

    def _check_claimed(self, claimed: ClaimedRange) -> None:
        expected = self.model.ranges[claimed.id]
        assert claimed.careful == expected.careful
        got = [delivery.message_id for delivery in claimed.deliveries]
        assert got == self.model.members(expected)
        for delivery in claimed.deliveries:
            message = self.model.messages[delivery.message_id]
            assert delivery.payload == str(message.payload)
            deferred = message.deliver_at is not None and message.deliver_at > self.model.now
            assert (delivery.deferred_until is not None) == deferred
            assert delivery.counters.attempts == (0 if deferred else 1)

    @precondition(lambda self: self.ranges)
    @rule(data=st.data(), passed=PASSED, lease=LEASES, back=RARELY)
    def report_range(self, data: st.DataObject, passed: int, lease: int, back: bool) -> None:
        """A worker goes on with its range, whether or not it still has it."""
        self._time_passes(passed)
        self._report_range(data, self._some(data, self.ranges), lease, back=back)

    def _report_range(
        self, data: st.DataObject, held: HeldRange, lease: int, *, back: bool
    ) -> None:
        """Some more is done; the claim ends with the last message, or is handed back."""
        self._report_again(data, held)
        reports = self._first_reports(data, held)
        progress, running = held.progress(), None if back else held.running()
        log_successes = data.draw(RARELY, "log_successes")
        apart = reports if data.draw(RARELY, "one by one") else []

        def work(repository: DeliveryRepository) -> None:
            policy, together = self.retry_policy, [] if apart else reports
            for report in apart:
                repository.apply_outcome(report.delivery, report.outcome, policy)
            if back:
                repository.hand_back(
                    held.claimed,
                    together,
                    policy,
                    progress=progress,
                    log_successes=log_successes,
                )
                return
            repository.settle_range(
                held.claimed,
                together,
                policy,
                progress=progress,
                running=running,
                lease=lease,
                log_successes=log_successes,
            )

        if not self._mine(held):
            self._refused(work)
            self.ranges.remove(held)
            return
        self.transact(work)
        self._first_done(reports, log_successes=log_successes and not apart)
        if back:
            self.model.hand_back(held.claimed.id, progress)
        else:
            self.model.move(held.claimed.id, progress, running, lease)
        if back or not held.rest:
            self.ranges.remove(held)

    def _report_again(self, data: st.DataObject, held: HeldRange) -> None:
        """A message that its worker has reported already is not its any more."""
        reported = held.claimed.deliveries[: -len(held.rest) or None]
        again = bool(reported) and data.draw(RARELY, "again")
        if again:
            delivery = self._some(data, list(reported))
            outcome = self._outcome(data)
            self._refused(lambda r: r.apply_outcome(delivery, outcome, self.retry_policy))

    def _first_reports(self, data: st.DataObject, held: HeldRange) -> list[Report]:
        amount = data.draw(st.integers(0, len(held.rest)), "amount")
        reports = [Report(each, self._first_outcome(data, each)) for each in held.rest[:amount]]
        if self._mine(held):
            held.rest = held.rest[amount:]
        return reports

    def _first_outcome(self, data: st.DataObject, delivery: Delivery) -> AnyOutcome:
        if delivery.deferred_until is not None:
            return Deferred(delivery.deferred_until)
        return self._outcome(data)

    def _mine(self, held: HeldRange) -> bool:
        mine = self.model.ranges.get(held.claimed.id)
        return mine is not None and mine.owner == held.claimed.owner

    def _first_done(self, reports: Sequence[Report], *, log_successes: bool) -> None:
        for report in reports:
            number = report.delivery.message_id
            self.model.report_first(
                number, report.outcome, self.policy, log_successes=log_successes
            )

    # The retry path and the held

    @precondition(lambda self: self.model.queue)
    @rule(data=st.data(), passed=PASSED, worker=WORKER, limit=SIZES, lease=LEASES, left=LEFT)
    def retry(
        self, data: st.DataObject, passed: int, worker: int, limit: int, lease: int, left: str
    ) -> None:
        """A worker takes what is due, and is lost or goes on a while."""
        self._time_passes(passed)
        if self._claim_due(worker, limit, lease) and left != "lost":
            self._report_retries(data, self.batches[-1])

    def _claim_due(self, worker: int, limit: int, lease: int) -> bool:
        owner = self.owner(worker)
        in_order = self._due()
        claimed = self.transact(
            lambda r: r.claim_due(self.group, self.retry_policy, owner, limit=limit, lease=lease)
        )
        got = [delivery.message_id for delivery in claimed]
        assert got == self.model.claim_due(in_order, limit, self.policy)
        self._started(claimed, owner, lease)
        return bool(claimed)

    def _due(self) -> list[int]:
        """What is due, in the order it fell due: within a tick the database alone knows it."""
        order = select(ExceptionQueue.message_id).order_by(
            ExceptionQueue.can_run_after, ExceptionQueue.message_id
        )
        expected = set(self.model.due())
        found = self.transact(lambda r: r.session.scalars(order).all())
        due = [each for each in found if each in expected]
        ticks = [self.model.queue[each].due for each in due]
        assert (set(due), ticks) == (expected, sorted(ticks))
        return due

    @precondition(lambda self: self.held())
    @rule(data=st.data(), passed=PASSED, worker=WORKER, limit=SIZES, lease=LEASES, left=LEFT)
    def deliver(
        self, data: st.DataObject, passed: int, worker: int, limit: int, lease: int, left: str
    ) -> None:
        """Held deliveries are run on request."""
        self._time_passes(passed)
        chosen, owner = self._chosen(data), self.owner(worker)
        claimed = self.transact(
            lambda r: r.claim_held(self.group, owner, message_ids=chosen, limit=limit, lease=lease)
        )
        held = [each for each in self.held() if chosen is None or each in chosen]
        assert sorted(delivery.message_id for delivery in claimed) == held[:limit]
        self.asked_runs.update(held[:limit])
        self._started(claimed, owner, lease)
        if claimed and left != "lost":
            self._report_retries(data, self.batches[-1])

    def held(self) -> list[int]:
        return sorted(each for each, row in self.model.queue.items() if row.state == "held")

    def _started(self, claimed: Sequence[Delivery], owner: str, lease: int) -> None:
        self.model.start([each.message_id for each in claimed], owner, lease)
        for delivery in claimed:
            row = self.model.queue[delivery.message_id]
            counters = delivery.counters
            assert delivery.payload == str(self.model.messages[delivery.message_id].payload)
            assert not delivery.first
            assert delivery.on_hold == row.on_hold
            assert (counters.attempts, counters.delays, counters.interruptions) == (
                row.attempts,
                row.delays,
                row.interruptions,
            )
        if claimed:
            self.batches.append(list(claimed))

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), passed=PASSED)
    def report_retries(self, data: st.DataObject, passed: int) -> None:
        """A worker goes on with its batch, whether or not it still has it."""
        self._time_passes(passed)
        batch = self._some(data, self.batches)
        assert self.transact(lambda r: r.owns(batch[0])) == self._running(batch[0])
        self._report_retries(data, batch)

    def _report_retries(self, data: st.DataObject, batch: list[Delivery]) -> None:
        """Some more is done, or was: one stale report undoes all that came with it."""
        amount = data.draw(st.integers(1, len(batch)), "amount")
        reports = [Report(each, self._outcome(data)) for each in batch[:amount]]
        one_by_one = data.draw(RARELY, "one by one")

        def work(repository: DeliveryRepository) -> None:
            policy = self.retry_policy
            if not one_by_one:
                repository.apply_outcomes(reports, policy)
                return
            for report in reports:
                repository.apply_outcome(report.delivery, report.outcome, policy)

        if not all(self._running(report.delivery) for report in reports):
            self._refused(work)
            self.batches.remove(batch)
            return
        self.transact(work)
        for report in reports:
            self.model.report_retry(report.delivery.message_id, report.outcome, self.policy)
        del batch[:amount]
        if not batch:
            self.batches.remove(batch)

    def _running(self, delivery: Delivery) -> bool:
        return self.model.owns(delivery.message_id, delivery.owner, delivery.counters.attempts)

    # Leases and time

    @precondition(lambda self: self.batches)
    @rule(passed=PASSED, deployed=st.none() | POLICIES)
    def recover(self, passed: int, deployed: Policy | None) -> None:
        """A worker starts, with the code of today."""
        self._time_passes(passed)
        self._recover()
        if deployed is not None:
            self.policy = deployed
            self.most = Policy(max(deployed.retries, self.most.retries), 0)

    @precondition(lambda self: self.ranges or self.batches)
    @rule(data=st.data(), worker=WORKER, limit=SIZES)
    def overtake(self, data: st.DataObject, worker: int, limit: int) -> None:
        """Everybody's lease ends, another worker takes what it can, and then somebody reports."""
        ranges, batches = list(self.ranges), list(self.batches)
        self._time_passes(20)
        self._recover()
        self._claim_range(worker, limit, TICK, None)
        self._claim_due(worker, limit, TICK)
        if batches and (not ranges or data.draw(st.booleans(), "retries")):
            self._report_retries(data, self._some(data, batches))
        else:
            self._report_range(data, self._some(data, ranges), TICK, back=False)

    def _time_passes(self, ticks: int) -> None:
        self.model.now += ticks * TICK
        clock.set_offset(self.model.now)

    def _recover(self) -> None:
        expected = self.model.recover(Killed(ERROR), Interrupted(ERROR, lost=True))
        assert self.transact(lambda r: r.recover()) == expected

    @precondition(lambda self: self.ranges or self.batches)
    @rule(data=st.data(), lease=LEASES)
    def renew(self, data: st.DataObject, lease: int) -> None:
        owners = [held.claimed.owner for held in self.ranges]
        owners += [batch[0].owner for batch in self.batches]
        owner = data.draw(st.sampled_from(owners), "owner")
        everything: list[Range | Row] = [*self.model.ranges.values(), *self.model.queue.values()]
        mine = [each for each in everything if each.owner == owner]
        assert self.transact(lambda r: r.renew(owner, lease)) == bool(mine)
        for each in mine:
            each.lease = self.model.now + lease

    # The operator

    @precondition(lambda self: self.model.queue)
    @rule(data=st.data(), name=st.sampled_from(OPERATIONS))
    def operate(self, data: st.DataObject, name: str) -> None:
        chosen = self._chosen(data, few=name == "discard")
        changed = self.transact(lambda r: getattr(r, name)("topic", "group", chosen))
        assert changed == self.model.act(name, chosen)
        if name == "redrive":
            for each in changed:
                self.asked_runs[each] = 0

    # What steps draw

    def _some(self, data: st.DataObject, several: list[T]) -> T:
        return several[data.draw(st.integers(0, len(several) - 1), "which")]

    def _chosen(self, data: st.DataObject, *, few: bool = False) -> list[int] | None:
        if not few and data.draw(st.booleans(), "all"):
            return None
        ids = st.sampled_from(sorted(self.model.messages))
        return data.draw(st.lists(ids, unique=True, max_size=2 if few else 4), "chosen")

    def _outcome(self, data: st.DataObject) -> AnyOutcome:
        kind = data.draw(st.sampled_from("FFFSEDDDI"), "outcome")
        match kind:
            case "F":
                return Failed(ERROR)
            case "S":
                return Succeeded()
            case "E":
                return Ended(ERROR)
            case "I":
                return Interrupted(ERROR)
        wait = data.draw(WAITS, "wait")
        ticks = data.draw(st.none() | WAITS, "until")
        until = None if ticks is None else self.model.began + timedelta(seconds=ticks)
        return Delayed(ERROR, timedelta(seconds=wait), until)

    def _refused(self, work: Callable[[DeliveryRepository], object]) -> None:
        """A late report; that it changed nothing is seen by the comparison that follows."""
        with pytest.raises(StaleClaim):
            self.transact(work)

    # What holds after every step

    @invariant()
    def the_rules_hold(self) -> None:
        with self.engines.session() as session:
            found = snapshot(session, self.group.id, self.model.began)
        self._nothing_vanished(found)
        self._every_run_is_logged_once(found)
        for message_id, row in found.queue.items():
            self._row_is_sound(message_id, row, found)
        self._budget_was_kept(found)
        self._as_the_model_says(found)

    def _nothing_vanished(self, found: Snapshot) -> None:
        """G1: each message is in exactly one place."""
        for each in self.model.messages:
            places = [each > found.position]
            places += [r.progress < each <= r.last for r in found.ranges.values()]
            places += [each in found.queue, each in self.model.done]
            assert sum(places) == 1, f"message {each} is in {sum(places)} places"

    def _every_run_is_logged_once(self, found: Snapshot) -> None:
        """G5, R9: one row for each finished run, numbered without a gap."""
        numbers: dict[int, list[int]] = {each: [] for each in self.model.messages}
        for entry in found.log:
            if entry.attempt is not None:
                numbers[entry.message_id].append(entry.attempt)
        for each, attempts in numbers.items():
            assert sorted(attempts) == list(range(1, len(attempts) + 1))
            row = found.queue.get(each)
            if row is not None:
                in_hand = row.state == "running"
                assert len(attempts) == row.attempts - in_hand

    def _row_is_sound(self, message_id: int, row: Row, found: Snapshot) -> None:
        assert row.attempts >= self.attempts.get(message_id, 0), "attempts fell"
        self.attempts[message_id] = row.attempts
        assert 0 <= row.interruptions <= row.delays <= row.attempts
        running = row.state == "running"
        assert running == (row.owner is not None) == (row.lease is not None)
        assert running or not row.on_hold
        if row.state == "dead":
            assert found.payloads[message_id] == self.model.messages[message_id].payload

    def _budget_was_kept(self, found: Snapshot) -> None:
        """G4: failing runs since the last redrive, beside those that an operator asked for."""
        charged: Counter[int] = Counter()
        for entry in found.log:
            if entry.outcome == "redriven":
                charged[entry.message_id] = 0
            elif entry.outcome in ("exception", "killed"):
                charged[entry.message_id] += 1
        for each, runs in charged.items():
            assert runs <= self.most.retries + 1 + self.asked_runs[each]
        for each, row in found.queue.items():
            in_budget = self.most.retries + row.granted_retries
            assert row.spent <= in_budget + 1 + self.asked_runs[each]

    def _as_the_model_says(self, found: Snapshot) -> None:
        assert found.position == self.model.position
        assert found.ranges == self.model.ranges
        assert found.queue == self.model.queue
        assert _by_message(found.log) == _by_message(self.model.log)

    # And in the end

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self._everything_ends()
        finally:
            for session, _ in self.open:
                session.close()
            clock.set_offset(0)

    def _everything_ends(self) -> None:
        """Whatever happened before: with workers that succeed, nothing is left to do."""
        for session, message in self.open:
            session.commit()
            self.published(message)
        for turn in range(200):
            self._time_passes(20)
            before = deepcopy(self.model)
            self._recover()
            self._claim_range(turn % WORKERS, 5, TICK, None)
            self._finish_ranges()
            self._claim_due(turn % WORKERS, 5, TICK)
            self._finish_retries()
            self.the_rules_hold()
            before.now = self.model.now
            if before == self.model:
                break
        assert not self.model.ahead()
        assert not self.model.ranges
        assert {row.state for row in self.model.queue.values()} <= {"held", "dead"}

    def _finish_ranges(self) -> None:
        for held in [each for each in self.ranges if self._mine(each)]:
            reports = [
                Report(each, Deferred(each.deferred_until) if each.deferred_until else Succeeded())
                for each in held.rest
            ]
            self.transact(
                lambda r, held=held, reports=reports: r.settle_range(  # type: ignore[misc]
                    held.claimed,
                    reports,
                    self.retry_policy,
                    progress=held.claimed.last,
                    lease=TICK,
                )
            )
            self._first_done(reports, log_successes=False)
            self.model.move(held.claimed.id, held.claimed.last, None, TICK)

    def _finish_retries(self) -> None:
        for batch in self.batches:
            mine = [Report(each, Succeeded()) for each in batch if self._running(each)]
            self.transact(
                lambda r, mine=mine: r.apply_outcomes(mine, self.retry_policy)  # type: ignore[misc]
            )
            for report in mine:
                self.model.report_retry(report.delivery.message_id, Succeeded(), self.policy)


def _by_message(log: Sequence[Entry]) -> dict[int, list[Entry]]:
    """The order in one statement is nobody's promise, that of a message's outcomes is."""
    found: dict[int, list[Entry]] = {}
    for entry in log:
        found.setdefault(entry.message_id, []).append(entry)
    return found


@contextmanager
def _quick(database: Database) -> Iterator[Vulkan]:
    """A Vulkan whose commits do not wait for the disk."""
    engine = create_engine(database.sync_url)
    settled = {
        "sqlite": ("PRAGMA journal_mode = MEMORY", "PRAGMA synchronous = OFF"),
        "postgresql": ("SET synchronous_commit = off",),
    }

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        for statement in settled[database.name]:
            cursor.execute(statement)
        cursor.close()
        connection.commit()

    try:
        vulkan = Vulkan(engine)
        vulkan.topic("topic", int)
        vulkan.topic("other", int)
        yield vulkan
    finally:
        engine.dispose()


@pytest.mark.timeout(0 if DEEP else 600)
def test_the_rules_hold_whatever_the_order_of_events(migrated: Database) -> None:
    """G1, G4, G5, G6, R9 to R18."""
    examples = settings().max_examples if DEEP else EXAMPLES[migrated.name]
    with _quick(migrated) as vulkan:

        class Machine(RepositoryMachine):
            def __init__(self) -> None:
                super().__init__(vulkan)

        run_state_machine_as_test(
            Machine, settings=settings(max_examples=examples, stateful_step_count=STEPS)
        )
