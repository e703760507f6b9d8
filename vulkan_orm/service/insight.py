"""Every read-only question about the whole installation; each reader asks here."""

from sqlalchemy.orm import Session

from vulkan_orm.service.database import database_of, run
from vulkan_orm.service.deliveries import Blocker, GroupStatus, Lag
from vulkan_orm.store import counting, fencing


class Insight:
    """Questions that change nothing."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def check(self) -> None:
        """Whether workers could work here.

        :raises DatabaseError: VK0040 to VK0042 when our tables are missing, too old or too new.
        """
        database_of(self.session)

    def status(self) -> list[GroupStatus]:
        """Each group's lag and queue, and who holds its topic back."""
        database = database_of(self.session)
        lines = []
        for row in run(self.session, counting.groups()).all():
            lag = Lag(
                run(self.session, counting.ahead(row.group_id)).scalar_one(),
                run(self.session, counting.in_ranges(row.group_id)).scalar_one(),
            )
            states = {
                each.state: each.amount for each in run(self.session, counting.states(row.group_id))
            }
            blockers = (
                self._blockers(database.installation, row.topic_id)
                if database.dialect.ids_commit_out_of_order and lag.ahead
                else []
            )
            lines.append(GroupStatus(row.topic, row.group, lag, states, blockers))
        return lines

    def _blockers(self, installation: int, topic_id: int) -> list[Blocker]:
        found = run(self.session, fencing.publishers_named(installation, topic_id))
        return [
            Blocker(
                row.pid or 0,
                row.application_name or "",
                row.state or "prepared",
                float(row.seconds or 0),
            )
            for row in found
        ]
