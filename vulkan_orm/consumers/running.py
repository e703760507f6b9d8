"""Running claimed work: each message once, its writes and its outcome committed together."""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy.exc import DBAPIError

from vulkan_orm.consumers.batches import BatchCaller
from vulkan_orm.consumers.calls import Caller
from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.consumers.leases import Lease
from vulkan_orm.consumers.shutdown import Stop
from vulkan_orm.consumers.steps import Attend, Invoke, Steps, attend, transact
from vulkan_orm.consumers.work import Stretch, Work
from vulkan_orm.core.decide import Verdict
from vulkan_orm.core.outcomes import Outcome, Succeeded
from vulkan_orm.core.pace import RANGE_TARGET
from vulkan_orm.core.texts import describe
from vulkan_orm.diagnostics import HandlerError, StaleClaim, VulkanError
from vulkan_orm.service.deliveries import Deliveries, Delivery, Report
from vulkan_orm.service.engines import Engines
from vulkan_orm.service.unit_of_work import TransactionLost, UnitOfWork

logger = logging.getLogger("vulkan_orm.consumers")

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
        kind = BatchCaller if consumer.injection.batch else Caller
        self._caller = kind(consumer, stop, lease, report_successes=work.report_successes)

    def run(self) -> Steps[Tally]:
        """Runs until the work is done, has taken its time, is lost, or a stop is asked for.

        What has not run by then is given back at no charge.

        :raises StaleClaim: when the claim is somebody else's by now; its effects are undone.
        """
        try:
            if self._work.begins:
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
            yield from self._alone(self._work.rest[:1])

    def _give_back(self) -> Steps[None]:
        try:
            yield from transact(self._work.hand_back)
        except (VulkanError, DBAPIError) as error:
            logger.warning("%s could not be given back: %s", self._work.owner, error)

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
        if not self._consumer.injection.session:
            stretch = yield from self._run_some(self._work.rest, None)
            verdicts = yield from transact(lambda repository: self._settle(repository, stretch))
            self._settled(stretch, verdicts)
            return
        unit = self._engines.unit()
        try:
            stretch = yield from self._run_some(self._work.rest, unit)
            verdicts = yield from self._commit(unit, stretch)
        except (TransactionLost, DBAPIError, HandlerError) as error:
            raise _RunApart(f"the shared transaction was lost ({describe(error).text})") from error
        finally:
            yield Attend(unit.abandon)
        self._settled(stretch, verdicts)

    def _run_some(
        self, deliveries: Deliveries, unit: UnitOfWork | None, *, alone: bool = False
    ) -> Steps[Stretch]:
        """Runs the first of the deliveries in one transaction, until it has lasted long enough."""
        stretch = Stretch()
        calls = self._caller.calls(deliveries, unit, stretch, alone=alone)
        injection = self._consumer.injection
        yield Invoke(injection.call, calls, injection.is_async)
        return stretch

    def _alone(self, delivery: Deliveries) -> Steps[None]:
        """Runs one message in a transaction of its own, and records what became of it."""
        unit = self._engines.unit() if self._consumer.injection.session else None
        verdicts: list[Verdict] | None = None
        try:
            stretch = yield from self._run_catching_loss(delivery, unit)
            if unit is not None and self._worked(stretch):
                stretch, verdicts = yield from self._commit_alone(unit, stretch, delivery[0])
        finally:
            if unit is not None:
                yield Attend(unit.abandon)
        if verdicts is None:
            verdicts = yield from transact(lambda repository: self._settle(repository, stretch))
        self._settled(stretch, verdicts)

    def _worked(self, stretch: Stretch) -> bool:
        return all(isinstance(each.outcome, Succeeded) for each in stretch.reports)

    def _run_catching_loss(self, delivery: Deliveries, unit: UnitOfWork | None) -> Steps[Stretch]:
        try:
            return (yield from self._run_some(delivery, unit, alone=True))
        except TransactionLost as lost:
            return self._failed(delivery[0], lost.__cause__ or lost)

    def _failed(self, delivery: Delivery, error: BaseException) -> Stretch:
        return Stretch(1, [Report(delivery, self._caller.meaning(error))])

    def _commit_alone(
        self, unit: UnitOfWork, stretch: Stretch, delivery: Delivery
    ) -> Steps[tuple[Stretch, list[Verdict] | None]]:
        try:
            return stretch, (yield from self._commit(unit, stretch))
        except StaleClaim:
            raise
        except Exception as error:
            if isinstance(error, DBAPIError) and self._engines.dialect.is_contention(error):
                raise
            # The culprit is known here: the refusal is its own failed run.
            return self._failed(delivery, error), None

    def _commit(self, unit: UnitOfWork, stretch: Stretch) -> Steps[list[Verdict]]:
        verdicts: list[Verdict] = []

        def seal_and_commit() -> None:
            unit.seal()
            verdicts.extend(self._settle(unit.repository, stretch))
            unit.commit()

        try:
            yield from attend(seal_and_commit)
        except DBAPIError as error:
            # The answer to a commit can be lost when the commit is not: the claim tells.
            yield Attend(unit.abandon)
            if not (error.connection_invalidated and (yield from self._is_settled(stretch))):
                raise
        return verdicts

    def _is_settled(self, stretch: Stretch) -> Steps[bool]:
        settled = yield from transact(lambda repository: self._work.is_settled(repository, stretch))
        return settled

    def _settle(self, repository: Any, stretch: Stretch) -> list[Verdict]:
        return self._work.settle(repository, stretch) if stretch.count else []

    def _settled(self, stretch: Stretch, verdicts: Sequence[Verdict]) -> None:
        self._work.settled(stretch)
        self.tally.update(verdict.outcome for verdict in verdicts)
        if stretch.plain:
            self.tally[Outcome.SUCCEEDED] += stretch.plain
