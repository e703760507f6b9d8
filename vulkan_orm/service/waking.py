"""What an idle worker asks, and how it has itself woken."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from vulkan_orm.service.database import database_of, run
from vulkan_orm.service.deliveries import Group
from vulkan_orm.service.watermark import Watermark
from vulkan_orm.store import fencing, waking

# For how long publishers give hints to a worker that died in its sleep.
SLEEP = 60.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What a look at one group found."""

    position: int
    #: Messages beyond the position that may be read now.
    unread: bool
    #: Messages beyond the position that an open transaction of a publisher holds back.
    held: bool
    #: A range that nobody holds.
    waiting: bool
    #: Seconds until a retry is due, not positive where one is; None without any.
    due_in: float | None
    #: The channels of the workers that sleep, and for how many seconds more they said they do.
    sleepers: Sequence[str]
    sleeps_for: float

    @property
    def due(self) -> bool:
        return self.due_in is not None and self.due_in <= 0


def look(session: Session, group: Group, watermark: Watermark) -> Sight:
    """Looks whether the group has something to do; changes nothing.

    :param watermark: the caller's own for the topic, as for a claim.
    """
    dialect = database_of(session).dialect
    row = run(session, waking.look(dialect, group.id, group.topic_id)).one()
    readable = False
    if row.unread is not None:
        proven = watermark.advance(session, group.topic_id, row.unread - 1)
        readable = proven is None or proven >= row.unread
    return Sight(
        position=row.position,
        unread=readable,
        held=row.unread is not None and not readable,
        waiting=row.waiting,
        due_in=None if row.overdue is None else -row.overdue,
        sleepers=(row.sleepers or []) if (row.overslept or 0.0) < 0 else [],
        sleeps_for=0.0 if row.overslept is None else -row.overslept,
    )


def sleep(session: Session, group: Group, channel: str) -> bool:
    """Asks publishers for a hint on the channel; False where many others sleep already.

    Once it is committed, what is published by a statement that begins later gives one.
    """
    dialect = database_of(session).dialect
    return run(session, waking.sleep(dialect, group.id, channel, SLEEP)).rowcount == 1


def rise(session: Session, group: Group, channel: str) -> None:
    """Asks for no more hints on the channel."""
    run(session, waking.rise(database_of(session).dialect, group.id, channel))


def publishers(session: Session, group: Group) -> frozenset[str]:
    """The transactions that published to the group's topic and are still open."""
    database = database_of(session)
    found = run(session, fencing.publishers(database.installation, group.topic_id))
    return frozenset(found.scalars())
