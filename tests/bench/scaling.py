"""What more of something costs: processes, messages that wait, groups, workers that may sleep."""

import time
from collections.abc import Callable
from itertools import islice

from sqlalchemy.orm import Session

from tests.bench.measuring import Comparison, Way
from tests.bench.process import Helper, drain, publish, together, work
from tests.bench.setting import Order, Setting, orders, stopwatch
from vulkan_orm import DeliveryRepository

PUBLISHERS = 8
SHALLOW = 10_000
GROUPS = 10
SLOW_FLUSH = {"options": "-c commit_delay=2000 -c commit_siblings=0"}


class Scaling:
    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def comparisons(self) -> list[Comparison]:
        return [
            Comparison(
                "first delivery, two processes",
                "messages",
                Way("vulkan drain, two processes", self._processes(2)),
                [Way("vulkan drain, one process", self._processes(1))],
                factor=40,
                least=1.3,
                apart=True,
            ),
            Comparison(
                f"first {SHALLOW:,} of many waiting",
                "messages",
                Way(f"vulkan drain, {self._setting.depth:,} waiting", self._deep),
                [Way(f"vulkan drain, {SHALLOW:,} waiting", self._shallow)],
                factor=10,
                least=0.9,
            ),
            Comparison(
                "publish beside many groups",
                "messages",
                Way(f"vulkan publish, {GROUPS} groups", self._groups(GROUPS)),
                [Way("vulkan publish, 1 group", self._groups(1))],
                least=0.95,
            ),
            *self._waking("", {}),
            *self._waking(", slow flush", SLOW_FLUSH),
        ]

    def _waking(self, words: str, options: dict[str, str]) -> list[Comparison]:
        """Publishers beside a worker, and beside one more that finds nothing to do."""
        return [
            Comparison(
                f"{PUBLISHERS} publishers{words}",
                "messages",
                Way("a worker that is woken", self._publishers(options, 1, True)),
                [
                    Way("no worker", self._publishers(options, 0, False)),
                    Way("a worker that polls", self._publishers(options, 1, False)),
                ],
                least=0.85,
                apart=True,
            ),
            Comparison(
                f"{PUBLISHERS} publishers{words}, an idle worker more",
                "messages",
                Way("workers that are woken", self._publishers(options, 2, True)),
                [Way("workers that poll", self._publishers(options, 2, False))],
                least=0.85,
                apart=True,
            ),
        ]

    def _processes(self, number: int) -> Callable[[int], float]:
        def run(count: int) -> float:
            topic, group = self._setting.filled(count), self._setting.name()
            url = self._setting.url
            return together([Helper(drain, url, topic, group) for _ in range(number)], count)

        return run

    def _deep(self, count: int) -> float:
        return self._first(self._setting.deep(self._setting.depth), count)

    def _shallow(self, count: int) -> float:
        return self._first(self._setting.deep(SHALLOW), count)

    def _first(self, name: str, count: int) -> float:
        """Drains the first ten thousand messages, by one new group after the other."""
        seconds = 0.0
        while count > 0:
            part = min(count, SHALLOW)
            seconds += self._some(name, part)
            count -= part
        return seconds

    def _some(self, name: str, part: int) -> float:
        vulkan, topic = self._setting.topic(name)
        left, ended = iter(range(part - 1)), [0.0]

        @topic.consumer(group=self._setting.name())
        def handle(order: Order) -> None:
            if not list(islice(left, 1)):
                # What was claimed ahead is given back only then, and is not what is measured.
                ended[0] = ended[0] or time.perf_counter()
                vulkan.stop()

        began = time.perf_counter()
        vulkan.drain()
        return ended[0] - began

    def _groups(self, number: int) -> Callable[[int], float]:
        def run(count: int) -> float:
            engine = self._setting.engine
            _, topic = self._setting.topic()
            with Session(engine) as session, session.begin():
                for _ in range(number):
                    DeliveryRepository(session).ensure_group(topic.name, self._setting.name())
            payloads = orders(count)
            with stopwatch() as took:
                for payload in payloads:
                    with Session(engine) as session, session.begin():
                        topic.publish(session, payload)
            return took[0]

        return run

    def _publishers(
        self, options: dict[str, str], workers: int, wake_up: bool
    ) -> Callable[[int], float]:
        url = self._setting.with_options(options)

        def run(count: int) -> float:
            topic, group = self._setting.name(), self._setting.name()
            shares = [len(range(first, count, PUBLISHERS)) for first in range(PUBLISHERS)]
            crew = [Helper(work, self._setting.url, topic, group, wake_up) for _ in range(workers)]
            for helper in crew:
                helper.release()
            publishers = [Helper(publish, url, topic, share, wake_up) for share in shares]
            seconds = together(publishers, count)
            for helper in crew:
                helper.stop()
            return seconds

        return run
