"""One loop of a worker: it looks what its group has to do, does it, and sleeps in between."""

import logging
import time
from dataclasses import dataclass
from typing import TypeVar

from vulkan_orm.consumers.context import Worker
from vulkan_orm.consumers.exception import ExceptionConsumer
from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.consumers.message import MessageConsumer
from vulkan_orm.consumers.running import Tally
from vulkan_orm.consumers.steps import Rest, Steps, autocommit, transact
from vulkan_orm.core import pace
from vulkan_orm.diagnostics import StaleClaim
from vulkan_orm.service import waking
from vulkan_orm.service.repository import DeliveryRepository
from vulkan_orm.service.waking import SLEEP, Sight
from vulkan_orm.service.watermark import Watermark

logger = logging.getLogger("vulkan_orm.worker")

T = TypeVar("T")

# How often a loop recovers what dead workers left, and claims whatever a look may have said.
CHECK_INTERVAL = 5.0
# What a retry may wait for in a flow of messages.
RETRY_INTERVAL = 0.1


@dataclass(frozen=True, slots=True)
class Task:
    """What to claim now."""

    messages: bool = False
    retries: bool = False
    #: Our name goes by itself, since a claim of new messages takes that of the first sleeper away.
    rises: bool = False


EVERYTHING = Task(messages=True, retries=True, rises=True)


def surviving(consumer: Consumer, steps: Steps[T]) -> Steps[T | None]:
    """Runs steps; whatever goes wrong is logged, and the worker outlives it."""
    try:
        return (yield from steps)
    except StaleClaim as stale:
        logger.warning("%s: %s", consumer.name, stale)
    except Exception:
        # The database may be away for a while.
        logger.exception("%s: a turn failed; trying again.", consumer.name)
    return None


