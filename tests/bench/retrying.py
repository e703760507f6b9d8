"""Retries: every delivery fails twice, then succeeds, with no wait between."""

from collections import Counter
from datetime import timedelta

from tests.bench.measuring import Comparison, Way
from tests.bench.setting import Order, Setting, expect, stopwatch
from vulkan_orm import Outcome, RetryPolicy

FAILURES = 2
_FILL = """
    INSERT INTO bench_job (id, payload, attempts, running)
    SELECT id, payload, 0, 0 FROM vulkan_message WHERE topic_id = %s
"""
_CLAIM = """
    WITH due AS (
        SELECT id FROM bench_job WHERE running = 0 ORDER BY attempts, id
        LIMIT 100 FOR UPDATE SKIP LOCKED
    )
    UPDATE bench_job SET running = 1, attempts = attempts + 1 FROM due WHERE bench_job.id = due.id
    RETURNING bench_job.id, bench_job.payload::text, attempts
"""
_AGAIN = "UPDATE bench_job SET running = 0 WHERE id = ANY(%s)"
_DONE = "UPDATE bench_job SET running = 2 WHERE id = ANY(%s)"


class Retrying:
    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def comparisons(self) -> list[Comparison]:
        return [
            Comparison(
                "retries: two failures, then success",
                "jobs",
                Way("vulkan drain", self.ours),
                [Way("bare psycopg: claim 100 SKIP LOCKED, bulk update", self.bare)],
            )
        ]

    def ours(self, count: int) -> float:
        vulkan, topic = self._setting.topic(self._setting.filled(count))
        policy = RetryPolicy(backoff_base=timedelta(0))
        runs: Counter[int] = Counter()

        @topic.consumer(group=self._setting.name(), retry=policy)
        def handle(order: Order) -> None:
            _run(order, runs)

        with stopwatch() as took:
            tally = vulkan.drain()
        expect(tally, {Outcome.EXCEPTION: FAILURES * count, Outcome.SUCCEEDED: count})
        return took[0]

    def bare(self, count: int) -> float:
        """Without a log of outcomes, a record of errors, or a check that the claim still holds."""
        bare = self._setting.bare
        bare.execute(_FILL, (self._setting.topic_id(self._setting.filled(count)),))
        bare.execute("CREATE INDEX ON bench_job (attempts, id) WHERE running = 0")
        bare.execute("ANALYZE bench_job")
        bare.commit()
        runs: Counter[int] = Counter()
        done = 0
        with stopwatch() as took:
            while claimed := bare.execute(_CLAIM).fetchall():
                bare.commit()
                failed, finished = [], []
                for job, payload, _ in claimed:
                    try:
                        _run(Order.model_validate_json(payload), runs)
                        finished.append(job)
                    except RuntimeError:
                        failed.append(job)
                if failed:
                    bare.execute(_AGAIN, (failed,))
                if finished:
                    bare.execute(_DONE, (finished,))
                bare.commit()
                done += len(finished)
        expect(done, count)
        bare.execute("DROP INDEX bench_job_attempts_id_idx")
        bare.commit()
        return took[0]


def _run(order: Order, runs: Counter[int]) -> None:
    runs[order.number] += 1
    if runs[order.number] <= FAILURES:
        raise RuntimeError("the other side is busy")
