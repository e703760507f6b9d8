"""The payment desk: 04."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import NamedTuple

from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Mapped, Session, mapped_column

from vulkan_orm import Delay, RetryPolicy, Terminal
from vulkan_orm.models import DeliveryLog, ExceptionQueue
from vulkan_orm.playground.stage import Host, Stage, in_words, scenario


class Payment(BaseModel):
    """The payload."""

    order: int
    card: str


class Receipt(Host):
    """What a payment that worked leaves."""

    __tablename__ = "desk_receipt"
    order: Mapped[int] = mapped_column(primary_key=True)


@scenario(
    "04",
    "The payment desk",
    question="A card is declined; a bank is closed until 02:00. Which of them uses up retries?",
    trap="A declined card is tried five times more, and the bank says no six times. And a payment "
    "that was told 'at 02:00' has no retry left when 02:00 comes.",
    here="Terminal means never again: dead on this very attempt. Delay means not now: it comes "
    "back at its time and spends none of the retry budget.",
)
def payment_desk(stage: Stage) -> None:
    stage.tables(Receipt)
    payments = stage.vulkan.topic("payments", Payment)
    tomorrow = stage.now() + timedelta(days=1)
    evening = tomorrow.replace(hour=22, minute=0, second=0, microsecond=0)
    at_two = evening + timedelta(hours=4)
    stage.wait_until(evening)
    bank = SimpleNamespace(closed=True, line_down=False)

    @payments.consumer(
        group="desk",
        retry=RetryPolicy(
            max_retries=1,
            backoff_base=timedelta(minutes=1),
            jitter=False,
        ),
    )
    def charge(payment: Payment, session: Session) -> None:
        if payment.card == "stolen":
            raise Terminal("card declined")
        if bank.closed:
            raise Delay(until=at_two, reason="the bank is closed")
        if bank.line_down:
            raise ConnectionError("no line to the bank")
        session.add(Receipt(order=payment.order))

    stage.code(charge)
    with stage.transaction() as session:
        stolen = payments.publish(session, Payment(order=1, card="stolen"))
        night = payments.publish(session, Payment(order=2, card="good"))
    stage.drain()
    stage.tell("At 22:00 both are run. The bank is closed.")
    stage.show_queue("payments", "desk")
    declined, waiting = stage.queue("payments", "desk")
    bank.closed, bank.line_down = False, True
    stage.wait_until(at_two)
    stage.drain()
    stage.tell("At 02:00 the bank is open, but the line is down: a failure, the first one.")
    stage.show_queue("payments", "desk")
    failed = stage.queue("payments", "desk")[-1]
    failure = stage.log("payments", "desk", night)[-1]
    bank.line_down = False
    stage.wait_until(failed.can_run_after)
    stage.drain()
    receipts = stage.rows(select(Receipt.order))
    stage.tell(f"The line is up again and the payment is run. Receipts: {receipts}.")
    stage.show_log("payments", "desk")
    _judge(stage, stolen, night, Seen(declined, waiting, failed, failure, at_two, receipts))


class Seen(NamedTuple):
    """What there was to see on the way."""

    declined: ExceptionQueue
    waiting: ExceptionQueue
    failed: ExceptionQueue
    failure: DeliveryLog
    at_two: datetime
    receipts: Sequence[int]


def _judge(stage: Stage, stolen: int, night: int, seen: Seen) -> None:
    declined, waiting, failed, failure, at_two, receipts = seen
    stage.check("the declined card is dead", declined.state, "dead")
    stage.check("on attempt one", stage.outcomes("payments", "desk", stolen), [(1, "terminal")])
    reason = (declined.last_error or "").rpartition(": ")[2]
    stage.check("the reason is kept", reason, "card declined")
    stage.check("the other comes back at 02:00 sharp", waiting.can_run_after, at_two)
    stage.check("and has spent nothing", (waiting.attempts, waiting.spent), (1, 0))
    stage.check("its failure is the first that counts", (failed.attempts, failed.spent), (2, 1))
    wait = in_words(failed.can_run_after - failure.logged_at)
    stage.check("and waits as after a first failure, not a second", wait, "0:01:00")
    runs = [(1, "delayed"), (2, "exception"), (3, "succeeded")]
    stage.check("the third run works", stage.outcomes("payments", "desk", night), runs)
    stage.check("only that payment has a receipt", receipts, [2])
