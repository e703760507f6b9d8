"""What an operator does: 08 and 09."""

from datetime import timedelta
from types import SimpleNamespace

from pydantic import BaseModel

from vulkan_orm import DeliveryRepository, RetryPolicy
from vulkan_orm.playground.stage import Stage, scenario


class Export(BaseModel):
    """The payload of these scenarios."""

    file: str


@scenario(
    "08",
    "Redrive gives a fresh budget",
    question="The disk was full and an export is dead. Once there is room, how does it go on?",
    trap="Where the counter is set back to zero, the history has two runs of the same number. "
    "Where it is not, the message is dead again at its first failure.",
    here="redrive() raises the limits by what was spent: a fresh budget, and the numbering goes "
    "on. Doing it twice is harmless.",
)
def redrive(stage: Stage) -> None:
    exports = stage.vulkan.topic("exports", Export)
    disk = SimpleNamespace(full=True)

    @exports.consumer(
        group="writer",
        retry=RetryPolicy(max_retries=1, backoff_base=timedelta(0)),
    )
    def write(export: Export) -> None:
        if disk.full:
            raise OSError(f"no space left for {export.file}")

    def mend(repository: DeliveryRepository) -> list[int]:
        return repository.redrive("exports", "writer", reason="bigger disk")

    stage.code(write, mend)
    with stage.transaction() as session:
        message = exports.publish(session, Export(file="a.csv"))
    stage.drain()
    stage.tell("The disk is full. One run, one retry, dead.")
    stage.show_queue("exports", "writer")
    (dead,) = stage.queue("exports", "writer")
    with stage.transaction() as session:
        first = mend(DeliveryRepository(session))
        second = mend(DeliveryRepository(session))
    stage.tell("An operator redrives it, twice by mistake, before the disk is really bigger.")
    stage.drain()
    (again,) = stage.queue("exports", "writer")
    disk.full = False
    with stage.transaction() as session:
        mend(DeliveryRepository(session))
    stage.drain()
    stage.tell("Two more failures used up the fresh budget. Redriven once more, it works.")
    stage.show_log("exports", "writer")
    stage.check("it was dead after 2 runs", (dead.state, dead.attempts), ("dead", 2))
    stage.check("redrive names it, then finds nothing to do", (first, second), ([message], []))
    stage.check("the fresh budget is 2 runs again", (again.state, again.attempts), ("dead", 4))
    attempts = [row.attempt for row in stage.log("exports", "writer")]
    stage.check("numbers go on", attempts, [1, 2, None, 3, 4, None, 5])
    stage.check("it is done", list(stage.queue("exports", "writer")), [])


@scenario(
    "09",
    "A held delivery, run on request",
    question="A delivery must not run until somebody has looked at it. Then it should run at once.",
    here="hold() keeps it from every worker, whatever its due time. deliver() runs it when it is "
    "asked to, whatever its due time and budget; release() would give it back to the retries.",
)
def held(stage: Stage) -> None:
    refunds = stage.vulkan.topic("refunds", Export)
    seen: list[str] = []
    desk = SimpleNamespace(open=False)

    @refunds.consumer(
        group="cashier",
        retry=RetryPolicy(backoff_base=timedelta(minutes=5), jitter=False),
    )
    def refund(export: Export) -> None:
        if not desk.open:
            raise RuntimeError("sum looks wrong")
        seen.append(export.file)

    def look_first(repository: DeliveryRepository) -> None:
        repository.hold("refunds", "cashier", message, reason="let me see")

    stage.code(refund, look_first)
    with stage.transaction() as session:
        message = refunds.publish(session, Export(file="refund 17"))
    stage.drain()
    with stage.transaction() as session:
        look_first(DeliveryRepository(session))
    (row,) = stage.queue("refunds", "cashier")
    stage.tell("Its first run failed, and an operator holds it.")
    desk.open = True
    stage.wait(timedelta(days=1))
    stage.drain()
    untouched = list(seen)
    stage.tell("A day later it is long due, but no worker takes it.")
    stage.show_queue("refunds", "cashier")
    tally = stage.vulkan.deliver("refunds", "cashier", [message])
    stage.tell("vulkan.deliver(...) runs it there and then.")
    stage.show_log("refunds", "cashier")
    stage.check("it is held", row.state, "held")
    stage.check("a drain leaves it alone", untouched, [])
    stage.check("the request runs it", (seen, dict(tally)), (["refund 17"], {"succeeded": 1}))
    story = [(1, "exception"), (None, "held"), (2, "succeeded")]
    stage.check("the log tells it all", stage.outcomes("refunds", "cashier", message), story)
    stage.check("nothing is left", list(stage.queue("refunds", "cashier")), [])
