"""The command ``vulkan``: which commands there are, and how they are called."""

import io
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from vulkan_orm.cli import acting, asking, working
from vulkan_orm.cli.failing import FAILED, Commands, report_unexpected
from vulkan_orm.cli.output import say

EXIT_CODES = (
    "Exit codes: 0 done; 1 refused, or none of the named deliveries could be changed; "
    "2 wrong usage, an error with a VK code, or a database that cannot be asked."
)

app = typer.Typer(
    name="vulkan",
    cls=Commands,
    help="Durable messaging inside the database an application already has.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    # Its tracebacks show the values of local variables: payloads, passwords.
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"vulkan-orm {version('vulkan-orm')}")
        raise typer.Exit


@app.callback()
def start(
    ctx: typer.Context,
    named: Annotated[
        str | None,
        typer.Option(
            "--app",
            envvar="VULKAN_APP",
            metavar="MODULE:OBJECT",
            help="The application's Vulkan; modules of the current directory can be named.",
            show_default=False,
        ),
    ] = None,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Remember the application for whichever command follows."""
    ctx.obj = named


def playground(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SCENARIOS", help="Their numbers; all unless named.", show_default=False
        ),
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Only name the scenarios.")] = False,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Run there instead of in a new SQLite file.", show_default=False
        ),
    ] = None,
) -> None:
    """Watch messages being published, failing, waiting and dying, in numbered scenarios."""
    from vulkan_orm.playground import run as play

    raise typer.Exit(play(scenarios or None, list_only=list_only, database=database))


app.command()(working.work)
app.command()(working.drain)
app.command()(asking.status)
app.command()(asking.dead)
for _action in acting.ACTIONS:
    app.command(_action.verb, help=_action.help)(acting.command(_action))
app.command()(working.deliver)
app.command()(working.upgrade)
app.command()(playground)


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a character is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    try:
        app(arguments, prog_name="vulkan")
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 0
    except Exception:
        report_unexpected()
        return FAILED
    return 0
