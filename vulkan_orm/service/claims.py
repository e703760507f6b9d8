"""Handing work to a worker. Each claim is meant for a short transaction of its own."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from vulkan_orm.columns import in_utc
from vulkan_orm.core.budget import Counters, Limits, spent, within_budget
from vulkan_orm.core.outcomes import Outcome
from vulkan_orm.core.policy import RetryPolicy
from vulkan_orm.diagnostics import UNKNOWN_GROUP, UNKNOWN_TOPIC, UsageError
from vulkan_orm.service.codec import rows_json
from vulkan_orm.service.database import Database, database_of, run
from vulkan_orm.service.deliveries import ClaimedRange, Deliveries, Delivery, Group
from vulkan_orm.service.settlement import Settlement
from vulkan_orm.service.watermark import Watermark
from vulkan_orm.store import claiming, counting, publishing
from vulkan_orm.store.dialects import Dialect

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
        while True:
            # Only where nothing more is known to be there does it look how far the log has come.
            looks, before = watermark.exhausted, watermark.proven
            proven = watermark.advance(
                self.session, group.topic_id, watermark.proven if looks else -1
            )
            end = _lowest(proven, upto, claiming.NO_END)
            claim = partial(self._claim_unread, database.dialect, group, owner, limit, lease, end)
            claimed = claim(waiting_first=True)
            watermark.exhausted = claimed is None or len(claimed.deliveries) < limit
            if claimed is not None:
                return claimed
            # What was proven just now may hold only ids that were rolled back, or another topic's.
            if looks and watermark.proven == before:
                break
        left = self._claim_left(database, group, owner, limit, lease)
        # Again, for the range that waited may be in the hands of another by now, or at its end.
        claimed = left or claim(waiting_first=False)
        if claimed is None:
            watermark.check(self.session, self._position(database, group))
        return claimed

    def _claim_unread(
        self,
        dialect: Dialect,
        group: Group,
        owner: str,
        limit: int,
        lease: float,
        end: int,
        *,
        waiting_first: bool,
    ) -> ClaimedRange | None:
        """The next messages up to an end.

        :param waiting_first: none where a range waits.
        """
        parameters: dict[str, Any] = {
            "group": group.id, "topic": group.topic_id, "upto": end, "limit": limit,
        }  # fmt: skip
        if not dialect.writes_while_reading:
            rows = run(self.session, claiming.unread(dialect, waiting_first), parameters).all()
            return self._take(dialect, group, owner, lease, rows) if rows else None
        parameters |= {"owner": owner, "lease": lease}
        rows = run(self.session, claiming.claim_unread(dialect, waiting_first), parameters).all()
        return _new_range(group, owner, rows[0][-1], rows[0][0], rows) if rows else None

    def _claim_left(
        self,
        database: Database,
        group: Group,
        owner: str,
        limit: int,
        lease: float,
    ) -> ClaimedRange | None:
        """A range that somebody left, for which what is unread has to wait."""
        left = run(self.session, claiming.waiting_range(database.dialect, group.id))
        if (found := left.one_or_none()) is None:
            return None
        taken = self._take_over(database, group, found, owner, lease, limit)
        return taken if taken.progress < taken.last else None

    def _position(self, database: Database, group: Group) -> int:
        found = run(self.session, claiming.position(database.dialect, group.id))
        return int(found.scalar_one())

    def _take(
        self, dialect: Dialect, group: Group, owner: str, lease: float, rows: Sequence[Any]
    ) -> ClaimedRange:
        run(self.session, claiming.advance(dialect, group.id, rows[-1][0]))
        return self._add_range(group, owner, lease, rows[0][0], rows)

    def _add_range(
        self, group: Group, owner: str, lease: float, first: int, rows: Sequence[Any]
    ) -> ClaimedRange:
        statement = claiming.add_range(group.id, first, rows[-1][0], owner, lease)
        range_id = run(self.session, statement).scalar_one()
        return _new_range(group, owner, range_id, first, rows)

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
        deliveries = _first_deliveries(group, owner, rows)
        claimed = ClaimedRange(
            group, left.id, owner, left.first, left.last, left.progress, careful, deliveries
        )
        return claimed if left.running is None else self._blame(claimed, left.running, lease)

    def _split(
        self, group: Group, left: Any, owner: str, lease: float, rows: Sequence[Any]
    ) -> ClaimedRange:
        """Takes the beginning of a range that somebody left; the rest waits for others."""
        run(self.session, claiming.shorten_range(left.id, rows[-1].id + 1))
        return self._add_range(group, owner, lease, left.progress + 1, rows)

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
        statement = claiming.due_runs(dialect, at_instant=due is not None)
        parameters: dict[str, Any] = {"of_group": group.id, "topic": group.topic_id, "most": limit}
        if due is not None:
            parameters["due"] = due
        # Again where all that was found is over budget: there may be more behind it.
        while rows := run(self.session, statement, parameters).all():
            if runnable := self._bury(group, policy, rows):
                return self._start(group, owner, lease, _beside_each_other(runnable))
        return []

    def _bury(self, group: Group, policy: RetryPolicy, rows: Sequence[Any]) -> Sequence[Any]:
        """Makes dead what is over budget, after a kill or a deploy; returns the others."""
        runnable: list[Any] = []
        over: list[Any] = []
        for row in rows:
            retries = Limits.of(policy, row.max_retries, row.max_delays).retries
            within = within_budget(spent(row.attempts, row.delays), retries, row.granted_retries)
            (runnable if within else over).append(row)
        if over:
            statement = claiming.bury(database_of(self.session).dialect)
            copies = [
                {**_key(group, row), "payload": row.payload, "headers": row.headers} for row in over
            ]
            run(self.session, statement, {"document": rows_json(copies)})
            self._log_acts(
                group.id,
                [row.message_id for row in over],
                Outcome.DEAD,
                "dead",
                reason="the retry budget is spent",
            )
        return runnable

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
        statement = claiming.held_runs(database_of(self.session).dialect, message_ids)
        parameters = {"of_group": group.id, "topic": group.topic_id, "most": limit}
        rows = run(self.session, statement, parameters).all()
        return self._start(group, owner, lease, rows, on_hold=True) if rows else []

    def _start(
        self, group: Group, owner: str, lease: float, rows: Sequence[Any], *, on_hold: bool = False
    ) -> Sequence[Delivery]:
        statement = claiming.start_runs(database_of(self.session).dialect)
        document = rows_json([_key(group, row) for row in rows])
        parameters = {"document": document, "claimed_by": owner, "lease": lease}
        run(self.session, statement, parameters)
        return [_retry(group, owner, row, on_hold=on_hold) for row in rows]

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


def _lowest(*ends: int | None) -> int:
    return min(each for each in ends if each is not None)


def _new_range(
    group: Group, owner: str, range_id: int, first: int, rows: Sequence[Any]
) -> ClaimedRange:
    deliveries = _first_deliveries(group, owner, rows)
    return ClaimedRange(group, range_id, owner, first, rows[-1][0], first - 1, False, deliveries)


def _first_deliveries(group: Group, owner: str, rows: Sequence[Any]) -> Deliveries:
    # By position, in the order of :func:`claiming.log`: this is done for every message.
    def make(row: Any) -> Delivery:
        message_id, key, payload, headers, published, deliver_at, max_retries, max_delays = row[:8]
        return Delivery(
            group, message_id, key, payload, headers, published, owner,
            _FIRST_RUN if deliver_at is None else _NO_RUN,
            max_retries, max_delays,
            deferred_until=None if deliver_at is None else in_utc(deliver_at),
        )  # fmt: skip

    return Deliveries(rows, make, lambda row: row[2] if row[5] is None else None)


def _beside_each_other(rows: Sequence[Any]) -> Sequence[Any]:
    """Which of the rows may run together: a careful one runs alone, in its turn."""
    if rows[0].careful:
        return rows[:1]
    return [row for row in rows if not row.careful]


def _key(group: Group, row: Any) -> dict[str, Any]:
    return {"group_id": group.id, "message_id": row.message_id}


def _retry(group: Group, owner: str, row: Any, *, on_hold: bool) -> Delivery:
    # By position, which is what :func:`claiming._waiting` selects.
    (
        message_id, key, payload, headers, published, max_retries, max_delays,
        attempts, delays, interruptions, granted_retries, granted_delays, careful,
    ) = row  # fmt: skip
    counters = Counters(attempts + 1, delays, interruptions, granted_retries, granted_delays)
    return Delivery(
        group, message_id, key, payload, headers, published, owner, counters,
        max_retries, max_delays, first=False, on_hold=on_hold, careful=careful or on_hold,
    )  # fmt: skip
