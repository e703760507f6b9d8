"""Failing, waiting, giving up: 03 and 05."""

from datetime import timedelta

from pydantic import BaseModel

from vulkan_orm import Delay, MessageMeta, RetryPolicy
from vulkan_orm.playground.stage import Stage, in_words, scenario


class Mail(BaseModel):
    """The payload of these scenarios."""

    to: str


@scenario(
    "03",
    "Retry with backoff until dead",
    question="The mail server is down for good. How often is it tried, and how soon?",
    trap="'Max retries' may or may not count the first run, waits may grow without bound, and what "
    "is given up may simply be gone.",
    here="N retries are N + 1 runs. Each wait is longer, up to backoff_max, and what is given up "
    "is kept as dead with its error. (With jitter, the default, each wait is drawn between nothing "
    "and the length shown.)",
)
def backoff(stage: Stage) -> None:
    mails = stage.vulkan.topic("mails", Mail)

    @mails.consumer(
        group="sender",
        retry=RetryPolicy(
            max_retries=3,
            backoff_base=timedelta(minutes=1),
            backoff_max=timedelta(minutes=3),
            jitter=False,
        ),
    )
    def send(mail: Mail) -> None:
        raise ConnectionError(f"no mail server for {mail.to}")

    stage.code(send)
    with stage.transaction() as session:
        message = mails.publish(session, Mail(to="ann@example.org"))
    stage.drain()
    waits: list[str] = []
    while (row := stage.queue("mails", "sender")[0]).state == "ready" and len(waits) < 10:
        wait = row.can_run_after - stage.log("mails", "sender")[-1].logged_at
        waits.append(in_words(wait))
        stage.tell(f"Run {row.attempts} failed; the next one is due in {waits[-1]}.")
        stage.wait_until(row.can_run_after)
        stage.drain()
    stage.tell(f"Run {row.attempts} failed; the budget of 3 retries is spent.")
    stage.show_log("mails", "sender")
    stage.check("3 retries are 4 runs", row.attempts, 4)
    stage.check("it is dead", row.state, "dead")
    stage.check("the waits grow up to backoff_max", waits, ["0:01:00", "0:02:00", "0:03:00"])
    every = [(number, "exception") for number in (1, 2, 3, 4)]
    stage.check("every run left its row", stage.outcomes("mails", "sender", message), every)
    stage.check("it keeps its payload", row.payload, {"to": "ann@example.org"})


@scenario(
    "05",
    "The delay cap",
    question="A handler says 'not now' again and again. Does that ever end?",
    trap="Where waiting politely is free and without limit, a message can wait for ever and "
    "nobody is told.",
    here="max_delays is a ceiling on requested delays. A message may ask for less than its group "
    "allows, never for more. Retries have a budget of their own.",
)
def delay_cap(stage: Stage) -> None:
    reports = stage.vulkan.topic("reports", Mail)
    first_runs: list[str] = []

    @reports.consumer(
        group="printer",
        retry=RetryPolicy(max_retries=5, max_delays=3),
    )
    def print_report(mail: Mail, meta: MessageMeta) -> None:
        if meta.delays == 0:
            first_runs.append(mail.to)
        raise Delay(timedelta(hours=1), reason="the printer is warming up")

    stage.code(print_report)
    with stage.transaction() as session:
        plain = reports.publish(session, Mail(to="plain"))
        modest = reports.publish(session, Mail(to="modest"), max_delays=1)
        greedy = reports.publish(session, Mail(to="greedy"), max_delays=99)
    for _ in range(5):
        stage.drain()
        stage.wait(timedelta(hours=1, seconds=1))
    stage.tell("Five hours went by. The modest message asked for 1 delay, the greedy one for 99.")
    stage.show_log("reports", "printer")
    stage.show_queue("reports", "printer")
    rows = {row.message_id: row for row in stage.queue("reports", "printer")}
    stage.check("each was run", first_runs, ["plain", "modest", "greedy"])
    stage.check("all are dead", {row.state for row in rows.values()}, {"dead"})
    stage.check("3 delays, then dead on run 4", (rows[plain].delays, rows[plain].attempts), (3, 4))
    stage.check("less than the policy: 1 delay", rows[modest].delays, 1)
    stage.check("more than the policy: still 3 delays", rows[greedy].delays, 3)
    stage.check("the text is the delay's", rows[plain].last_error, "the printer is warming up")
