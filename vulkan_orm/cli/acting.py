"""The commands that change deliveries: ``redrive``, ``hold``, ``release`` and ``discard``."""

import getpass
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from vulkan_orm.cli import options
from vulkan_orm.cli.failing import FAILED, NOTHING_DONE
from vulkan_orm.cli.loading import load
from vulkan_orm.cli.output import complain, document, say
from vulkan_orm.cli.running import change
from vulkan_orm.service.repository import DeliveryRepository

Every = Annotated[bool, typer.Option("--all", help="Every delivery in a fitting state.")]
Reason = Annotated[str, typer.Option(help="Why; the delivery log keeps it.", show_default=False)]


@dataclass(frozen=True, slots=True)
class Action:
    """One verb of the operator's, and what the answer says about it."""

    verb: str
    done: str
    fitting: str
    help: str


ACTIONS = (
    Action(
        "redrive",
        "redriven",
        "dead or held",
        "Make dead or held deliveries ready at once, with a fresh budget.\n\n"
        "Attempts and delays stay counted; the limits grow instead.",
    ),
    Action(
        "hold",
        "held",
        "ready or dead",
        "Keep ready or dead deliveries from every worker.\n\n"
        "They run when `vulkan deliver` says so, or once released or redriven.",
    ),
    Action(
        "release",
        "released",
        "held",
        "Give held deliveries back, with the due time and the budget they had.",
    ),
    Action(
        "discard",
        "discarded",
        "ready, held or dead",
        "Drop deliveries for good; the delivery log remembers them.",
    ),
)


def command(action: Action) -> Callable[..., None]:
    """The command of one action."""

    def act(
        ctx: typer.Context,
        topic: options.Topic,
        group: options.Group,
        ids: options.Ids = None,
        every: Every = False,
        reason: Reason = "",
        json: options.Json = False,
        app: options.App = None,
    ) -> None:
        chosen = options.distinct(ids)
        _check(action, chosen, every)
        changed = change(
            load(app or ctx.obj),
            lambda repository: _act(repository, action, topic, group, chosen, reason),
        )
        unchanged = sorted(set(chosen or ()) - set(changed))
        if json:
            document(
                {
                    "action": action.verb,
                    "topic": topic,
                    "group": group,
                    "changed": changed,
                    "unchanged": unchanged,
                }
            )
        else:
            _answer(action, changed, unchanged)
        if chosen and not changed:
            raise typer.Exit(NOTHING_DONE)

    return act


def _check(action: Action, ids: list[int] | None, every: bool) -> None:
    if ids and every:
        complain("Name message ids or give --all, not both.")
        raise typer.Exit(FAILED)
    if not ids and not every:
        complain(f"Nothing is {action.done}: name message ids, or give --all.")
        raise typer.Exit(NOTHING_DONE)


def _act(
    repository: DeliveryRepository,
    action: Action,
    topic: str,
    group: str,
    ids: list[int] | None,
    reason: str,
) -> list[int]:
    methods = {
        "redrive": repository.redrive,
        "hold": repository.hold,
        "release": repository.release,
        "discard": repository.discard,
    }
    return methods[action.verb](topic, group, ids, by=operator(), reason=reason)


def _answer(action: Action, changed: list[int], unchanged: list[int]) -> None:
    say(f"{len(changed)} {action.done}{_listed(changed)}")
    if unchanged:
        say(f"{len(unchanged)} not {action.fitting}, left alone{_listed(unchanged)}")


def _listed(ids: list[int]) -> str:
    """Ids as they can be pasted into the next command."""
    return f": {' '.join(map(str, ids))}" if ids else ""


def operator() -> str:
    """Who gives the command, as the operating system knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"uid {os.getuid()}"
