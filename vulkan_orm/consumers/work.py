"""What a claim holds, and how what became of it is recorded: the two kinds of work."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.core.decide import Verdict
from vulkan_orm.core.outcomes import ErrorText, Interrupted
from vulkan_orm.service.deliveries import ClaimedRange, Deliveries, Delivery, Report
from vulkan_orm.service.repository import DeliveryRepository

STOPPED = ErrorText(type="Interrupted", text="the worker was asked to stop")


@dataclass(slots=True)
class Stretch:
    """The next deliveries of some work, run in one transaction.

    How many, and reports of those worth one: a first run that simply worked is only counted.
    """

    count: int = 0
    reports: list[Report] = field(default_factory=list)

    @property
    def plain(self) -> int:
        """How many simply worked."""
        return self.count - len(self.reports)


class Work(Protocol):
    """Deliveries under one lease. ``rest`` are those whose outcome is not recorded yet."""

    rest: Deliveries

    @property
    def owner(self) -> str: ...

    @property
    def report_successes(self) -> bool:
        """Whether runs that simply work are reported like others."""
        ...

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

    @property
    def begins(self) -> bool:
        """Whether something must be recorded before the first one runs."""
        ...

    def begin(self, repository: DeliveryRepository) -> None:
        """Records it."""
        ...

    def settle(self, repository: DeliveryRepository, stretch: Stretch) -> list[Verdict]:
        """Records what became of the next deliveries; a verdict for each report."""
        ...

    def settled(self, stretch: Stretch) -> None:
        """The transaction that settled them has committed."""
        ...

    def is_settled(self, repository: DeliveryRepository, stretch: Stretch) -> bool:
        """Whether a commit whose answer was lost has happened."""
        ...

    def hand_back(self, repository: DeliveryRepository) -> None:
        """Gives up the rest, uncharged."""
        ...


@dataclass(slots=True)
class RangeWork:
    """First deliveries: a range of the log. In careful mode each is named before it runs."""

    claimed: ClaimedRange
    consumer: Consumer
    rest: Deliveries = field(init=False)
    #: How far it is recorded as done.
    _progress: int = field(init=False)

    def __post_init__(self) -> None:
        self.rest = self.claimed.deliveries
        self._progress = self.claimed.progress

    @property
    def owner(self) -> str:
        return self.claimed.owner

    @property
    def report_successes(self) -> bool:
        return self.consumer.log_successes

    @property
    def careful(self) -> bool:
        return self.claimed.careful

    @property
    def divisible(self) -> bool:
        return True

    @property
    def together(self) -> bool:
        return not self.claimed.careful and self.consumer.isolation == "range"

    @property
    def begins(self) -> bool:
        return self.claimed.careful or not self.rest

    def begin(self, repository: DeliveryRepository) -> None:
        self._move(repository, Stretch())
        self._progress = self._before(self.rest)

    def settle(self, repository: DeliveryRepository, stretch: Stretch) -> list[Verdict]:
        return self._move(repository, stretch)

    def settled(self, stretch: Stretch) -> None:
        self.rest = self.rest[stretch.count :]
        self._progress = self._before(self.rest)

    def is_settled(self, repository: DeliveryRepository, stretch: Stretch) -> bool:
        progress = repository.range_progress(self.claimed)
        return progress is None or progress >= self._before(self.rest[stretch.count :])

    def hand_back(self, repository: DeliveryRepository) -> None:
        repository.hand_back(
            self.claimed, [], self.consumer.policy, progress=self._before(self.rest)
        )

    def _move(self, repository: DeliveryRepository, stretch: Stretch) -> list[Verdict]:
        rest = self.rest[stretch.count :]
        return repository.settle_range(
            self.claimed,
            stretch.reports,
            self.consumer.policy,
            progress=self._before(rest),
            since=self._progress,
            running=self._next(rest) if self.claimed.careful else None,
            lease=self.consumer.lease,
            log_successes=self.consumer.log_successes,
        )

    def _next(self, rest: Deliveries) -> int | None:
        """The message that runs next; one that is only put off cannot kill its worker."""
        runs = rest and rest[0].deferred_until is None
        return rest[0].message_id if runs else None

    def _before(self, rest: Deliveries) -> int:
        """Up to before the next message; gaps in the log belong to what is done."""
        return rest[0].message_id - 1 if rest else self.claimed.last


@dataclass(slots=True)
class RetryWork:
    """Deliveries from the exception queue, each counted already."""

    owner: str
    claimed: Sequence[Delivery]
    consumer: Consumer
    rest: Deliveries = field(init=False)

    def __post_init__(self) -> None:
        self.rest = Deliveries.of(self.claimed)

    @property
    def report_successes(self) -> bool:
        # Each has a row to delete.
        return True

    @property
    def careful(self) -> bool:
        return any(each.careful for each in self.rest)

    @property
    def divisible(self) -> bool:
        return False

    @property
    def together(self) -> bool:
        return self.consumer.isolation == "range" and len(self.rest) > 1

    @property
    def begins(self) -> bool:
        return False

    def begin(self, repository: DeliveryRepository) -> None:
        raise AssertionError("there is nothing to record")

    def settle(self, repository: DeliveryRepository, stretch: Stretch) -> list[Verdict]:
        return self._settle(repository, stretch.reports)

    def settled(self, stretch: Stretch) -> None:
        self.rest = self.rest[stretch.count :]

    def is_settled(self, repository: DeliveryRepository, stretch: Stretch) -> bool:
        return not stretch.reports or not repository.owns(stretch.reports[-1].delivery)

    def hand_back(self, repository: DeliveryRepository) -> None:
        # Their attempts were counted when they were claimed, so each has an outcome to record.
        self._settle(repository, [Report(each, Interrupted(STOPPED)) for each in self.rest])

    def _settle(self, repository: DeliveryRepository, reports: Sequence[Report]) -> list[Verdict]:
        return repository.apply_outcomes(
            reports, self.consumer.policy, log_successes=self.consumer.log_successes
        )
