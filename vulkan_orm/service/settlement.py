"""Where an outcome becomes state. Nothing else changes a delivery that ran."""

import logging
import random
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from sqlalchemy import Update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from vulkan_orm.core.budget import Counters, Limits
from vulkan_orm.core.decide import Dead, Gone, Ready, Verdict, decide
from vulkan_orm.core.outcomes import (
    AnyOutcome,
    Deferred,
    Delayed,
    ErrorText,
    Interrupted,
    Killed,
    Outcome,
    Succeeded,
)
from vulkan_orm.core.policy import RetryPolicy
from vulkan_orm.core.texts import MAX_TEXT, clean
from vulkan_orm.diagnostics import STALE_CLAIM, WORKER_LOST, StaleClaim
from vulkan_orm.models import NAME_LENGTH
from vulkan_orm.service.codec import to_json
from vulkan_orm.service.database import Database, database_of, ids, run
from vulkan_orm.service.deliveries import ClaimedRange, Delivery, Group, Report
from vulkan_orm.store import recovering, settling
from vulkan_orm.store.dialects import Dialect

logger = logging.getLogger("vulkan_orm.recovery")

_BATCH = 100
WORKER_LOST_TEXT = ErrorText(
    type="WorkerLost",
    text=f"worker lost: {WORKER_LOST.meaning}",
    code=WORKER_LOST.code,
)
# What a lost range or batch leaves for policies to judge later needs none now.
_NO_POLICY = RetryPolicy()

Row = dict[str, Any]


