"""The calls of handlers: each delivery decoded, handed over, and what came of it.

This is what happens to every message, so nothing is made here that nobody asked for.
"""

import logging
import time
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.consumers.leases import Lease
from vulkan_orm.consumers.meta import meta_of
from vulkan_orm.consumers.shutdown import RunCancelled, Stop
from vulkan_orm.consumers.steps import Attend, Breathe, Calls
from vulkan_orm.consumers.work import STOPPED, Stretch
from vulkan_orm.core.classify import classify
from vulkan_orm.core.outcomes import (
    AnyOutcome,
    Deferred,
    Delayed,
    Ended,
    Failed,
    Interrupted,
    RunOutcome,
    Succeeded,
)
from vulkan_orm.core.pace import RANGE_TARGET
from vulkan_orm.core.texts import describe
from vulkan_orm.diagnostics import MESSAGE_PRUNED, DecodeError, HandlerError
from vulkan_orm.service.deliveries import Deliveries, Delivery, Report
from vulkan_orm.service.unit_of_work import TransactionLost, UnitOfWork

logger = logging.getLogger("vulkan_orm.consumers")

# Beyond 64 subtransactions PostgreSQL makes every other session's reads slower.
MAX_SAVEPOINTS = 60
# Handlers that never wait for anything must not keep a thread or loop from what else goes on, such
# as claiming the next range.
BREATH = 0.001

_SUCCEEDED = Succeeded()


class Caller:
    """Calls one consumer's handler under one lease."""

    def __init__(
        self, consumer: Consumer, stop: Stop, lease: Lease, *, report_successes: bool
    ) -> None:
        self.consumer = consumer
        self._stop = stop
        self._lease = lease
        self.report_successes = report_successes
        self._breath = 0.0
        self._savepoints = 0

    def calls(
        self,
        deliveries: Deliveries,
        unit: UnitOfWork | None,
        stretch: Stretch,
        *,
        alone: bool = False,
    ) -> Calls:
        """Runs deliveries in order, in one transaction or none, until it has lasted long enough.

        :param alone: whether the one delivery has the transaction for itself.
        :raises TransactionLost: when what the transaction held has not happened.
        """
        decode, policy = self.consumer.codec.decode, self.consumer.policy
        wants_meta = self.consumer.injection.meta
        began = time.monotonic()
        until = began + RANGE_TARGET
        for place, text in enumerate(deliveries.payloads):
            if not self.may_go_on(began, until, unit):
                return
            outcome: AnyOutcome | None = None
            if text is None:
                outcome = not_run(deliveries[place])
            else:
                try:
                    payload = decode(text)
                except DecodeError as error:
                    outcome = Failed(describe(error))
                else:
                    meta = meta_of(deliveries[place], policy) if wants_meta else None
                    if unit is None:
                        raised = yield payload, None, meta
                        self._heed(raised)
                    else:
                        raised = yield from self.in_unit(unit, payload, meta, alone=alone)
                    if raised is not None:
                        outcome = self.meaning(raised)
            now = time.monotonic()
            stretch.count += 1
            if outcome is not None or self.report_successes:
                stretch.reports.append(report(deliveries[place], outcome, began, now))
            began = now
            if now > self._breath and self._needs_breath(now, unit):
                yield Breathe()

    def _needs_breath(self, now: float, unit: UnitOfWork | None) -> bool:
        """Whether it is time, and nobody has waited for the database meanwhile."""
        self._breath = now + BREATH
        before, self._savepoints = self._savepoints, 0 if unit is None else unit.savepoints
        return before == self._savepoints

    def may_go_on(self, now: float, until: float, unit: UnitOfWork | None) -> bool:
        """Whether one more may start in this transaction."""
        return (
            now <= until
            and self._lease.good_at(now)
            and not self._stop.asked
            and (unit is None or unit.savepoints < MAX_SAVEPOINTS)
        )

    def in_unit(
        self, unit: UnitOfWork | None, payload: Any, meta: Any, *, alone: bool
    ) -> Generator[tuple[Any, ...] | Attend, Any, BaseException | None]:
        """One call; what it wrote with the session is kept or dropped by what it raised."""
        raised: BaseException | None
        if unit is None:
            raised = yield payload, None, meta
            self._heed(raised)
            return raised
        unit.begin_message(alone=alone)
        session = unit.lend()
        raised = yield payload, session, meta
        self._heed(raised)
        unit.take_back()
        tidy = unit.keep_message if self.keeps(raised) else unit.drop_message
        try:
            # A message that left the session alone has nothing to say to the database.
            if unit.untouched:
                tidy()
            else:
                yield Attend(tidy)
        except TransactionLost as lost:
            raise lost from (raised or lost.__cause__)
        except Exception as error:
            return error
        return raised

    def _heed(self, raised: BaseException | None) -> None:
        if raised is not None and isinstance(raised, KeyboardInterrupt):
            self._stop.interrupt()

    def keeps(self, raised: BaseException | None) -> bool:
        """Whether what a call wrote is kept."""
        return raised is None

    def meaning(self, raised: BaseException) -> RunOutcome:
        """What an error that a run came to is: a stop of ours, or the handler's voice."""
        if isinstance(raised, RunCancelled):
            return Interrupted(STOPPED)
        outcome = classify(raised, self.consumer.treat)
        if isinstance(outcome, Delayed):
            self._warn_of_retention(outcome)
        return outcome

    def _warn_of_retention(self, outcome: Delayed) -> None:
        retention = self.consumer.retention
        if retention is None:
            return
        wait = outcome.wait
        if outcome.until is not None:
            # Good enough for a warning: nothing is decided by this machine's clock.
            wait = max(wait, outcome.until - datetime.now(UTC))
        if wait >= retention:
            logger.warning(
                "%s: a delay of %s outlasts the topic's retention of %s.",
                self.consumer.name,
                wait,
                retention,
            )


def not_run(delivery: Delivery) -> Deferred | Ended:
    """The outcome of a delivery that has nothing to run: not yet, or not any more."""
    if delivery.deferred_until is not None:
        return Deferred(delivery.deferred_until)
    return Ended(describe(HandlerError(MESSAGE_PRUNED, "The message is not in the log any more.")))


def report(delivery: Delivery, outcome: AnyOutcome | None, began: float, ended: float) -> Report:
    if isinstance(outcome, Deferred):
        return Report(delivery, outcome)
    return Report(delivery, outcome or _SUCCEEDED, ended - began, began)
