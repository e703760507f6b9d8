"""A message for later: 10."""

from datetime import timedelta

from pydantic import BaseModel

from vulkan_orm import MessageMeta
from vulkan_orm.playground.stage import Stage, scenario


class Reminder(BaseModel):
    """The payload."""

    text: str


@scenario(
    "10",
    "A message for later",
    question="A reminder is published now and is meant for tomorrow. Does it hold up the others?",
    trap="A message that is not due yet either blocks the log behind it, or is picked up and put "
    "back over and over, each time counted as a try.",
    here="It is deferred: put aside without a run, so no attempt is counted, and the group's "
    "position moves on.",
)
def later(stage: Stage) -> None:
    reminders = stage.vulkan.topic("reminders", Reminder)
    seen: list[tuple[str, int]] = []

    @reminders.consumer(group="bell")
    def ring(reminder: Reminder, meta: MessageMeta) -> None:
        seen.append((reminder.text, meta.attempts))

    stage.code(ring)
    tomorrow = stage.now() + timedelta(days=1)
    with stage.transaction() as session:
        message = reminders.publish(session, Reminder(text="tomorrow"), deliver_at=tomorrow)
        reminders.publish(session, Reminder(text="now"))
    stage.drain()
    today = list(seen)
    (row,) = stage.queue("reminders", "bell")
    stage.tell(f"Published were one for tomorrow and one for now. Run today: {today}.")
    stage.show_queue("reminders", "bell")
    stage.wait_until(tomorrow)
    stage.drain()
    stage.tell(f"Run by tomorrow, each with the number of runs before it: {seen}.")
    stage.show_log("reminders", "bell")
    stage.check("the other one did not wait", today, [("now", 0)])
    stage.check("no attempt was counted", (row.state, row.attempts, row.delays), ("ready", 0, 0))
    stage.check("its run tomorrow is its first", seen[1:], [("tomorrow", 0)])
    story = [(None, "deferred"), (1, "succeeded")]
    stage.check("the log says so", stage.outcomes("reminders", "bell", message), story)
