"""What is not a matter of time: what the server writes for a message, and a worker's memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.bench.process import Helper, drain
from tests.bench.setting import Order, Setting, expect
from vulkan_orm import Outcome

MAX_WAL = 50
# Of memory: what a drain of ten times as many may take more, for chance alone.
MAX_GROWTH = 1.1


@dataclass(frozen=True, slots=True)
class Cost:
    """A measure with its limit."""

    title: str
    value: float
    unit: str
    most: float | None = None

    @property
    def told(self) -> str:
        return f"{self.value:,.2f} {self.unit}".strip()


def costs(setting: Setting, *, rounds: int, messages: int, memory: int) -> Iterator[Cost]:
    yield from _written(setting, rounds, messages * 20)
    few, many = (_peak(setting, amount) for amount in (memory // 10, memory))
    megabytes = 1024 * 1024
    yield Cost(f"peak memory, draining {memory // 10:,} messages", few / megabytes, "MB")
    yield Cost(f"peak memory, draining {memory:,} messages", many / megabytes, "MB")
    yield Cost("peak memory, the one over the other", many / few, "", MAX_GROWTH)


def _written(setting: Setting, rounds: int, count: int) -> Iterator[Cost]:
    """The least of the rounds: whoever else uses the server can only add."""
    drains = [_drain(setting, count) for _ in range(rounds)]
    wal, commits = (min(amounts) for amounts in zip(*drains, strict=True))
    yield Cost("WAL a message consumed", wal / count, "bytes", MAX_WAL)
    yield Cost("commits a thousand messages", 1000 * commits / count, "")


def _drain(setting: Setting, count: int) -> tuple[int, int]:
    vulkan, topic = setting.topic(setting.filled(count))

    @topic.consumer(group=setting.name())
    def handle(order: Order) -> None:
        pass

    # So that the drain pays for every page that it changes, whose first change writes all of it.
    setting.checkpoint()
    wal, commits = setting.written()
    expect(vulkan.drain(), {Outcome.SUCCEEDED: count})
    wal_after, commits_after = setting.written()
    return wal_after - wal, commits_after - commits


def _peak(setting: Setting, amount: int) -> int:
    helper = Helper(drain, setting.url, setting.deep(amount), setting.name())
    helper.release()
    ended = helper.end()
    expect(ended.done, amount)
    return ended.peak
