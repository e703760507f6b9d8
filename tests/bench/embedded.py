"""First deliveries on SQLite, beside a hand-written cursor on the same file."""

import sqlite3
from pathlib import Path

from sqlalchemy.orm import Session

from tests.bench.measuring import Comparison, Way
from tests.bench.setting import Order, Setting, expect, orders, stopwatch
from vulkan_orm import Outcome, Vulkan

_READ = (
    "SELECT id, key, payload, headers, published_at FROM vulkan_message"
    " WHERE topic_id = 1 AND id > ? ORDER BY id LIMIT 2000"
)


class Embedded:
    def __init__(self, setting: Setting) -> None:
        self._folder = setting.folder
        self._name = setting.name

    def comparisons(self) -> list[Comparison]:
        return [
            Comparison(
                "SQLite: first delivery, no session",
                "messages",
                Way("vulkan drain, SQLite", self._ours),
                [Way("bare sqlite3: cursor of 2,000, validate_json", self._bare)],
                factor=10,
            )
        ]

    def _fill(self, count: int) -> Path:
        file = self._folder / f"{count}.db"
        if not file.exists():
            vulkan = Vulkan(f"sqlite:///{file}")
            vulkan.upgrade()
            topic = vulkan.topic("bench", Order)
            with Session(vulkan.engine) as session, session.begin():
                topic.publish_many(session, orders(count))
            vulkan.engine.dispose()
        return file

    def _ours(self, count: int) -> float:
        vulkan = Vulkan(f"sqlite:///{self._fill(count)}")
        topic = vulkan.topic("bench", Order)

        @topic.consumer(group=self._name())
        def handle(order: Order) -> None:
            pass

        with stopwatch() as took:
            tally = vulkan.drain()
        expect(tally, {Outcome.SUCCEEDED: count})
        vulkan.engine.dispose()
        return took[0]

    def _bare(self, count: int) -> float:
        connection = sqlite3.connect(self._fill(count))
        connection.execute("CREATE TABLE IF NOT EXISTS bench_cursor (position INTEGER)")
        connection.execute("DELETE FROM bench_cursor")
        connection.execute("INSERT INTO bench_cursor VALUES (0)")
        connection.commit()
        done = 0
        with stopwatch() as took:
            while True:
                (position,) = connection.execute("SELECT position FROM bench_cursor").fetchone()
                rows = connection.execute(_READ, (position,)).fetchall()
                if not rows:
                    break
                done += len([Order.model_validate_json(row[2]) for row in rows])
                connection.execute("UPDATE bench_cursor SET position = ?", (rows[-1][0],))
                connection.commit()
        expect(done, count)
        connection.close()
        return took[0]
