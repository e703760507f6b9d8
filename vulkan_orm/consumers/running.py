"""Running claimed work: each message once, its writes and its outcome committed together."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.exc import DBAPIError

from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.consumers.leases import Lease
from vulkan_orm.consumers.meta import MessageMeta, meta_of
from vulkan_orm.consumers.shutdown import RunCancelled, Stop
from vulkan_orm.consumers.steps import Attend, Invoke, Steps, attend, transact
from vulkan_orm.consumers.work import STOPPED, Work
from vulkan_orm.core.classify import classify
from vulkan_orm.core.decide import Verdict
from vulkan_orm.core.outcomes import (
    Deferred,
    Delayed,
    Ended,
    Failed,
    Interrupted,
    Outcome,
    RunOutcome,
    Succeeded,
)
from vulkan_orm.core.pace import RANGE_TARGET
from vulkan_orm.core.texts import describe
from vulkan_orm.diagnostics import (
    MESSAGE_PRUNED,
    DecodeError,
    HandlerError,
    StaleClaim,
    VulkanError,
)
from vulkan_orm.service.deliveries import Delivery, Report
from vulkan_orm.service.engines import Engines
from vulkan_orm.service.unit_of_work import TransactionLost, UnitOfWork

logger = logging.getLogger("vulkan_orm.consumers")

# Beyond 64 subtransactions PostgreSQL makes every other session's reads slower.
MAX_SAVEPOINTS = 60

Tally = Counter[Outcome]


class _RunApart(Exception):
    """A shared transaction came to nothing; its messages are to be run one by one."""


class Runner:
    """Runs the work of one consumer under one lease."""

    def __init__(
        self, consumer: Consumer, engines: Engines, stop: Stop, work: Work, lease: Lease
    ) -> None:
        self.tally: Tally = Counter()
        self._work = work
        self._consumer = consumer
        self._engines = engines
        self._stop = stop
        self._lease = lease
        self._began = 0.0

    def run(self) -> Steps[Tally]:
        """Runs until the work is done, has taken its time, is lost, or a stop is asked for.

        What has not run by then is given back at no charge.

        :raises StaleClaim: when the claim is somebody else's by now; its effects are undone.
        """
        try:
            yield from transact(self._work.begin)
            # From here, so that waiting for a busy database never hands back work that nobody ran.
            self._began = time.monotonic()
            yield from self._run_all()
        except StaleClaim:
            raise
        except Exception:
            # Whatever it was, the rest should not have to wait for its lease to end.
            yield from self._give_back()
            raise
        if self._work.rest:
            yield from self._give_back()
        return self.tally

    def _run_all(self) -> Steps[None]:
        try:
            while self._work.together and (yield from self._ready()):
                yield from self._shared_transaction()
        except _RunApart as apart:
            # Run again uncharged: what the lost transaction held has not happened.
            logger.warning("%s: %s; now one by one.", self._consumer.name, apart)
        while (yield from self._ready()):
            yield from self._alone(self._work.rest[0])

    def _give_back(self) -> Steps[None]:
        try:
            yield from transact(lambda repository: self._work.hand_back(repository, []))
        except (VulkanError, DBAPIError) as error:
            logger.warning("%s could not be given back: %s", self._work.owner, error)

    @property
    def _may_start(self) -> bool:
        return not self._stop.asked and self._lease.good

    @property
    def _took_its_time(self) -> bool:
        return self._work.divisible and time.monotonic() - self._began > RANGE_TARGET

    def _ready(self) -> Steps[bool]:
        """Whether there is a next one that may start; asks the claim where its renewal is late.

        It is where a handler held the lock that the renewal needs.
        """
        lease = self._lease
        if self._stop.asked or not self._work.rest or self._took_its_time:
            return False
        if not (lease.good or lease.lost):
            taken = time.monotonic()
            ours = yield from transact(lambda claims: claims.renew(lease.owner, lease.seconds))
            if ours:
                lease.good_until = taken + lease.seconds
        return lease.good

    def _shared_transaction(self) -> Steps[None]:
        if self._consumer.injection.session is None:
            reports = yield from self._run_some(None)
            verdicts = yield from transact(lambda repository: self._settle(repository, reports))
            self._settled(reports, verdicts)
            return
        unit = self._engines.unit()
        try:
            reports = yield from self._run_some(unit)
            verdicts = yield from self._commit(unit, reports)
        except (TransactionLost, DBAPIError, HandlerError) as error:
            raise _RunApart(f"the shared transaction was lost ({describe(error).text})") from error
        finally:
            yield Attend(unit.abandon)
        self._settled(reports, verdicts)

    def _run_some(self, unit: UnitOfWork | None) -> Steps[list[Report]]:
        """Runs messages in one transaction, until it has lasted long enough."""
        reports: list[Report] = []
        began = time.monotonic()
        for delivery in self._work.rest:
            if not self._may_start:
                break
            reports.append((yield from self._run(delivery, unit, alone=False)))
            full = unit is not None and unit.savepoints >= MAX_SAVEPOINTS
            if full or time.monotonic() - began > RANGE_TARGET:
                break
        return reports

    def _alone(self, delivery: Delivery) -> Steps[None]:
        """Runs one message in a transaction of its own, and records what became of it."""
        unit = self._engines.unit() if self._consumer.injection.session else None
        verdicts: list[Verdict] | None = None
        try:
            report = yield from self._run_catching_loss(delivery, unit)
            if unit is not None and isinstance(report.outcome, Succeeded):
                report, verdicts = yield from self._commit_alone(unit, report)
        finally:
            if unit is not None:
                yield Attend(unit.abandon)
        if verdicts is None:
            verdicts = yield from transact(lambda repository: self._settle(repository, [report]))
        self._settled([report], verdicts)

    def _run_catching_loss(self, delivery: Delivery, unit: UnitOfWork | None) -> Steps[Report]:
        try:
            return (yield from self._run(delivery, unit, alone=True))
        except TransactionLost as lost:
            return Report(delivery, self._meaning(lost.__cause__ or lost))

    def _commit_alone(
        self, unit: UnitOfWork, report: Report
    ) -> Steps[tuple[Report, list[Verdict] | None]]:
        try:
            return report, (yield from self._commit(unit, [report]))
        except StaleClaim:
            raise
        except Exception as error:
            if isinstance(error, DBAPIError) and self._engines.dialect.is_contention(error):
                raise
            # The culprit is known here: the refusal is its own failed run.
            return replace(report, outcome=self._meaning(error)), None

    def _commit(self, unit: UnitOfWork, reports: Sequence[Report]) -> Steps[list[Verdict]]:
        verdicts: list[Verdict] = []

        def seal_and_commit() -> None:
            unit.seal()
            verdicts.extend(self._settle(unit.repository, reports))
            unit.commit()

        try:
            yield from attend(seal_and_commit)
        except DBAPIError as error:
            # The answer to a commit can be lost when the commit is not: the claim tells.
            yield Attend(unit.abandon)
            if not (error.connection_invalidated and (yield from self._is_settled(reports))):
                raise
        return verdicts

    def _is_settled(self, reports: Sequence[Report]) -> Steps[bool]:
        settled = yield from transact(
            lambda repository: self._work.is_settled(repository, reports[-1])
        )
        return settled

    def _settle(self, repository: Any, reports: Sequence[Report]) -> list[Verdict]:
        return self._work.settle(repository, reports) if reports else []

    def _settled(self, reports: Sequence[Report], verdicts: Sequence[Verdict]) -> None:
        self._work.settled(reports)
        self.tally.update(verdict.outcome for verdict in verdicts)

    def _run(self, delivery: Delivery, unit: UnitOfWork | None, *, alone: bool) -> Steps[Report]:
        if delivery.deferred_until is not None:
            return Report(delivery, Deferred(delivery.deferred_until))
        began = time.monotonic()
        outcome = yield from self._outcome(delivery, unit, alone=alone)
        return Report(delivery, outcome, time.monotonic() - began, began)

    def _outcome(
        self, delivery: Delivery, unit: UnitOfWork | None, *, alone: bool
    ) -> Steps[RunOutcome]:
        consumer = self._consumer
        if delivery.payload is None:
            pruned = HandlerError(MESSAGE_PRUNED, "The message is not in the log any more.")
            return Ended(describe(pruned))
        try:
            payload = consumer.codec.decode(delivery.payload)
        except DecodeError as error:
            return Failed(describe(error))
        meta = meta_of(delivery, consumer.policy) if consumer.injection.meta else None
        if unit is None:
            raised = yield Invoke(
                lambda: consumer.injection.call(payload, None, meta), consumer.injection.is_async
            )
            if isinstance(raised, KeyboardInterrupt):
                self._stop.interrupt()
        else:
            unit.begin_message(alone=alone)
            raised = yield from self._in_savepoint(unit, payload, meta)
        return self._meaning(raised)

    def _in_savepoint(
        self, unit: UnitOfWork, payload: Any, meta: MessageMeta | None
    ) -> Steps[BaseException | None]:
        session = unit.lend()
        injection = self._consumer.injection
        raised: BaseException | None = yield Invoke(
            lambda: injection.call(payload, session, meta), injection.is_async
        )
        unit.take_back()
        if unit.contention is not None:
            raise unit.contention
        if isinstance(raised, KeyboardInterrupt):
            self._stop.interrupt()
        try:
            yield from _tidy(unit, unit.keep_message if raised is None else unit.drop_message)
        except TransactionLost as lost:
            raise lost from (raised or lost.__cause__)
        except Exception as error:
            return error
        return raised

    def _meaning(self, raised: BaseException | None) -> RunOutcome:
        if raised is None:
            return Succeeded()
        if isinstance(raised, RunCancelled):
            return Interrupted(STOPPED)
        outcome = classify(raised, self._consumer.treat)
        if isinstance(outcome, Delayed):
            self._warn_of_retention(outcome)
        return outcome

    def _warn_of_retention(self, outcome: Delayed) -> None:
        retention = self._consumer.retention
        if retention is None:
            return
        wait = outcome.wait
        if outcome.until is not None:
            # Good enough for a warning: nothing is decided by this machine's clock.
            wait = max(wait, outcome.until - datetime.now(UTC))
        if wait >= retention:
            logger.warning(
                "%s: a delay of %s outlasts the topic's retention of %s.",
                self._consumer.name,
                wait,
                retention,
            )


def _tidy(unit: UnitOfWork, work: Callable[[], None]) -> Steps[None]:
    # A message that left the session alone has nothing to say to the database.
    if unit.untouched:
        work()
    else:
        yield from attend(work)
