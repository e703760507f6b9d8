"""What a claim holds, and how what became of it is recorded: the two kinds of work."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.core.decide import Verdict
from vulkan_orm.core.outcomes import ErrorText, Interrupted
from vulkan_orm.service.deliveries import ClaimedRange, Delivery, Report
from vulkan_orm.service.repository import DeliveryRepository

STOPPED = ErrorText(type="Interrupted", text="the worker was asked to stop")


class Work(Protocol):
    """Deliveries under one lease. ``rest`` are those whose outcome is not recorded yet."""

    rest: Sequence[Delivery]

    @property
    def owner(self) -> str: ...

    @property
    def careful(self) -> bool:
        """Whether one of them may have killed a worker, so that it must run alone."""
        ...

    @property
    def together(self) -> bool:
        """Whether the deliveries may share a transaction."""
        ...

    @property
    def divisible(self) -> bool:
        """Whether a rest can be given back for others at no charge."""
        ...

    def begin(self, repository: DeliveryRepository) -> None:
        """What must be recorded before the first one runs."""
        ...

    def settle(self, repository: DeliveryRepository, reports: Sequence[Report]) -> list[Verdict]:
        """Records reports of the next deliveries, in their order."""
        ...

    def settled(self, reports: Sequence[Report]) -> None:
        """The transaction that settled them has committed."""
        ...

    def is_settled(self, repository: DeliveryRepository, report: Report) -> bool:
        """Whether a commit whose answer was lost has happened."""
        ...

    def hand_back(self, repository: DeliveryRepository, reports: Sequence[Report]) -> list[Verdict]:
        """Records reports and gives up the rest, uncharged."""
        ...


@dataclass(slots=True)
class RangeWork:
    """First deliveries: a range of the log. In careful mode each is named before it runs."""

    claimed: ClaimedRange
    consumer: Consumer
    rest: Sequence[Delivery] = field(init=False)

    def __post_init__(self) -> None:
        self.rest = self.claimed.deliveries

    @property
    def owner(self) -> str:
        return self.claimed.owner

    @property
    def careful(self) -> bool:
        return self.claimed.careful

    @property
    def divisible(self) -> bool:
        return True

    @property
    def together(self) -> bool:
        return not self.claimed.careful and self.consumer.isolation == "range"

    def begin(self, repository: DeliveryRepository) -> None:
        if self.claimed.careful or not self.rest:
            self._move(repository, [], self.rest)

    def settle(self, repository: DeliveryRepository, reports: Sequence[Report]) -> list[Verdict]:
        return self._move(repository, reports, self.rest[len(reports) :])

    def settled(self, reports: Sequence[Report]) -> None:
        self.rest = self.rest[len(reports) :]

    def is_settled(self, repository: DeliveryRepository, report: Report) -> bool:
        progress = repository.range_progress(self.claimed)
        return progress is None or progress >= report.delivery.message_id

    def hand_back(self, repository: DeliveryRepository, reports: Sequence[Report]) -> list[Verdict]:
        return repository.hand_back(
            self.claimed,
            reports,
            self.consumer.policy,
            progress=self._progress(self.rest[len(reports) :]),
            log_successes=self.consumer.log_successes,
        )

    def _move(
        self,
        repository: DeliveryRepository,
        reports: Sequence[Report],
        rest: Sequence[Delivery],
    ) -> list[Verdict]:
        return repository.settle_range(
            self.claimed,
            reports,
            self.consumer.policy,
            progress=self._progress(rest),
            running=self._next(rest) if self.claimed.careful else None,
            lease=self.consumer.lease,
            log_successes=self.consumer.log_successes,
        )

    def _next(self, rest: Sequence[Delivery]) -> int | None:
        """The message that runs next; one that is only put off cannot kill its worker."""
        runs = rest and rest[0].deferred_until is None
        return rest[0].message_id if runs else None

    def _progress(self, rest: Sequence[Delivery]) -> int:
        """Up to before the next message; gaps in the log belong to what is done."""
        return rest[0].message_id - 1 if rest else self.claimed.last


@dataclass(slots=True)
class RetryWork:
    """Deliveries from the exception queue, each counted already."""

    owner: str
    rest: Sequence[Delivery]
    consumer: Consumer

    @property
    def careful(self) -> bool:
        return any(each.careful for each in self.rest)

    @property
    def divisible(self) -> bool:
        return False

    @property
    def together(self) -> bool:
        return self.consumer.isolation == "range" and len(self.rest) > 1

    def begin(self, repository: DeliveryRepository) -> None:
        pass

    def settle(self, repository: DeliveryRepository, reports: Sequence[Report]) -> list[Verdict]:
        return repository.apply_outcomes(
            reports, self.consumer.policy, log_successes=self.consumer.log_successes
        )

    def settled(self, reports: Sequence[Report]) -> None:
        self.rest = self.rest[len(reports) :]

    def is_settled(self, repository: DeliveryRepository, report: Report) -> bool:
        return not repository.owns(report.delivery)

    def hand_back(self, repository: DeliveryRepository, reports: Sequence[Report]) -> list[Verdict]:
        # Their attempts were counted when they were claimed, so each has an outcome to record.
        unfinished = [Report(d, Interrupted(STOPPED)) for d in self.rest[len(reports) :]]
        return self.settle(repository, [*reports, *unfinished])
