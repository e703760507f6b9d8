"""The commands that run handlers or prepare the database for them."""

import logging
import math
from datetime import timedelta
from typing import Annotated

import typer
from sqlalchemy.exc import DBAPIError

from vulkan_orm import migrations
from vulkan_orm.app import DEFAULT_GRACE, Vulkan
from vulkan_orm.cli import options
from vulkan_orm.cli.failing import NOTHING_DONE
from vulkan_orm.cli.loading import load
from vulkan_orm.cli.logs import Level, log_to_stderr
from vulkan_orm.cli.output import document, say
from vulkan_orm.cli.processes import MAX_PROCESSES, Crew, stop_with_parent
from vulkan_orm.cli.running import either, read
from vulkan_orm.consumers.running import Tally
from vulkan_orm.diagnostics import UNKNOWN_GROUP, UsageError
from vulkan_orm.service.insight import Insight

logger = logging.getLogger("vulkan_orm.cli")

GRACE = DEFAULT_GRACE.total_seconds()
LONGEST_GRACE = 7 * 24 * 3600.0


def _seconds(value: float) -> float:
    if math.isnan(value):
        raise typer.BadParameter("not a number")
    return value


Grace = Annotated[
    float,
    typer.Option(
        min=0,
        max=LONGEST_GRACE,
        callback=_seconds,
        metavar="SECONDS",
        help="What running handlers get to end, once a stop is asked for.",
    ),
]
Processes = Annotated[
    int,
    typer.Option(
        min=1,
        max=MAX_PROCESSES,
        help="How many worker processes to run; one that dies is replaced.",
    ),
]
LogLevel = Annotated[Level, typer.Option(help="How much to log to stderr.")]


def work(
    ctx: typer.Context,
    grace: Grace = GRACE,
    processes: Processes = 1,
    log_level: LogLevel = Level.INFO,
    app: options.App = None,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> None:
    """Run the application's handlers until SIGTERM or SIGINT.

    Then nothing new starts, what runs gets the grace time, and the rest is handed back. A second
    signal stops at once. Logging that the application has set up itself is left as it is.
    """
    named = app or ctx.obj
    vulkan = load(named)
    log_to_stderr(log_level)
    if not vulkan.consumers:
        raise UsageError(UNKNOWN_GROUP, "The application registers no handler to work for.")
    if supervised:
        stop_with_parent()
    _check_database(vulkan)
    if processes > 1:
        each = ["--app", named, "work", "--grace", str(grace), "--log-level", log_level]
        raise typer.Exit(Crew([*each, "--supervised"], processes).run())
    wait = timedelta(seconds=grace)
    logger.info("Working for %s.", ", ".join(each.name for each in vulkan.consumers))
    either(vulkan, lambda: vulkan.run(grace=wait), lambda: vulkan.arun(grace=wait))
    logger.info("Stopped.")


def _check_database(vulkan: Vulkan) -> None:
    try:
        read(vulkan, lambda session: Insight(session).check())
    except (DBAPIError, OSError) as error:
        # A worker outlives outages, so it may as well begin in one.
        logger.warning("The database does not answer yet: %s", error)


def drain(ctx: typer.Context, json: options.Json = False, app: options.App = None) -> None:
    """Run what is due until nothing is, and show how often each outcome came."""
    vulkan = load(app or ctx.obj)
    _show(either(vulkan, vulkan.drain, vulkan.adrain), json)


def deliver(
    ctx: typer.Context,
    topic: options.Topic,
    group: options.Group,
    ids: options.Ids = None,
    json: options.Json = False,
    app: options.App = None,
) -> None:
    """Run held deliveries now, the named or all, whatever their due time and budget."""
    vulkan = load(app or ctx.obj)
    chosen = options.distinct(ids)
    tally = either(
        vulkan,
        lambda: vulkan.deliver(topic, group, chosen),
        lambda: vulkan.adeliver(topic, group, chosen),
    )
    _show(tally, json)
    if chosen and not json and tally.total() < len(chosen):
        say(f"{len(chosen) - tally.total()} of the named deliveries were not held.")
    if chosen and not tally:
        raise typer.Exit(NOTHING_DONE)


def _show(tally: Tally, json: bool) -> None:
    if json:
        document({"outcomes": {str(outcome): amount for outcome, amount in tally.items()}})
        return
    for outcome, amount in tally.most_common():
        say(f"{outcome} {amount}")
    if not tally:
        say("Nothing to run.")


def upgrade(ctx: typer.Context, json: options.Json = False, app: options.App = None) -> None:
    """Bring vulkan_orm's tables to this package's version.

    For applications without an Alembic history of their own; running it again is harmless.
    """
    vulkan = load(app or ctx.obj)
    either(vulkan, vulkan.upgrade, vulkan.aupgrade)
    if json:
        document({"schema_version": migrations.LATEST})
    else:
        say(f"vulkan_orm's tables have version {migrations.LATEST}.")
