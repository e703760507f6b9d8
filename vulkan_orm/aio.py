"""The async surface: each method awaits the sync one it is named after."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from vulkan_orm.core.decide import Verdict
from vulkan_orm.core.outcomes import AnyOutcome
from vulkan_orm.core.policy import RetryPolicy
from vulkan_orm.models import DeliveryLog, ExceptionQueue
from vulkan_orm.service.deliveries import ClaimedRange, Delivery, Group, Lag, Report
from vulkan_orm.service.operations import Chosen
from vulkan_orm.service.repository import DeliveryRepository
from vulkan_orm.service.watermark import Watermark

__all__ = ["AsyncDeliveryRepository"]


class AsyncDeliveryRepository:
    """:class:`DeliveryRepository` over an AsyncSession."""

    def __init__(self, session: AsyncSession) -> None:
        self.session = session
        self._sync = DeliveryRepository(session.sync_session)

    async def apply_outcome(
        self, delivery: Delivery, outcome: AnyOutcome, policy: RetryPolicy
    ) -> Verdict:
        """See :meth:`DeliveryRepository.apply_outcome`."""
        return await self.session.run_sync(
            lambda _: self._sync.apply_outcome(delivery, outcome, policy)
        )

    async def apply_outcomes(
        self, reports: Sequence[Report], policy: RetryPolicy, *, log_successes: bool = False
    ) -> list[Verdict]:
        """See :meth:`DeliveryRepository.apply_outcomes`."""
        return await self.session.run_sync(
            lambda _: self._sync.apply_outcomes(reports, policy, log_successes=log_successes)
        )

    async def claim_due(
        self,
        group: Group,
        policy: RetryPolicy,
        owner: str,
        *,
        limit: int,
        lease: float,
        due: datetime | None = None,
    ) -> Sequence[Delivery]:
        """See :meth:`DeliveryRepository.claim_due`."""
        return await self.session.run_sync(
            lambda _: self._sync.claim_due(group, policy, owner, limit=limit, lease=lease, due=due)
        )

    async def claim_held(
        self,
        group: Group,
        owner: str,
        *,
        message_ids: Sequence[int] | None = None,
        limit: int = 100,
        lease: float,
    ) -> Sequence[Delivery]:
        """See :meth:`DeliveryRepository.claim_held`."""
        return await self.session.run_sync(
            lambda _: self._sync.claim_held(
                group, owner, message_ids=message_ids, limit=limit, lease=lease
            )
        )

    async def claim_range(
        self,
        group: Group,
        owner: str,
        *,
        limit: int,
        lease: float,
        watermark: Watermark,
        upto: int | None = None,
    ) -> ClaimedRange | None:
        """See :meth:`DeliveryRepository.claim_range`."""
        return await self.session.run_sync(
            lambda _: self._sync.claim_range(
                group, owner, limit=limit, lease=lease, watermark=watermark, upto=upto
            )
        )

    async def dead(
        self, topic: str, group: str, *, limit: int = 100, after: int = 0
    ) -> list[ExceptionQueue]:
        """See :meth:`DeliveryRepository.dead`."""
        return await self.session.run_sync(
            lambda _: self._sync.dead(topic, group, limit=limit, after=after)
        )

    async def discard(
        self, topic: str, group: str, message_ids: Chosen = None, *, by: str = "", reason: str = ""
    ) -> list[int]:
        """See :meth:`DeliveryRepository.discard`."""
        return await self.session.run_sync(
            lambda _: self._sync.discard(topic, group, message_ids, by=by, reason=reason)
        )

    async def ensure_group(self, topic: str, group: str) -> Group:
        """See :meth:`DeliveryRepository.ensure_group`."""
        return await self.session.run_sync(lambda _: self._sync.ensure_group(topic, group))

    async def ensure_topics(self, topics: Sequence[str]) -> None:
        """See :meth:`DeliveryRepository.ensure_topics`."""
        return await self.session.run_sync(lambda _: self._sync.ensure_topics(topics))

    async def group(self, topic: str, group: str) -> Group:
        """See :meth:`DeliveryRepository.group`."""
        return await self.session.run_sync(lambda _: self._sync.group(topic, group))

    async def hand_back(
        self,
        claimed: ClaimedRange,
        reports: Sequence[Report],
        policy: RetryPolicy,
        *,
        progress: int,
        log_successes: bool = False,
    ) -> list[Verdict]:
        """See :meth:`DeliveryRepository.hand_back`."""
        return await self.session.run_sync(
            lambda _: self._sync.hand_back(
                claimed, reports, policy, progress=progress, log_successes=log_successes
            )
        )

    async def history(self, topic: str, group: str, message_id: int) -> list[DeliveryLog]:
        """See :meth:`DeliveryRepository.history`."""
        return await self.session.run_sync(lambda _: self._sync.history(topic, group, message_id))

    async def hold(
        self, topic: str, group: str, message_ids: Chosen = None, *, by: str = "", reason: str = ""
    ) -> list[int]:
        """See :meth:`DeliveryRepository.hold`."""
        return await self.session.run_sync(
            lambda _: self._sync.hold(topic, group, message_ids, by=by, reason=reason)
        )

    async def lag(self, topic: str, group: str) -> Lag:
        """See :meth:`DeliveryRepository.lag`."""
        return await self.session.run_sync(lambda _: self._sync.lag(topic, group))

    async def log_end(self, topic_id: int) -> int:
        """See :meth:`DeliveryRepository.log_end`."""
        return await self.session.run_sync(lambda _: self._sync.log_end(topic_id))

    async def now(self) -> datetime:
        """See :meth:`DeliveryRepository.now`."""
        return await self.session.run_sync(lambda _: self._sync.now())

    async def owns(self, delivery: Delivery) -> bool:
        """See :meth:`DeliveryRepository.owns`."""
        return await self.session.run_sync(lambda _: self._sync.owns(delivery))

    async def range_progress(self, claimed: ClaimedRange) -> int | None:
        """See :meth:`DeliveryRepository.range_progress`."""
        return await self.session.run_sync(lambda _: self._sync.range_progress(claimed))

    async def recover(self) -> int:
        """See :meth:`DeliveryRepository.recover`."""
        return await self.session.run_sync(lambda _: self._sync.recover())

    async def redrive(
        self, topic: str, group: str, message_ids: Chosen = None, *, by: str = "", reason: str = ""
    ) -> list[int]:
        """See :meth:`DeliveryRepository.redrive`."""
        return await self.session.run_sync(
            lambda _: self._sync.redrive(topic, group, message_ids, by=by, reason=reason)
        )

    async def release(
        self, topic: str, group: str, message_ids: Chosen = None, *, by: str = "", reason: str = ""
    ) -> list[int]:
        """See :meth:`DeliveryRepository.release`."""
        return await self.session.run_sync(
            lambda _: self._sync.release(topic, group, message_ids, by=by, reason=reason)
        )

    async def renew(self, owner: str, lease: float) -> bool:
        """See :meth:`DeliveryRepository.renew`."""
        return await self.session.run_sync(lambda _: self._sync.renew(owner, lease))

    async def settle_range(
        self,
        claimed: ClaimedRange,
        reports: Sequence[Report],
        policy: RetryPolicy,
        *,
        progress: int,
        since: int | None = None,
        running: int | None = None,
        lease: float,
        log_successes: bool = False,
    ) -> list[Verdict]:
        """See :meth:`DeliveryRepository.settle_range`."""
        return await self.session.run_sync(
            lambda _: self._sync.settle_range(
                claimed,
                reports,
                policy,
                progress=progress,
                since=since,
                running=running,
                lease=lease,
                log_successes=log_successes,
            )
        )
