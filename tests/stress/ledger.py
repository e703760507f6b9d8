"""Whether everything that was published came to exactly one end, to the last row."""

from collections import Counter
from collections.abc import Iterator

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from tests.stress.roles import business, effects, fate
from vulkan_orm.models import ConsumerGroup, DeliveryLog, ExceptionQueue, Message, RangeClaim

UNCHARGED = ("interrupted", "killed")


def unsettled(engine: Engine, expected: int) -> int:
    """How many messages have neither their effect nor a dead row yet."""
    with Session(engine) as session:
        done = session.scalar(select(func.count()).select_from(effects)) or 0
        dead = session.scalar(select(func.count()).where(ExceptionQueue.state == "dead")) or 0
        return expected - done - dead


def discrepancies(engine: Engine, expected: int) -> Iterator[str]:
    """What does not balance, in words; nothing where all does."""
    with Session(engine) as session:
        published = session.scalars(select(Message.payload)).all()
        numbers = Counter(each["number"] for each in published)
        yield from _compare("messages", numbers, dict.fromkeys(range(expected), 1))
        rows = Counter(session.scalars(select(business.c.number)).all())
        yield from _compare("business rows", rows, numbers)
        living = {n: 1 for n in numbers if fate(n) != "terminal"}
        yield from _compare("effects", Counter(session.scalars(select(effects.c.number))), living)
        yield from _queue(session)
        yield from _log(session)
        if claims := session.scalar(select(func.count()).select_from(RangeClaim)):
            yield f"{claims} ranges are still claimed"
        last = session.scalar(select(func.max(Message.id)))
        position = session.scalar(select(ConsumerGroup.position))
        if position is None or last is None or position < last:
            yield f"the group stands at {position}, the log at {last}"


def _compare(
    what: str, found: Counter[int], wanted: "dict[int, int] | Counter[int]"
) -> Iterator[str]:
    wrong = {n for n in found.keys() | wanted.keys() if found.get(n, 0) != wanted.get(n, 0)}
    for number in sorted(wrong)[:10]:
        yield f"{what}: {number} is there {found.get(number, 0)} times, not {wanted.get(number, 0)}"
    if len(wrong) > 10:
        yield f"{what}: {len(wrong)} wrong in all"


def _queue(session: Session) -> Iterator[str]:
    for row in session.execute(
        select(ExceptionQueue.state, Message.payload).join(
            Message, Message.id == ExceptionQueue.message_id
        )
    ):
        number = row.payload["number"]
        if row.state != "dead" or fate(number) != "terminal":
            yield f"{number} is {row.state}"


def _log(session: Session) -> Iterator[str]:
    """Each delivery's attempts are numbered without a gap and tell its fate."""
    stories: dict[int, list[tuple[int | None, str]]] = {}
    for row in session.execute(
        select(Message.payload, DeliveryLog.attempt, DeliveryLog.outcome)
        .join(Message, Message.id == DeliveryLog.message_id)
        .order_by(DeliveryLog.message_id, DeliveryLog.attempt)
    ):
        stories.setdefault(row.payload["number"], []).append((row.attempt, row.outcome))
    for number, story in stories.items():
        if [attempt for attempt, _ in story] != list(range(1, len(story) + 1)):
            yield f"{number} has attempts {story}"
        told = [outcome for _, outcome in story if outcome not in UNCHARGED]
        ends = {
            "terminal": ["terminal"],
            "succeeded": [],
            "exception": ["exception", "succeeded"],
            "delayed": ["delayed", "succeeded"],
        }[fate(number)]
        # After an interruption a success is the end of a story too.
        if told != ends and not (fate(number) == "succeeded" and told == ["succeeded"]):
            yield f"{number} has the story {story}"
    untold = {"terminal", "exception", "delayed"}
    published = session.scalars(select(Message.payload)).all()
    for number in (each["number"] for each in published):
        if fate(number) in untold and number not in stories:
            yield f"{number} has no story"