class Settlement:
    """The outcomes of runs, written inside the session's transaction; it never commits."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def apply_outcome(
        self, delivery: Delivery, outcome: AnyOutcome, policy: RetryPolicy
    ) -> Verdict:
        """What became of one run, as state.

        The reporter proves that the run is still its own: a retry by owner and attempt, a first
        delivery by the range it came in (which :meth:`settle_range` moves on).

        :raises StaleClaim: VK0030; nothing was changed, and the handler's writes must be undone.
        """
        if delivery.first:
            self._prove_range(delivery)
        return self.apply_outcomes([Report(delivery, outcome)], policy)[0]

    def apply_outcomes(
        self, reports: Sequence[Report], policy: RetryPolicy, *, log_successes: bool = False
    ) -> list[Verdict]:
        """The same for many, with one statement a table; a stale one undoes all of them."""
        database = database_of(self.session)
        verdicts = [_decide(report, policy) for report in reports]
        pairs = zip(reports, verdicts, strict=True)
        kept = [pair for pair in pairs if log_successes or _worth(*pair)]
        self._write_first(database, [p for p in kept if p[0].delivery.first])
        self._write_retries(database, [p for p in kept if not p[0].delivery.first])
        self._log(database, (_log_row(*pair) for pair in kept))
        return verdicts

    def settle_range(
        self,
        claimed: ClaimedRange,
        reports: Sequence[Report],
        policy: RetryPolicy,
        *,
        progress: int,
        since: int | None = None,
        running: int | None = None,
        lease: float,
        log_successes: bool = False,
    ) -> list[Verdict]:
        """Records reports of a range and how far it is done; the claim ends with its last message.

        First runs that simply worked need no report; ``since`` says then how far the range was
        done before them.

        :param running: the message that runs next, in careful mode.
        :raises StaleClaim: VK0030, when somebody else has the range by now, or when these runs are
            recorded already.
        """
        before = _first_reported(claimed, reports) if since is None else since + 1
        moved = settling.move_range(
            claimed.id, claimed.owner, before=before,
            progress=progress, running=running, lease=lease,
        )  # fmt: skip
        self._move(claimed, before, progress, moved)
        return self.apply_outcomes(reports, policy, log_successes=log_successes)

    def hand_back(
        self,
        claimed: ClaimedRange,
        reports: Sequence[Report],
        policy: RetryPolicy,
        *,
        progress: int,
        log_successes: bool = False,
    ) -> list[Verdict]:
        """Records what was done of a range and leaves the rest, uncharged, to whoever claims next.

        :raises StaleClaim: VK0030, when somebody else has the range by now.
        """
        before = _first_reported(claimed, reports)
        handed_back = settling.hand_back_range(
            claimed.id, claimed.owner, before=before, progress=progress
        )
        self._move(claimed, before, progress, handed_back)
        return self.apply_outcomes(reports, policy, log_successes=log_successes)

    def range_progress(self, claimed: ClaimedRange) -> int | None:
        """How far a range is recorded as done; None when it is finished or somebody else's."""
        found = run(self.session, settling.range_progress(claimed.id, claimed.owner))
        progress: int | None = found.scalar_one_or_none()
        return progress

    def owns(self, delivery: Delivery) -> bool:
        """Whether a retry still runs under the claim that the delivery came with."""
        statement = settling.running(
            delivery.group.id, delivery.message_id, delivery.owner, delivery.counters.attempts
        )
        return run(self.session, statement).first() is not None

    def recover(self) -> int:
        """Takes back runs whose lease ended without a word; any worker may do it for all groups.

        A run claimed alone was killed, and that is charged. Of a batch nobody knows who killed
        it: its runs were interrupted, which is not, and are run alone from now on. Returns how
        many it took back.
        """
        database = database_of(self.session)
        rows = run(self.session, recovering.expired_runs(database.dialect, _BATCH)).all()
        return self._take_back([_lost(row) for row in rows]) if rows else 0

    def _take_back(self, reports: Sequence[Report]) -> int:
        # One row that cannot be written must not keep the others, each of which is tried alone.
        try:
            with self.session.begin_nested():
                self.apply_outcomes(reports, _NO_POLICY)
        except (DBAPIError, StaleClaim):
            if len(reports) > 1:
                return sum(self._take_back([report]) for report in reports)
            message_id = reports[0].delivery.message_id
            logger.exception("The lost run of message %s cannot be taken back.", message_id)
            return 0
        return len(reports)

    def _blame(self, claimed: ClaimedRange, message_id: int, lease: float) -> ClaimedRange:
        """A message of a careful range that killed its worker gets a row, and the range goes on."""
        killers = [d for d in claimed.deliveries if d.message_id == message_id]
        self.settle_range(
            claimed,
            [Report(d, Killed(WORKER_LOST_TEXT)) for d in killers],
            _NO_POLICY,
            progress=message_id,
            lease=lease,
        )
        done = bisect_right(claimed.deliveries, message_id, key=lambda each: each.message_id)
        rest = claimed.deliveries[done:]
        return ClaimedRange(
            claimed.group, claimed.id, claimed.owner, claimed.first, claimed.last, message_id,
            claimed.careful, rest,
        )  # fmt: skip

    def _prove_range(self, delivery: Delivery) -> None:
        dialect = database_of(self.session).dialect
        statement = settling.range_of(
            dialect, delivery.group.id, delivery.message_id, delivery.owner
        )
        if run(self.session, statement).first() is None:
            raise StaleClaim(
                STALE_CLAIM, f"The range of message {delivery.message_id} is not ours any more."
            )

    def _move(self, claimed: ClaimedRange, before: int, progress: int, moved: Update) -> None:
        """Moves a range on by the given statement, or ends it where nothing is left of it."""
        if progress < claimed.last:
            self._own(claimed, moved)
            return
        self._own(claimed, settling.finish_range(claimed.id, claimed.owner, before=before))

    def _own(self, claimed: ClaimedRange, statement: Any) -> None:
        if run(self.session, statement).rowcount != 1:
            raise StaleClaim(
                STALE_CLAIM,
                f"The range {claimed.first} to {claimed.last} of {claimed.group} is not ours.",
                owner=claimed.owner,
            )

    def _write_first(self, database: Database, pairs: Sequence[tuple[Report, Verdict]]) -> None:
        dialect = database.dialect
        rows = [_first_row(dialect, r, v) for r, v in pairs if not isinstance(v, Gone)]
        if rows:
            run(self.session, settling.queue_first_failures(dialect), {"document": _document(rows)})

    def _write_retries(self, database: Database, pairs: Sequence[tuple[Report, Verdict]]) -> None:
        dialect = database.dialect
        gone = [_run_row(r.delivery) for r, v in pairs if isinstance(v, Gone)]
        if gone:
            finished = run(
                self.session, settling.finish_runs(dialect), {"document": _document(gone)}
            )
            _all_ours(gone, ids(finished))
        rest = [_verdict_row(dialect, r, v) for r, v in pairs if not isinstance(v, Gone)]
        if rest:
            self._settle_runs(database, rest)

    def _settle_runs(self, database: Database, rows: Sequence[Row]) -> None:
        statement = settling.settle_runs(database.dialect)
        _all_ours(rows, ids(run(self.session, statement, {"document": _document(rows)})))

    def _log_acts(
        self,
        group_id: int,
        message_ids: Sequence[int],
        outcome: Outcome,
        became: str,
        *,
        by: str = "",
        reason: str = "",
    ) -> None:
        """Log rows for what was done to deliveries without a run."""
        shared = {
            "group_id": group_id,
            "outcome": outcome,
            "became": became,
            "error_text": clean(reason, MAX_TEXT) or None,
            "owner": clean(by, NAME_LENGTH) or None,
            "age": 0.0,
        }
        rows = [shared | {"message_id": message_id} for message_id in message_ids]
        self._log(database_of(self.session), rows)

    def _log(self, database: Database, rows: Iterable[Row]) -> None:
        document = _document(list(rows))
        if document != "[]":
            run(self.session, settling.log_outcomes(database.dialect), {"document": document})


