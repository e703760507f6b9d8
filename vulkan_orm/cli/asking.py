"""The commands that only ask: ``status`` and ``dead``."""

from datetime import timedelta
from typing import Annotated, Any

import typer
from sqlalchemy.orm import Session

from vulkan_orm.cli import options
from vulkan_orm.cli.loading import load
from vulkan_orm.cli.output import document, one_line, say, table
from vulkan_orm.cli.running import read
from vulkan_orm.models import STATES, ExceptionQueue
from vulkan_orm.service.deliveries import Blocker, GroupStatus
from vulkan_orm.service.insight import Insight
from vulkan_orm.service.repository import DeliveryRepository

Limit = Annotated[int, typer.Option(min=1, max=10_000, help="How many to show.")]
After = Annotated[
    int, typer.Option(min=0, max=options.LARGEST_ID, help="Only message ids above this one.")
]


def status(ctx: typer.Context, json: options.Json = False, app: options.App = None) -> None:
    """Show how far each group is, and what holds a topic back.

    Lag is what the group has yet to do: messages ahead of its position, and messages in ranges
    that workers have claimed and not finished. The other columns count the exception queue.
    """
    groups = read(load(app or ctx.obj), lambda session: Insight(session).status())
    if json:
        document({"groups": [_group_data(group) for group in groups]})
        return
    if not groups:
        say("No topic has a consumer group yet.")
        return
    table(
        ["topic", "group", "ahead", "claimed", *STATES],
        [
            [group.topic, group.group, group.lag.ahead, group.lag.claimed, *_counts(group).values()]
            for group in groups
        ],
    )
    held_back = {
        (group.topic, blocker.pid): blocker for group in groups for blocker in group.blockers
    }
    for (topic, _), blocker in held_back.items():
        say(f"{topic} is held back by {_blocker_text(blocker)}.")


def _counts(group: GroupStatus) -> dict[str, int]:
    return {state: group.states.get(state, 0) for state in STATES}


def _group_data(group: GroupStatus) -> dict[str, Any]:
    return {
        "topic": group.topic,
        "group": group.group,
        "ahead": group.lag.ahead,
        "claimed": group.lag.claimed,
        **_counts(group),
        "held_back_by": [
            {
                "pid": blocker.pid,
                "application": blocker.application,
                "state": blocker.state,
                "seconds": blocker.seconds,
            }
            for blocker in group.blockers
        ],
    }


def _blocker_text(blocker: Blocker) -> str:
    age = timedelta(seconds=round(blocker.seconds))
    if not blocker.pid:
        return "a prepared transaction that published to it"
    return (
        f"an open transaction that published to it: pid {blocker.pid}, "
        f"application {blocker.application!r}, {blocker.state}, begun {age} ago"
    )


def dead(
    ctx: typer.Context,
    topic: options.Topic,
    group: options.Group,
    limit: Limit = 100,
    after: After = 0,
    json: options.Json = False,
    app: options.App = None,
) -> None:
    """List a group's dead deliveries, and why they are dead.

    The JSON form holds the payload and the headers too, and the whole error.
    """

    def question(session: Session) -> list[dict[str, Any]]:
        # One more than asked for tells whether there are more.
        found = DeliveryRepository(session).dead(topic, group, limit=limit + 1, after=after)
        return [_dead_data(each) for each in found]

    rows = read(load(app or ctx.obj), question)
    more = len(rows) > limit
    rows = rows[:limit]
    following = rows[-1]["message_id"] if more else None
    if json:
        document({"topic": topic, "group": group, "dead": rows, "next_after": following})
        return
    if not rows:
        say("No dead deliveries.")
        return
    table(
        ["message", "key", "attempts", "delays", "first failed", "last error"],
        [
            [
                row["message_id"],
                one_line(row["key"] or ""),
                row["attempts"],
                row["delays"],
                row["first_failed_at"][:19],
                row["last_error"] or "",
            ]
            for row in rows
        ],
        cut="last error",
    )
    if more:
        say(f"There are more: --after {following}")


def _dead_data(delivery: ExceptionQueue) -> dict[str, Any]:
    return {
        "message_id": delivery.message_id,
        "key": delivery.key,
        "attempts": delivery.attempts,
        "delays": delivery.delays,
        "published_at": delivery.published_at.isoformat(),
        "first_failed_at": delivery.first_failed_at.isoformat(),
        "last_error": delivery.last_error,
        "payload": delivery.payload,
        "headers": delivery.headers or {},
    }
