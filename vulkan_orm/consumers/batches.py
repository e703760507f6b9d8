"""Calls with many messages at a time."""

import time
from collections.abc import Generator
from typing import Any

from vulkan_orm.consumers.calls import Caller, not_run, report
from vulkan_orm.consumers.meta import meta_of
from vulkan_orm.consumers.steps import Attend, Breathe, Calls
from vulkan_orm.consumers.telling import PartlyFailed
from vulkan_orm.consumers.work import Stretch
from vulkan_orm.core.outcomes import AnyOutcome, Failed
from vulkan_orm.core.pace import RANGE_TARGET
from vulkan_orm.core.texts import describe
from vulkan_orm.diagnostics import DecodeError
from vulkan_orm.service.deliveries import Deliveries, Delivery
from vulkan_orm.service.unit_of_work import UnitOfWork


class BatchCaller(Caller):
    """Calls a handler with the payloads of many deliveries at a time."""

    def calls(
        self,
        deliveries: Deliveries,
        unit: UnitOfWork | None,
        stretch: Stretch,
        *,
        alone: bool = False,
    ) -> Calls:
        began = time.monotonic()
        until = began + RANGE_TARGET
        while deliveries and self.may_go_on(began, until, unit):
            part = deliveries[: self._size(deliveries[0])]
            outcomes = yield from self._run(part, unit, alone=alone)
            now = time.monotonic()
            stretch.count += len(part)
            for each in part:
                outcome = outcomes.get(each.message_id)
                if outcome is not None or self.report_successes:
                    stretch.reports.append(report(each, outcome, began, now))
            deliveries, began = deliveries[len(part) :], now
            yield Breathe()

    def _size(self, first: Delivery) -> int:
        # A retry runs alone, so that one bad message does not use up the retries of others.
        return self.consumer.max_batch if first.first else 1

    def _run(
        self, part: Deliveries, unit: UnitOfWork | None, *, alone: bool
    ) -> Generator[tuple[Any, ...] | Attend, Any, dict[int, AnyOutcome]]:
        """Runs one batch; what did not simply work, by message."""
        outcomes: dict[int, AnyOutcome] = {}
        given, payloads = self._decoded(part, outcomes)
        if not given:
            return outcomes
        consumer = self.consumer
        metas = [meta_of(each, consumer.policy) for each in given if consumer.injection.meta]
        raised = yield from self.in_unit(unit, payloads, metas, alone=alone)
        if isinstance(raised, PartlyFailed):
            failed = [(given[place], error) for place, error in raised.failures.items()]
        else:
            failed = [(each, raised) for each in given if raised is not None]
        meanings = {id(error): self.meaning(error) for _, error in failed}
        return outcomes | {each.message_id: meanings[id(error)] for each, error in failed}

    def _decoded(
        self, part: Deliveries, outcomes: dict[int, AnyOutcome]
    ) -> tuple[list[Delivery], list[Any]]:
        given, payloads = [], []
        for each, text in zip(part, part.payloads, strict=True):
            if text is None:
                outcomes[each.message_id] = not_run(each)
                continue
            try:
                payloads.append(self.consumer.codec.decode(text))
                given.append(each)
            except DecodeError as error:
                outcomes[each.message_id] = Failed(describe(error))
        return given, payloads

    def keeps(self, raised: BaseException | None) -> bool:
        # What the messages that worked have written stays; the others' is the handler's to undo.
        return raised is None or isinstance(raised, PartlyFailed)