def _first_reported(claimed: ClaimedRange, reports: Sequence[Report]) -> int:
    return min((each.delivery.message_id for each in reports), default=claimed.last + 1)


def _decide(report: Report, policy: RetryPolicy) -> Verdict:
    delivery = report.delivery
    return decide(
        report.outcome,
        delivery.counters,
        Limits.of(policy, delivery.max_retries, delivery.max_delays),
        policy,
        chance=random.random(),
        asked_by_operator=delivery.on_hold,
    )


def _worth(report: Report, verdict: Verdict) -> bool:
    """A first run that simply works is not worth a row; a retry that works ends a story."""
    return not (isinstance(verdict, Gone) and report.delivery.first)


def _all_ours(rows: Sequence[Row], changed: Sequence[int]) -> None:
    if len(changed) != len(rows):
        lost = sorted({row["message_id"] for row in rows} - set(changed))
        raise StaleClaim(
            STALE_CLAIM, f"The runs of messages {lost} are not ours any more.", message_ids=lost
        )


def _document(rows: Sequence[Row]) -> str:
    """Rows as JSON. A payload is JSON text already and goes in as it is."""
    members = []
    for row in rows:
        payload = row.pop("payload", None)
        text = to_json(row, "row")
        members.append(text if payload is None else f'{text[:-1]},"payload":{payload}}}')
    return "[" + ",".join(members) + "]"


def _run_row(delivery: Delivery) -> Row:
    return {
        "group_id": delivery.group.id,
        "message_id": delivery.message_id,
        "attempts": delivery.counters.attempts,
        "owner": delivery.owner,
    }


def _state(verdict: Verdict) -> str:
    match verdict:
        case Gone():
            return "gone"
        case Ready(held=held):
            return "held" if held else "ready"
        case Dead():
            return "dead"
        case _:
            assert_never(verdict)


def _verdict_row(dialect: Dialect, report: Report, verdict: Verdict) -> Row:
    delivery = report.delivery
    ready = verdict if isinstance(verdict, Ready) else Ready(Outcome.EXCEPTION)
    row = _run_row(delivery) | {
        "state": _state(verdict),
        "delays": ready.delays,
        "interruptions": ready.interruptions,
        "wait": ready.wait.total_seconds(),
        "careful": ready.careful,
        "last_error": _error_line(report.outcome),
    }
    if ready.until is not None:
        row["until"] = dialect.instant(ready.until)
    # Only the dead keep a copy: retention must not take what may still be redriven.
    if isinstance(verdict, Dead):
        row["payload"] = delivery.payload
        row["headers"] = dict(delivery.headers) or None
    return row


def _first_row(dialect: Dialect, report: Report, verdict: Verdict) -> Row:
    delivery = report.delivery
    return _verdict_row(dialect, report, verdict) | {
        "key": delivery.key,
        "max_retries": delivery.max_retries,
        "max_delays": delivery.max_delays,
        "published_at": dialect.instant(delivery.published_at),
    }


def _error_line(outcome: AnyOutcome) -> str | None:
    match outcome:
        case Succeeded() | Deferred() | Interrupted():
            return None
        case Delayed():
            return outcome.error.text
        case _:
            return f"{outcome.error.type.rpartition('.')[2]}: {outcome.error.text}"


def _error_columns(error: ErrorText | None) -> Row:
    if error is None:
        return {}
    return {
        "error_code": error.code,
        "error_type": error.type,
        "error_text": error.text,
        "traceback": error.traceback,
    }


def _log_row(report: Report, verdict: Verdict) -> Row:
    delivery = report.delivery
    error = None if isinstance(report.outcome, Succeeded | Deferred) else report.outcome.error
    return {
        "group_id": delivery.group.id,
        "message_id": delivery.message_id,
        # A delivery that did not run has no attempt, so no log key is ever used twice.
        "attempt": None if isinstance(report.outcome, Deferred) else delivery.counters.attempts,
        "outcome": verdict.outcome,
        "became": _state(verdict),
        "duration": report.duration,
        "age": 0.0 if report.began is None else time.monotonic() - report.began,
        "owner": delivery.owner,
        **_error_columns(error),
    }


def _lost(row: Any) -> Report:
    """The report that a worker did not live to make."""
    delivery = Delivery(
        group=Group("", "", row.group_id, 0),
        message_id=row.message_id,
        key=None,
        payload=None,
        headers_text=None,
        published=row.claimed_at,
        owner=row.owner,
        counters=Counters(row.attempts),
        first=False,
        on_hold=row.on_hold,
    )
    alone = row.careful or row.on_hold
    outcome = Killed(WORKER_LOST_TEXT) if alone else Interrupted(WORKER_LOST_TEXT, lost=True)
    return Report(delivery, outcome, began=time.monotonic() - row.seconds)
