"""What a consumer asks its driver to do.

The protocols of the consumers are written once, as generators that yield these; one driver
answers them with plain calls, the other with awaits.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from vulkan_orm.consumers.bell import Bell
from vulkan_orm.service.repository import DeliveryRepository

S = TypeVar("S")
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
    """The user's function, called with each tuple of arguments that ``calls`` yields.

    A call is answered with the error it raised, or None. Between calls there may be
    :class:`Attend` and :class:`Breathe`.
    """

    call: Callable[..., Any]
    calls: "Calls"
    is_async: bool


@dataclass(frozen=True, slots=True)
class Breathe:
    """A moment for whatever else goes on in this process, between two calls."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A short transaction beside what goes on here. Answered with what :class:`Collect` takes.

    ``landed`` gets its result as soon as it has committed.
    """

    work: Callable[[DeliveryRepository], Any]
    landed: Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Collect:
    """Waits for what was begun. Answered with its result, or its failure."""

    begun: Any


@dataclass(frozen=True, slots=True)
class Rest:
    """A pause in seconds, cut short by a stop, or by the bell where one is given."""

    seconds: float | None
    bell: Bell | None = None


Step = Transact | Attend | Invoke | Begin | Collect | Rest
Calls = Generator[tuple[Any, ...] | Attend | Breathe, Any, None]
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


class Conversation(Generic[S, T]):
    """A generator being driven: its next step, and the answer or failure it gets for it."""

    result: T

    def __init__(self, steps: Generator[S, Any, T]) -> None:
        self._steps = steps
        self.answer: Any = None
        self.failure: BaseException | None = None

    def next(self) -> S | None:
        """The next step; None at the end, when there is a result."""
        answer, failure = self.answer, self.failure
        self.answer = self.failure = None
        try:
            return self._steps.throw(failure) if failure is not None else self._steps.send(answer)
        except StopIteration as end:
            self.result = end.value
            return None
