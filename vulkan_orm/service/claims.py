"""Handing work to a worker. Each claim is meant for a short transaction of its own."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from vulkan_orm.core.budget import Counters
from vulkan_orm.core.outcomes import Outcome
from vulkan_orm.core.policy import RetryPolicy
from vulkan_orm.diagnostics import UNKNOWN_GROUP, UNKNOWN_TOPIC, UsageError
from vulkan_orm.service.database import Database, database_of, ids, run
from vulkan_orm.service.deliveries import ClaimedRange, Delivery, Group
from vulkan_orm.service.settlement import Settlement
from vulkan_orm.service.watermark import Watermark
from vulkan_orm.store import claiming, counting, publishing

_NO_RUN = Counters(attempts=0)
_FIRST_RUN = Counters(attempts=1)


class Claims(Settlement):
    """What workers take. ``owner`` names one claim and is never used for another."""

    def group(self, topic: str, group: str) -> Group:
        """:raises UsageError: VK0001, VK0002 for a name that is not there, telling which are."""
        database_of(self.session)
        row = run(self.session, claiming.group_named(topic, group)).one_or_none()
        if row is None:
            raise self._unknown(topic, group)
        return Group(topic, group, row.id, row.topic_id)

    def _unknown(self, topic: str, group: str) -> UsageError:
        topics = run(self.session, counting.topic_names()).scalars().all()
        if topic not in topics:
            known = ", ".join(topics) or "none"
            return UsageError(UNKNOWN_TOPIC, f"There is no topic {topic!r}; known: {known}.")
        groups = run(self.session, counting.group_names(topic)).scalars().all()
        known = ", ".join(groups) or "none"
        return UsageError(
            UNKNOWN_GROUP, f"There is no group {group!r} on topic {topic!r}; known: {known}."
        )

    def claim_range(
        self,
        group: Group,
        owner: str,
        *,
        limit: int,
        lease: float,
        watermark: Watermark,
        upto: int | None = None,
    ) -> ClaimedRange | None:
        """The next messages of the log for this group, or a range somebody left.

        :param lease: seconds until others may take the range, unless renewed.
        :param watermark: the caller's own for this topic, kept from claim to claim.
        :param upto: a message id beyond which nothing is claimed.
        """
        database = database_of(self.session)
        left = run(self.session, claiming.waiting_range(database.dialect, group.id)).one_or_none()
        if left is not None:
            taken = self._take_over(database, group, left, owner, lease, limit)
            if taken.progress < taken.last:
                return taken
        position = run(self.session, claiming.position(database.dialect, group.id)).scalar_one()
        rows = self._unread(database, group, position, watermark, limit, upto)
        if not rows:
            return None
        run(self.session, claiming.advance(database.dialect, group.id, rows[-1].id))
        return self._new_range(group, owner, lease, rows[0].id, rows)

    def _new_range(
        self, group: Group, owner: str, lease: float, first: int, rows: Sequence[Any]
    ) -> ClaimedRange:
        last = rows[-1].id
        added = run(self.session, claiming.add_range(group.id, first, last, owner, lease))
        return ClaimedRange(
            group, added.scalar_one(), owner, first, last, first - 1, False,
            [_first_delivery(group, owner, row) for row in rows],
        )  # fmt: skip

    def _unread(
        self,
        database: Database,
        group: Group,
        position: int,
        watermark: Watermark,
        limit: int,
        upto: int | None,
    ) -> Sequence[Any]:
        """The next messages past the position, as far as the log may be read."""
        rows: Sequence[Any] = []
        after = position
        # Twice, since what was proven earlier may hold only ids that were rolled back or are
        # another topic's: nothing would ever move the position beyond those.
        for _ in range(2):
            proven = watermark.advance(self.session, group.topic_id, after)
            end = min((each for each in (proven, upto) if each is not None), default=None)
            if end is not None and end <= after:
                break
            log = claiming.log(database.dialect, group.topic_id, after=after, upto=end, limit=limit)
            rows = run(self.session, log).all()
            if rows or proven is None:
                break
            after = proven
        return rows

    def _take_over(
        self, database: Database, group: Group, left: Any, owner: str, lease: float, limit: int
    ) -> ClaimedRange:
        # An owner means that its lease ended: one of these messages may be what killed it.
        careful = left.careful or left.owner is not None
        log = claiming.log(
            database.dialect, group.topic_id, after=left.progress, upto=left.last,
            limit=None if careful else limit + 1,
        )  # fmt: skip
        rows = run(self.session, log).all()
        if not careful and len(rows) > limit:
            return self._split(group, left, owner, lease, rows[:limit])
        run(self.session, claiming.take_range(left.id, owner, lease, careful=careful))
        deliveries = [_first_delivery(group, owner, row) for row in rows]
        claimed = ClaimedRange(
            group, left.id, owner, left.first, left.last, left.progress, careful, deliveries
        )
        return claimed if left.running is None else self._blame(claimed, left.running, lease)

    def _split(
        self, group: Group, left: Any, owner: str, lease: float, rows: Sequence[Any]
    ) -> ClaimedRange:
        """Takes the beginning of a range that somebody left; the rest waits for others."""
        run(self.session, claiming.shorten_range(left.id, rows[-1].id + 1))
        return self._new_range(group, owner, lease, left.progress + 1, rows)

    def claim_due(
        self,
        group: Group,
        policy: RetryPolicy,
        owner: str,
        *,
        limit: int,
        lease: float,
        due: datetime | None = None,
    ) -> Sequence[Delivery]:
        """Retries that are due, each counted as an attempt before it runs.

        One that may have killed a worker comes alone. What is over budget becomes dead here.

        :param due: an instant of the database's clock to judge by instead of its present.
        """
        dialect = database_of(self.session).dialect
        self._bury(group, policy, due)
        for careful, most in ((True, 1), (False, limit)):
            statement = claiming.claim_due(
                dialect, group.id, policy, owner, lease, careful=careful, limit=most, due=due
            )
            if got := ids(run(self.session, statement)):
                return self._claimed(group, owner, got)
        return []

    def _bury(self, group: Group, policy: RetryPolicy, due: datetime | None) -> None:
        statement = claiming.bury(group.id, group.topic_id, policy, due)
        buried = ids(run(self.session, statement))
        self._log_acts(group.id, buried, Outcome.DEAD, "dead", reason="the retry budget is spent")

    def claim_held(
        self,
        group: Group,
        owner: str,
        *,
        message_ids: Sequence[int] | None = None,
        limit: int = 100,
        lease: float,
    ) -> Sequence[Delivery]:
        """Held deliveries, to be run on request: neither due time nor budget counts."""
        dialect = database_of(self.session).dialect
        statement = claiming.claim_held(
            dialect, group.id, owner, lease, message_ids=message_ids, limit=limit
        )
        got = ids(run(self.session, statement))
        return self._claimed(group, owner, got) if got else []

    def _claimed(self, group: Group, owner: str, got: Sequence[int]) -> Sequence[Delivery]:
        dialect = database_of(self.session).dialect
        rows = run(self.session, claiming.claimed(dialect, group.id, owner, got)).all()
        return [_retry(group, owner, row) for row in rows]

    def log_end(self, topic_id: int) -> int:
        """The id of the newest message of a topic that this transaction can see."""
        found: int | None = run(self.session, counting.newest(topic_id)).scalar()
        return found or 0

    def now(self) -> datetime:
        """The database's time at this moment."""
        found: datetime = run(self.session, counting.now()).scalar_one()
        return found

    def ensure_topics(self, topics: Sequence[str]) -> None:
        """Makes topics that are missing."""
        dialect = database_of(self.session).dialect
        for topic in topics:
            run(self.session, publishing.add_topic(dialect, topic))

    def ensure_group(self, topic: str, group: str) -> Group:
        """The group, made at the beginning of its topic if it is missing; the topic likewise."""
        dialect = database_of(self.session).dialect
        self.ensure_topics([topic])
        run(self.session, claiming.add_group(dialect, topic, group))
        return self.group(topic, group)

    def renew(self, owner: str, lease: float) -> bool:
        """Extends the lease of one claim; False where it is no longer the owner's."""
        for statement in (claiming.renew_range(owner, lease), claiming.renew_runs(owner, lease)):
            if run(self.session, statement).rowcount:
                return True
        return False


def _first_delivery(group: Group, owner: str, row: Any) -> Delivery:
    # By position, which is what :func:`claiming.log` selects: this is done for every message.
    message_id, key, payload, headers, published_at, deliver_at, max_retries, max_delays = row
    return Delivery(
        group, message_id, key, payload, headers or {}, published_at, owner,
        _FIRST_RUN if deliver_at is None else _NO_RUN,
        max_retries, max_delays, deferred_until=deliver_at,
    )  # fmt: skip


def _retry(group: Group, owner: str, row: Any) -> Delivery:
    return Delivery(
        group=group,
        message_id=row.id,
        key=row.key,
        payload=row.payload,
        headers=row.headers or {},
        published_at=row.published_at,
        owner=owner,
        counters=Counters(
            row.attempts,
            row.delays,
            row.interruptions,
            row.granted_retries,
            row.granted_delays,
        ),
        max_retries=row.max_retries,
        max_delays=row.max_delays,
        first=False,
        on_hold=row.on_hold,
        careful=row.careful or row.on_hold,
    )