class Lookout:
    """A loop for one consumer. Only while it has the place does it look, claim and sleep."""

    def __init__(
        self,
        worker: Worker,
        consumer: Consumer,
        message: MessageConsumer,
        exception: ExceptionConsumer,
    ) -> None:
        self._worker = worker
        self._consumer = consumer
        self._message = message
        self._exception = exception
        self._group = message.group
        self._watch = worker.waking.watch(message.group.id)
        self._has_place = False
        self._no_retries_at = float("-inf")
        #: Rounds since there was something to do, and the rest after the last of them.
        self._fruitless = 0
        self._pause = 0.0
        self._sight: Sight | None = None
        self._moved = True
        self._held_since: float | None = None
        #: Publishers have our channel, all but those that began before they could.
        self._asleep = False
        self._just_asleep = False
        self._unaware: frozenset[str] = frozenset()

    def work(self) -> Steps[None]:
        """Works until a stop is asked for."""
        while not self._worker.stop.asked:
            if self._message.has_more:
                task = self._flowing()
            else:
                yield from self._take_place()
                task = yield from self._task()
            if (yield from self._do(task)):
                self._fruitless, self._pause = 0, 0.0
            else:
                yield from self._rest()
        if self._asleep:
            yield from self._survive(self._rise())

    def _survive(self, steps: Steps[T]) -> Steps[T | None]:
        return surviving(self._consumer, steps)

    def _take_place(self) -> Steps[None]:
        if not self._has_place and not self._watch.place.take():
            # Whoever looks out meanwhile does not know what our run has left behind.
            self._watch.bell.ring()
            yield Rest(None, self._watch.place)
        self._has_place = True

    def _pass_on(self) -> None:
        self._asleep = False
        if self._has_place:
            self._has_place = False
            self._watch.place.ring()

    def _flowing(self) -> Task:
        """Where one full range comes after the other, retries are not looked for after each."""
        return Task(
            messages=True,
            retries=time.monotonic() - self._no_retries_at > RETRY_INTERVAL,
            rises=True,
        )

    def _task(self) -> Steps[Task]:
        if self._watch.check_is_due(min(CHECK_INTERVAL, self._consumer.lease)):
            yield from self._survive(transact(lambda repository: repository.recover()))
            return EVERYTHING
        if self._message.full:
            return self._flowing()
        if self._watch.take_hint():
            return Task(messages=True, rises=True)
        before = self._sight
        sight = self._sight = yield from self._survive(self._look())
        if sight is None:
            if before is not None:
                # Again soon, and then less often: perhaps only the connection was lost.
                self._pause = 0.0
            self._fruitless = max(self._fruitless, len(pace.AWAKE))
            return Task()
        first = sight.sleepers[:1] == [self._worker.waking.channel]
        return Task(sight.unread or sight.waiting, sight.due, rises=sight.unread and first)

    def _look(self) -> Steps[Sight]:
        before = self._sight
        try:
            sight = yield from autocommit(self._find)
        except Exception:
            # Pending looks name transactions, whose names change when the server restarts.
            self._message.watermark, self._unaware = Watermark(), frozenset()
            raise
        self._moved = before is None or before.position != sight.position
        if self._asleep and self._worker.waking.channel not in sight.sleepers:
            # Somebody else worked. Perhaps it goes on; we stay awake until that is clear.
            self._asleep, self._fruitless, self._pause = False, 0, 0.0
        return sight

    def _find(self, repository: DeliveryRepository) -> Sight:
        session = repository.session
        # Before the look: what they published is there by the time they have ended.
        if self._just_asleep:
            # They may have begun before we said so, and then give no hint.
            self._unaware, self._just_asleep = waking.publishers(session, self._group), False
        elif self._unaware:
            self._unaware &= waking.publishers(session, self._group)
        return waking.look(session, self._group, self._message.watermark)

    def _do(self, task: Task) -> Steps[bool]:
        """One turn of each path, so that neither waits for the other to run dry, or to get well."""
        first = again = None
        if self._asleep and (task.messages or task.retries) and not task.rises:
            yield from self._survive(self._rise())
        if task.messages:
            first = yield from self._survive(self._deliver())
        # Where we passed the place on and somebody has it, that one sees to the retries.
        if task.retries and (self._has_place or self._watch.place.take()):
            self._has_place = True
            again = yield from self._survive(self._retry())
        return first is not None or again is not None

    def _deliver(self) -> Steps[Tally | None]:
        self._message.size = self._watch.range_size
        tally = yield from self._message.turn(claimed_one=self._pass_on)
        self._watch.range_size = self._message.size
        return tally

    def _retry(self) -> Steps[Tally | None]:
        self._exception.size = self._watch.retries
        tally = yield from self._exception.turn(claimed_one=self._pass_on)
        if tally is None:
            self._no_retries_at = time.monotonic()
        self._watch.retries = self._exception.size
        return tally

    def _rest(self) -> Steps[None]:
        self._fruitless += 1
        if self._may_sleep() and (yield from self._survive(self._sleep())):
            # Not yet: what was published just before is to be found first.
            return
        yield Rest(self._next_pause(), self._watch.bell)

    def _may_sleep(self) -> bool:
        """Whether the group is quiet and publishers are to know that we sleep.

        Beside a worker that is busy we rest without a word: each publish would give us a hint.
        """
        sight = self._sight
        if sight is None or self._moved or sight.held or self._fruitless <= len(pace.AWAKE):
            return False
        if self._asleep and sight.sleeps_for > SLEEP / 2:
            return False
        return self._worker.waking.listening()

    def _sleep(self) -> Steps[bool]:
        """Asks for hints; whether that is new."""
        channel, group = self._worker.waking.channel, self._group
        was, self._asleep = (
            self._asleep,
            (yield from autocommit(lambda r: waking.sleep(r.session, group, channel))),
        )
        if was or not self._asleep:
            return False
        self._just_asleep = True
        return True

    def _rise(self) -> Steps[None]:
        channel, group = self._worker.waking.channel, self._group
        yield from autocommit(lambda r: waking.rise(r.session, group, channel))
        self._asleep = False

    def _next_pause(self) -> float:
        sight, now = self._sight, time.monotonic()
        if self._unaware or (sight is not None and sight.held):
            self._held_since = self._held_since or now
            pause = pace.held_pause(now - self._held_since)
        elif self._fruitless <= len(pace.AWAKE):
            self._held_since = None
            pause = pace.AWAKE[self._fruitless - 1]
        else:
            self._held_since = None
            pause = self._pause = pace.next_pause(self._pause, worked=False)
        due_in = sight.due_in if sight is not None else None
        return pause if due_in is None or due_in <= 0 else min(pause, due_in)
