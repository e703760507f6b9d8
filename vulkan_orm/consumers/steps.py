"""What a consumer asks its driver to do.

The protocols of the consumers are written once, as generators that yield these; one driver
answers them with plain calls, the other with awaits.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from vulkan_orm.consumers.bell import Bell
from vulkan_orm.service.repository import DeliveryRepository

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Transact:
    """A short transaction of our own, run again when the database says contention."""

    work: Callable[[DeliveryRepository], Any]
    autocommit: bool = False


@dataclass(frozen=True, slots=True)
class Attend:
    """Database work on the session of a unit of work."""

    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Invoke:
    """The user's function. Answered with the error it raised, or None."""

    call: Callable[[], Any]
    is_async: bool


@dataclass(frozen=True, slots=True)
class Rest:
    """A pause in seconds, cut short by a stop, or by the bell where one is given."""

    seconds: float | None
    bell: Bell | None = None


Step = Transact | Attend | Invoke | Rest
Steps = Generator[Step, Any, T]


def transact(work: Callable[[DeliveryRepository], T]) -> Steps[T]:
    answer: T = yield Transact(work)
    return answer


def autocommit(work: Callable[[DeliveryRepository], T]) -> Steps[T]:
    """Statements that need no transaction between them, for one round trip each."""
    answer: T = yield Transact(work, autocommit=True)
    return answer


def attend(work: Callable[[], T]) -> Steps[T]:
    answer: T = yield Attend(work)
    return answer


class Conversation(Generic[T]):
    """A protocol being driven: its next step, and the answer or failure it gets for it."""

    result: T

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self.answer: Any = None
        self.failure: BaseException | None = None

    def next(self) -> Step | None:
        """The next step; None at the end, when there is a result."""
        answer, failure = self.answer, self.failure
        self.answer = self.failure = None
        try:
            return self._steps.throw(failure) if failure is not None else self._steps.send(answer)
        except StopIteration as end:
            self.result = end.value
            return None
