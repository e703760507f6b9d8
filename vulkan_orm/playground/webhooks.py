"""A small host application that receives GitHub's webhooks: 12."""

import json
from datetime import timedelta
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

from pydantic import BaseModel
from sqlalchemy import JSON, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from vulkan_orm import Delay, Terminal
from vulkan_orm.playground.stage import Stage, scenario

TEXTS = {
    "create": "made a branch",
    "fork": "forked the repository",
    "issues": "worked on an issue",
    "label": "changed a label",
    "ping": "says hello",
    "pull_request": "worked on a pull request",
    "push": "pushed commits",
    "release": "made a release",
    "star": "likes it",
}


class Webhook(BaseModel):
    """What GitHub sends, and the payload of the topic."""

    event: str
    payload: dict[str, Any]


class Base(DeclarativeBase):
    """The host's own tables."""


class WebhookDelivery(Base):
    """A webhook as it was received."""

    __tablename__ = "webhook_delivery"
    id: Mapped[int] = mapped_column(primary_key=True)
    event: Mapped[str]
    body: Mapped[Any] = mapped_column(JSON)


class EventCount(Base):
    """What the audit group writes."""

    __tablename__ = "webhook_event_count"
    event: Mapped[str] = mapped_column(primary_key=True)
    amount: Mapped[int]


class ChatLine(Base):
    """What the notify group writes."""

    __tablename__ = "webhook_chat_line"
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]


def recorded() -> list[Webhook]:
    """Real deliveries, packaged with their licence beside them."""
    source = files("vulkan_orm.playground") / "data" / "github_webhooks.jsonl"
    return [Webhook(**json.loads(line)) for line in source.read_text("utf-8").splitlines()]


@scenario(
    "12",
    "Webhooks, from the door to the ledger",
    question="GitHub delivers real webhooks. Is each one accounted for, whatever becomes of it?",
    trap="A receiver that answers 200 before it has stored anything loses what it was sent; one "
    "that does all the work first times out and is sent everything again.",
    here="The receiver stores and publishes in one transaction and answers at once. Each group "
    "then owes every message exactly one of: done, waiting, dead.",
)
def webhooks(stage: Stage) -> None:
    Base.metadata.create_all(stage.vulkan.engine)
    hooks = stage.vulkan.topic("webhooks", Webhook)
    team = SimpleNamespace(asleep=True)

    def receive(session: Session, hook: Webhook) -> None:
        session.add(WebhookDelivery(event=hook.event, body=hook.payload))
        hooks.publish(session, hook)

    @hooks.consumer(group="audit")
    def audit(hook: Webhook, session: Session) -> None:
        row = session.get(EventCount, hook.event)
        amount = row.amount + 1 if row else 1
        session.merge(EventCount(event=hook.event, amount=amount))

    @hooks.consumer(group="notify")
    def notify(hook: Webhook, session: Session) -> None:
        if hook.event not in TEXTS:
            raise Terminal(f"no text for the event {hook.event}")
        if hook.event == "push" and team.asleep:
            raise Delay(timedelta(hours=8), reason="the team sleeps")
        who = hook.payload["sender"]["login"]
        session.add(ChatLine(text=f"{who} {TEXTS[hook.event]}"))

    stage.code(receive, audit, notify)
    came = recorded()
    for hook in came:
        with stage.transaction() as session:
            receive(session, hook)
    try:
        with stage.transaction() as session:
            receive(session, came[0])
            raise ConnectionResetError("the receiver broke")
    except ConnectionResetError as error:
        stage.tell(f"{len(came)} webhooks were received. At one more, {error}.")
    stage.drain()
    night = balance(stage, "At night")
    team.asleep = False
    stage.wait(timedelta(hours=9))
    stage.drain()
    morning = balance(stage, "In the morning")
    stage.show_log("webhooks", "notify")
    check_webhooks(stage, came, night, morning)


def balance(stage: Stage, when: str) -> dict[str, list[int]]:
    """The ledger: of each group, what is done, waiting and dead."""
    done = {
        "audit": sum(stage.rows(select(EventCount.amount))),
        "notify": stage.count(ChatLine),
    }
    ledger = {}
    for group, amount in done.items():
        states = [row.state for row in stage.queue("webhooks", group)]
        ledger[group] = [amount, states.count("ready"), states.count("dead")]
    rows = [(group, *line, sum(line)) for group, line in ledger.items()]
    stage.table(f"{when}, the ledger", ("group", "done", "waiting", "dead", "sum"), rows)
    return ledger


def check_webhooks(
    stage: Stage,
    came: list[Webhook],
    night: dict[str, list[int]],
    morning: dict[str, list[int]],
) -> None:
    total = len(came)
    sent = [hook.model_dump() for hook in came]
    published = [message.payload for message in stage.messages("webhooks")]
    stage.check("the one that broke was not stored", stage.count(WebhookDelivery), total)
    stage.check("nor published; the others are, unchanged", published, sent)
    stage.check("audit counted every one", morning["audit"], [total, 0, 0])
    stage.check("at night, 2 pushes wait and 2 events are dead", night["notify"], [total - 4, 2, 2])
    stage.check("by morning the pushes are told", morning["notify"], [total - 2, 0, 2])
    sums = [sum(line) for line in (*night.values(), *morning.values())]
    stage.check("the ledger balances, night and morning, for both groups", sums, [total] * 4)
    lags = [stage.lag("webhooks", group) for group in ("audit", "notify")]
    stage.check("nothing is left to read", lags, [0, 0])
