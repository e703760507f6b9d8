"""How far a topic's log may be read: the reader's half of the fence."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from vulkan_orm.diagnostics import (
    ON_STANDBY,
    POSITION_BEYOND_LOG,
    SEQUENCE_CACHE,
    DatabaseError,
)
from vulkan_orm.service.database import Database, database_of, run
from vulkan_orm.store import fencing


@dataclass(slots=True)
class Watermark:
    """What one reader knows of one topic's log; kept between claims, dropped on reconnect.

    ``proven``: up to it, every id has committed, rolled back or was never drawn.
    """

    proven: int = 0
    #: Whether the last claim took all there was up to there.
    exhausted: bool = True
    _mark: int = 0
    _holders: frozenset[str] = frozenset()

    def advance(self, session: Session, topic_id: int, position: int) -> int | None:
        """The id up to which a group at ``position`` may read; None where ids commit in order.

        Runs its looks as separate statements: the order of which is what makes it a proof.

        :raises DatabaseError: VK0045 to VK0047 where nothing could be proven.
        """
        database = database_of(session)
        if not database.dialect.ids_commit_out_of_order:
            return None
        if self.proven > position:
            return self.proven
        if self._holders:
            self._settle(self._still_open(_publishers(session, database, topic_id)))
        if not self._holders and self.proven <= position:
            self._mark = _log_end(session, position)
            self._settle(_publishers(session, database, topic_id))
        return self.proven

    def check(self, session: Session, position: int) -> None:
        """:raises DatabaseError: VK0046 for a position beyond what was ever handed out."""
        if database_of(session).dialect.ids_commit_out_of_order:
            _log_end(session, position)

    def _still_open(self, now: frozenset[str]) -> frozenset[str]:
        # A prepared transaction changes its name when the server restarts, to one of its own kind.
        return frozenset(each for each in now if each in self._holders or each.startswith("-1/"))

    def _settle(self, holders: frozenset[str]) -> None:
        self._holders = holders
        if not holders and self._mark > self.proven:
            self.proven, self.exhausted = self._mark, False


def _publishers(session: Session, database: Database, topic_id: int) -> frozenset[str]:
    found = run(session, fencing.publishers(database.installation, topic_id))
    return frozenset(found.scalars())


def _log_end(session: Session, position: int) -> int:
    row = run(session, fencing.log_end()).one()
    if row.on_standby:
        raise DatabaseError(ON_STANDBY, "The server is a read-only standby.")
    if row.seqcache != 1:
        raise DatabaseError(
            SEQUENCE_CACHE, f"vulkan_message_id_seq has CACHE {row.seqcache}; it must be 1."
        )
    # One that was just made or restarted names the id it will hand out next.
    end = int(row.last_value) if row.is_called else int(row.last_value) - 1
    if position > end:
        raise DatabaseError(
            POSITION_BEYOND_LOG,
            f"A group's position is {position}, but ids have been handed out up to {end}.",
            position=position,
            end=end,
        )
    return end
