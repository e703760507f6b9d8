"""What may become of a run: the errors a handler speaks with, and the outcomes they mean."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from vulkan_orm.core.instants import as_delay, as_instant
from vulkan_orm.diagnostics import (
    BAD_DELAY,
    DELIVERY_DELAYED,
    DELIVERY_TERMINAL,
    UsageError,
    VulkanError,
)


class Terminal(VulkanError):
    """Raise it to say "never again": the delivery is dead on this very attempt.

    It is an ordinary exception: a handler's own ``except Exception`` would swallow it.
    """

    # On the class, so that a subclass that forgets super().__init__() still means what it says.
    condition = DELIVERY_TERMINAL
    detail = ""

    def __init__(self, cause: BaseException | str = "") -> None:
        super().__init__(DELIVERY_TERMINAL, cause if isinstance(cause, str) else "")
        self.args = (cause,)
        if isinstance(cause, BaseException):
            self.__cause__ = cause

    def __str__(self) -> str:
        # Not from __cause__, which `raise Terminal("declined") from error` sets to the error.
        return str(self.args[0]) if self.args else self.detail


class Delay(VulkanError):
    """Raise it to say "not now": the delivery comes back and spends none of its retry budget.

    It is an ordinary exception: a handler's own ``except Exception`` would swallow it.

    :param wait: a timedelta or seconds, counted on the database's clock from the outcome on;
        zero means again at once.
    :param until: an aware datetime instead; one in the past means again at once.
    :raises UsageError: VK0008 when the value is negative, naive, not finite or too far away.
    """

    condition = DELIVERY_DELAYED
    detail = ""
    wait: timedelta | None = None
    until: datetime | None = None

    def __init__(
        self,
        wait: timedelta | float | None = None,
        *,
        until: datetime | None = None,
        reason: str = "",
    ) -> None:
        if (wait is None) == (until is None):
            raise UsageError(BAD_DELAY, "Delay takes either a wait or until=, not both or neither.")
        self.wait = None if wait is None else as_delay(wait)
        self.until = None if until is None else as_instant(until)
        self.reason = reason
        super().__init__(DELIVERY_DELAYED, reason or self._span(), wait=self.wait, until=self.until)

    def _span(self) -> str:
        return f"again in {self.wait}" if self.until is None else f"again at {self.until}"

    def __reduce__(self) -> tuple[Callable[..., "Delay"], tuple[object, ...], dict[str, object]]:
        return _restored, (type(self), self.args), vars(self)

    def __str__(self) -> str:
        return self.detail


def _restored(kind: type[Delay], args: tuple[object, ...]) -> Delay:
    # Without __init__, whose signature a subclass may have changed; the state comes after.
    delay = kind.__new__(kind)
    delay.args = args
    return delay


class Outcome(StrEnum):
    """The words of ``delivery_log.outcome``."""

    SUCCEEDED = "succeeded"
    EXCEPTION = "exception"
    DELAYED = "delayed"
    TERMINAL = "terminal"
    KILLED = "killed"
    INTERRUPTED = "interrupted"
    DEFERRED = "deferred"
    SUPERSEDED = "superseded"
    DEAD = "dead"
    REDRIVEN = "redriven"
    HELD = "held"
    RELEASED = "released"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class ErrorText:
    """An error as it is stored: cleaned, capped, never raising again."""

    type: str
    text: str
    code: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised something that is neither permanent nor a delay."""

    error: ErrorText


@dataclass(frozen=True, slots=True)
class Ended:
    """The handler raised something permanent: dead whatever budget is left."""

    error: ErrorText


@dataclass(frozen=True, slots=True)
class Delayed:
    """The handler asked to come back: after ``wait``, not before ``until``, whichever is later."""

    error: ErrorText
    wait: timedelta = timedelta(0)
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Killed:
    """The run's lease ended without a word, and it ran alone."""

    error: ErrorText


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A run that a stopping worker cut, or claimed and could not start; or ``lost`` among others.

    Of several lost together nobody knows which one killed the worker, so each runs alone next.
    """

    error: ErrorText
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Deferred:
    """Put back without a run until an instant."""

    until: datetime


RunOutcome = Succeeded | Failed | Ended | Delayed | Killed | Interrupted
AnyOutcome = RunOutcome | Deferred
