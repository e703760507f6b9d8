"""What is not a matter of time: what the server writes for a message, and a worker's memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.bench.process import Helper, drain
from tests.bench.setting import Order, Setting, expect

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
    def line(self) -> str:
        limit = "" if self.most is None else f"{self.most:g}: {self._told}"
        return f"| {self.title} | {self.value:,.2f} {self.unit} | {limit} |"

    @property
    def _told(self) -> str:
        return "met" if self.most is None or self.value <= self.most else "not met"


def costs(setting: Setting, messages: int, memory: int) -> Iterator[Cost]:
    yield from _written(setting, messages * 20)
    few, many = (_peak(setting, amount) for amount in (memory // 10, memory))
    megabytes = 1024 * 1024
    yield Cost(f"peak memory, draining {memory // 10:,} messages", few / megabytes, "MB")
    yield Cost(f"peak memory, draining {memory:,} messages", many / megabytes, "MB")
    yield Cost("the one over the other", many / few, "", MAX_GROWTH)


def _written(setting: Setting, count: int) -> Iterator[Cost]:
    vulkan, topic = setting.topic(setting.filled(count))

    @topic.consumer(group=setting.name())
    def handle(order: Order) -> None:
        pass

    # The first change of a page after a checkpoint would write all of it.
    setting.checkpoint()
    wal, commits = setting.written()
    vulkan.drain()
    wal_after, commits_after = setting.written()
    yield Cost("WAL a message consumed", (wal_after - wal) / count, "bytes", MAX_WAL)
    yield Cost("commits a thousand messages", 1000 * (commits_after - commits) / count, "")


def _peak(setting: Setting, amount: int) -> int:
    helper = Helper(drain, setting.url, setting.deep(amount), setting.name())
    helper.release()
    ended = helper.end()
    expect(ended.done, amount)
    return ended.peak
