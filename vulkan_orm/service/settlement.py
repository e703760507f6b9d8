"""Where an outcome becomes state. Nothing else changes a delivery that ran."""

import logging
import random
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import CursorResult, Executable
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
from vulkan_orm.core.pace import RETRIES
from vulkan_orm.core.policy import RetryPolicy
from vulkan_orm.core.texts import MAX_TEXT, clean
from vulkan_orm.diagnostics import STALE_CLAIM, WORKER_LOST, StaleClaim
from vulkan_orm.models import NAME_LENGTH
from vulkan_orm.service.codec import rows_json
from vulkan_orm.service.database import database_of, ids, run
from vulkan_orm.service.deliveries import ClaimedRange, Delivery, Group, Report
from vulkan_orm.store import recovering, settling
from vulkan_orm.store.dialects import Dialect

logger = logging.getLogger("vulkan_orm.recovery")

# What the runner says of a run, and not the run of itself.
_WORDLESS = (Succeeded, Deferred, Interrupted)
_NO_WAIT = Ready(Outcome.EXCEPTION)
WORKER_LOST_TEXT = ErrorText(
    type="WorkerLost",
    text=f"worker lost: {WORKER_LOST.meaning}",
    code=WORKER_LOST.code,
)
# What a lost range or batch leaves for policies to judge later needs none now.
_NO_POLICY = RetryPolicy()

Row = dict[str, Any]
# Of many failures at once most are the same, and a traceback is long: each travels once.
Errors = dict[ErrorText, int]


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
        verdicts: list[Verdict] = []
        first: list[Row] = []
        again: list[Row] = []
        gone: list[Row] = []
        log: list[Row] = []
        errors: Errors = {}
        dialect = database_of(self.session).dialect
        for report in reports:
            verdict = _decide(report, policy)
            verdicts.append(verdict)
            delivery = report.delivery
            if not isinstance(verdict, Gone):
                row = _verdict_row(dialect, report, verdict)
                if delivery.first:
                    first.append(row | _first_columns(dialect, delivery))
                else:
                    again.append(row)
            elif not delivery.first:
                gone.append(_run_row(delivery))
            elif not log_successes:
                # A first run that simply works is not worth a row; a retry that works ends a story.
                continue
            log.append(_log_row(report, verdict, errors))
        if first:
            self._run(settling.queue_first_failures(dialect), first)
        if again:
            _all_ours(again, ids(self._run(settling.settle_runs(dialect), again)))
        if gone:
            _all_ours(gone, ids(self._run(settling.finish_runs(dialect), gone)))
        self._log(log, [_error_row(error, number) for error, number in errors.items()])
        return verdicts

    def _run(self, statement: Executable, rows: Sequence[Row]) -> CursorResult[Any]:
        return run(self.session, statement, {"document": rows_json(rows)})

    def _log(self, rows: Sequence[Row], errors: Sequence[Row]) -> None:
        if rows:
            statement = settling.log_outcomes(database_of(self.session).dialect)
            documents = {"document": rows_json(rows), "errors": rows_json(errors)}
            run(self.session, statement, documents)

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
        if progress < claimed.last:
            moved = {"done_to": progress, "runs": running, "lease": lease}
            self._own(claimed, before, settling.move_range(), moved)
        else:
            self._own(claimed, before, settling.finish_range(), {})
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
        if progress < claimed.last:
            self._own(claimed, before, settling.hand_back_range(), {"done_to": progress})
        else:
            self._own(claimed, before, settling.finish_range(), {})
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
        rows = run(self.session, recovering.expired_runs(database.dialect, RETRIES)).all()
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

    def _own(
        self, claimed: ClaimedRange, before: int, statement: Executable, values: Mapping[str, Any]
    ) -> None:
        """Changes the range by a statement, where it is still ours and not recorded further."""
        proof = {"range": claimed.id, "held_by": claimed.owner, "before": before}
        if run(self.session, statement, {**proof, **values}).rowcount != 1:
            raise StaleClaim(
                STALE_CLAIM,
                f"The range {claimed.first} to {claimed.last} of {claimed.group} is not ours.",
                owner=claimed.owner,
            )

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
            "outcome": str(outcome),
            "became": became,
            "error": 0,
            "owner": clean(by, NAME_LENGTH) or None,
            "age": 0.0,
        }
        rows = [shared | {"message_id": message_id} for message_id in message_ids]
        self._log(rows, [{"number": 0, "error_text": clean(reason, MAX_TEXT) or None}])


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


def _all_ours(rows: Sequence[Row], changed: Sequence[int]) -> None:
    if len(changed) != len(rows):
        lost = sorted({row["message_id"] for row in rows} - set(changed))
        raise StaleClaim(
            STALE_CLAIM, f"The runs of messages {lost} are not ours any more.", message_ids=lost
        )


def _run_row(delivery: Delivery) -> Row:
    return {
        "group_id": delivery.group.id,
        "message_id": delivery.message_id,
        "attempts": delivery.counters.attempts,
        "owner": delivery.owner,
    }


def _verdict_row(dialect: Dialect, report: Report, verdict: Ready | Dead) -> Row:
    delivery = report.delivery
    ready = verdict if isinstance(verdict, Ready) else _NO_WAIT
    row = _run_row(delivery)
    row["state"] = verdict.state
    row["delays"] = ready.delays
    row["interruptions"] = ready.interruptions
    row["wait"] = ready.wait.total_seconds()
    row["careful"] = ready.careful
    row["last_error"] = _error_line(report.outcome)
    if ready.until is not None:
        row["until"] = dialect.instant(ready.until)
    # Only the dead keep a copy: retention must not take what may still be redriven.
    if isinstance(verdict, Dead):
        row["payload"] = delivery.payload
        row["headers"] = delivery.headers_text
    return row


def _first_columns(dialect: Dialect, delivery: Delivery) -> Row:
    return {
        "key": delivery.key,
        "max_retries": delivery.max_retries,
        "max_delays": delivery.max_delays,
        "published_at": dialect.instant(delivery.published_at),
    }


def _error_line(outcome: AnyOutcome) -> str | None:
    if isinstance(outcome, _WORDLESS):
        return None
    if isinstance(outcome, Delayed):
        return outcome.error.text
    return f"{outcome.error.type.rpartition('.')[2]}: {outcome.error.text}"


def _log_row(report: Report, verdict: Verdict, errors: Errors) -> Row:
    delivery = report.delivery
    outcome = report.outcome
    row: Row = {
        "group_id": delivery.group.id,
        "message_id": delivery.message_id,
        "outcome": str(verdict.outcome),
        "became": verdict.state,
        "duration": report.duration,
        "age": 0.0 if report.began is None else time.monotonic() - report.began,
        "owner": delivery.owner,
    }
    # A delivery that did not run has no attempt, so no log key is ever used twice.
    if not isinstance(outcome, Deferred):
        row["attempt"] = delivery.counters.attempts
        if not isinstance(outcome, Succeeded):
            row["error"] = errors.setdefault(outcome.error, len(errors))
    return row


def _error_row(error: ErrorText, number: int) -> Row:
    return {
        "number": number,
        "error_code": error.code,
        "error_type": error.type,
        "error_text": error.text,
        "traceback": error.traceback,
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
