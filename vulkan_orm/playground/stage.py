"""What scenarios share: how one is registered, and the stage on which it plays."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select
from sqlalchemy.orm import DeclarativeBase, Session

from vulkan_orm import DeliveryRepository, Vulkan
from vulkan_orm.models import DeliveryLog, ExceptionQueue, Message, Topic
from vulkan_orm.store import clock

if TYPE_CHECKING:
    from vulkan_orm.playground.narrator import Narrator


class Host(DeclarativeBase):
    """The tables that the scenarios' applications have beside ours."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One numbered scenario. ``trap`` says how it goes wrong elsewhere; empty if it does not."""

    number: str
    title: str
    question: str
    trap: str
    here: str
    play: "Callable[[Stage], None]"


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    number: str, title: str, *, question: str, trap: str = "", here: str
) -> "Callable[[Callable[[Stage], None]], Callable[[Stage], None]]":
    """Registers a function as the scenario of that number."""

    def register(play: "Callable[[Stage], None]") -> "Callable[[Stage], None]":
        SCENARIOS[number] = Scenario(number, title, question, trap, here, play)
        return play

    return register


class Stage:
    """A migrated database with a Vulkan, a clock that can be moved, and somebody who narrates."""

    def __init__(self, url: str, narrator: "Narrator") -> None:
        self.url = url
        self.vulkan = Vulkan(url)
        self.vulkan.upgrade()
        self._narrator = narrator

    def close(self) -> None:
        self.vulkan.engine.dispose()

    def tables(self, *classes: type[DeclarativeBase]) -> None:
        """Makes the application's tables."""
        for each in classes:
            each.metadata.create_all(self.vulkan.engine, tables=[_table(each)])

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """The application's session in a transaction: committed at the end, unless it raises."""
        with Session(self.vulkan.engine) as session, session.begin():
            yield session

    def drain(self) -> None:
        """Runs what is due until nothing is."""
        self.vulkan.drain()

    # Time

    def now(self) -> datetime:
        """The database's time."""
        with self.transaction() as session:
            found: datetime = session.execute(select(clock.db_now())).scalar_one()
        return found

    def wait(self, span: timedelta) -> None:
        """Moves the database's clock instead of sleeping."""
        clock.set_offset(clock.offset() + span.total_seconds())

    def wait_until(self, instant: datetime) -> None:
        """Moves it to an instant, and a moment on so that what is due then is due."""
        self.wait(instant - self.now() + timedelta(milliseconds=50))

    # What the rows say

    def messages(self, topic: str) -> Sequence[Message]:
        """The log of a topic, as committed."""
        query = select(Message).join(Topic, Topic.id == Message.topic_id)
        return self.rows(query.where(Topic.name == topic).order_by(Message.id))

    def queue(self, topic: str, group: str) -> Sequence[ExceptionQueue]:
        """A group's rows of the exception queue."""
        return self.rows(self._of(ExceptionQueue, topic, group).order_by(ExceptionQueue.message_id))

    def log(self, topic: str, group: str, message_id: int | None = None) -> Sequence[DeliveryLog]:
        """A group's rows of the delivery log, of one message or all."""
        query = self._of(DeliveryLog, topic, group).order_by(DeliveryLog.id)
        if message_id is not None:
            query = query.where(DeliveryLog.message_id == message_id)
        return self.rows(query)

    def outcomes(self, topic: str, group: str, message_id: int) -> list[tuple[int | None, str]]:
        """Attempt and outcome of each log row of one delivery."""
        return [(row.attempt, row.outcome) for row in self.log(topic, group, message_id)]

    def rows(self, query: Any) -> Sequence[Any]:
        with self.transaction() as session:
            found = session.scalars(query).all()
            session.expunge_all()
        return found

    def count(self, table: type[DeclarativeBase]) -> int:
        """How many rows an application's table has."""
        with self.transaction() as session:
            return session.scalar(select(func.count()).select_from(table)) or 0

    def lag(self, topic: str, group: str) -> int:
        with self.transaction() as session:
            return DeliveryRepository(session).lag(topic, group).total

    def _of(self, table: Any, topic: str, group: str) -> Any:
        with self.transaction() as session:
            group_id = DeliveryRepository(session).group(topic, group).id
        return select(table).where(table.group_id == group_id)

    # Telling

    def code(self, *functions: Callable[..., Any]) -> None:
        """Shows the source of the functions that matter."""
        self._narrator.code(functions)

    def tell(self, text: str) -> None:
        self._narrator.tell(text)

    def show_log(self, topic: str, group: str) -> None:
        """Prints the delivery log of a group."""
        rows = [
            (row.message_id, row.attempt or "-", row.outcome, row.became, row.error_text or "")
            for row in self.log(topic, group)
        ]
        heading = f"delivery_log of {topic}/{group}"
        self._narrator.table(heading, ("message", "attempt", "outcome", "became", "text"), rows)

    def show_queue(self, topic: str, group: str) -> None:
        """Prints the exception queue of a group."""
        now = self.now()
        rows = [
            (
                *(row.message_id, row.state, row.attempts, row.delays, row.spent),
                in_words(row.can_run_after - now) if row.state == "ready" else "-",
            )
            for row in self.queue(topic, group)
        ]
        heading = f"exception_queue of {topic}/{group}"
        columns = ("message", "state", "attempts", "delays", "spent", "runs again in")
        self._narrator.table(heading, columns, rows)

    def table(self, heading: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        self._narrator.table(heading, columns, rows)

    def check(self, what: str, found: object, expected: object = True) -> None:
        """One check of the verdict: ``what`` holds when the values are equal."""
        self._narrator.check(what, found, expected)


def in_words(span: timedelta) -> str:
    """A span so coarse that a slow machine does not change it."""
    seconds = max(span.total_seconds(), 0.0)
    step = 10 if seconds > 30 else 1
    return str(timedelta(seconds=round(seconds / step) * step))


def _table(mapped: type[DeclarativeBase]) -> Any:
    return mapped.__table__
