"""From the error a handler raised to the outcome it means."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from vulkan_orm.core.outcomes import Delay, Delayed, Ended, Failed, Terminal
from vulkan_orm.core.texts import describe
from vulkan_orm.diagnostics import BAD_OPTION, Kind, UsageError, condition_of

Meaning = type[Terminal] | Delay | Callable[[BaseException], BaseException | None]
Treat = Mapping[type[BaseException], Meaning]


def classify(error: BaseException, treat: Treat | None = None) -> Failed | Ended | Delayed:
    """What the error says, by itself and through explicit wrapping.

    Permanent anywhere wins over a delay anywhere; of several delays the longest counts. What
    the handler raised itself goes before what ``treat`` makes of it.
    """
    found = list(walk(error))
    spoken = _verdict(error, found)
    if spoken is None and treat:
        meant = (_translate(each, treat) for each in found)
        spoken = _verdict(error, [each for each in meant if each is not None])
    return Failed(describe(error)) if spoken is None else spoken


def walk(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes and the members of groups, depth first; each one once.

    ``__context__`` is not followed: an error raised while handling another does not wrap it.
    """
    seen: set[int] = set()
    stack = [error]
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        stack.extend(reversed(_wrapped(current)))


def _wrapped(error: BaseException) -> list[BaseException]:
    # An application's class may have overridden either attribute: then it wraps nothing.
    try:
        cause = [] if error.__cause__ is None else [error.__cause__]
        members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        return [*cause, *members]
    except BaseException:
        return []


def check_treat(treat: Treat) -> None:
    """Refuses a mapping that could not be honoured.

    :raises UsageError: VK0007, naming the entry.
    """
    entries: Iterable[tuple[object, object]] = treat.items()
    for key, meaning in entries:
        if not (isinstance(key, type) and issubclass(key, BaseException)):
            raise UsageError(BAD_OPTION, f"treat= maps exception classes, and {key!r} is none.")
        if not _says_something(meaning):
            raise UsageError(
                BAD_OPTION,
                f"treat= maps {key.__name__} to {meaning!r}, which says nothing.",
            )


def _says_something(meaning: object) -> bool:
    if isinstance(meaning, type):
        return issubclass(meaning, Terminal)
    return isinstance(meaning, Delay) or callable(meaning)


def _verdict(error: BaseException, found: list[BaseException]) -> Ended | Delayed | None:
    conditions = [each for e in found if (each := condition_of(e)) is not None]
    if any(condition.kind is Kind.PERMANENT for condition in conditions):
        return Ended(describe(error))
    # A subclass that forgot super().__init__() names no time, so it is no delay but a failure.
    delays = [e for e in found if isinstance(e, Delay) and (e.wait, e.until) != (None, None)]
    if not delays:
        return None
    wait = max((d.wait for d in delays if d.wait is not None), default=timedelta(0))
    until: datetime | None = max((d.until for d in delays if d.until is not None), default=None)
    return Delayed(describe(error), wait, until)


def _translate(error: BaseException, treat: Treat) -> BaseException | None:
    for kind in type(error).__mro__:
        meaning = treat.get(kind)
        if meaning is None:
            continue
        if isinstance(meaning, Delay):
            return meaning
        # A translation that fails must not lose the outcome: the error then stands for itself.
        try:
            return meaning(error)
        except (Terminal, Delay) as said:
            return said
        except BaseException:
            return None
    return None
