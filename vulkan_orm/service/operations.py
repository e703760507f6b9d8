"""What an operator does to deliveries. Each acts on the state it names, and twice is harmless."""

from collections.abc import Sequence
from typing import Any

from vulkan_orm.core.outcomes import Outcome
from vulkan_orm.models import DeliveryLog, ExceptionQueue
from vulkan_orm.service.claims import Claims
from vulkan_orm.service.database import ids, run
from vulkan_orm.service.deliveries import Lag
from vulkan_orm.store import counting, operating

Chosen = Sequence[int] | int | None


class Operations(Claims):
    """The operator's actions; ``message_ids=None`` means all that are in a fitting state.

    They return the ids they changed: a delivery that runs just now is never among them. Each
    leaves a row in the delivery log that says who did it and why.
    """

    def dead(
        self, topic: str, group: str, *, limit: int = 100, after: int = 0
    ) -> list[ExceptionQueue]:
        """Dead deliveries by message id, at most ``limit`` with an id above ``after``."""
        found = self.group(topic, group)
        statement = operating.dead(found.id, limit=limit, after=after)
        return list(self.session.scalars(statement).all())

    def history(self, topic: str, group: str, message_id: int) -> list[DeliveryLog]:
        """Every run of one delivery and every act of an operator on it, in order."""
        found = self.group(topic, group)
        statement = operating.history(found.id, message_id)
        return list(self.session.scalars(statement).all())

    def redrive(
        self, topic: str, group: str, message_ids: Chosen = None, *, by: str = "", reason: str = ""
    ) -> list[int]:
        """Makes dead or held deliveries ready at once, with a fresh budget of retries and delays.

        ``attempts`` and ``delays`` stay as they are: the limits grow instead.
        """
        return self._act(
            operating.redrive, topic, group, message_ids, Outcome.REDRIVEN, "ready", by, reason
        )

    def hold(
        self, topic: str, group: str, message_ids: Chosen = None, *, by: str = "", reason: str = ""
    ) -> list[int]:
        """Takes ready or dead deliveries out of everybody's reach but the DeliveryConsumer's."""
        return self._act(
            operating.hold, topic, group, message_ids, Outcome.HELD, "held", by, reason
        )

    def release(
        self, topic: str, group: str, message_ids: Chosen = None, *, by: str = "", reason: str = ""
    ) -> list[int]:
        """Gives held deliveries back to the retries, with the due time and budget they had."""
        return self._act(
            operating.release, topic, group, message_ids, Outcome.RELEASED, "ready", by, reason
        )

    def discard(
        self, topic: str, group: str, message_ids: Chosen = None, *, by: str = "", reason: str = ""
    ) -> list[int]:
        """Drops deliveries that are not running, for good; the delivery log remembers them."""
        return self._act(
            operating.discard, topic, group, message_ids, Outcome.DISCARDED, "gone", by, reason
        )

    def lag(self, topic: str, group: str) -> Lag:
        """How many messages the group has not read, and how many it claimed and has not done."""
        found = self.group(topic, group)
        ahead = run(self.session, counting.ahead(found.id)).scalar_one()
        claimed = run(self.session, counting.in_ranges(found.id)).scalar_one()
        return Lag(ahead, claimed)

    def _act(
        self,
        build: Any,
        topic: str,
        group: str,
        chosen: Chosen,
        outcome: Outcome,
        became: str,
        by: str,
        reason: str,
    ) -> list[int]:
        found = self.group(topic, group)
        message_ids = [chosen] if isinstance(chosen, int) else chosen
        changed = sorted(ids(run(self.session, build(found.id, message_ids))))
        self._log_acts(found.id, changed, outcome, became, by=by, reason=reason)
        return changed
