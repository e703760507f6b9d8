"""Turning errors into one sentence on stderr and an exit code."""

import traceback
from typing import Any

import typer
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from typer.core import TyperGroup

from vulkan_orm.cli.output import complain, several_lines
from vulkan_orm.diagnostics import VulkanError
from vulkan_orm.migrations import MigrationError

NOTHING_DONE = 1
FAILED = 2


class Commands(TyperGroup):
    """The group of all commands: an error of ours or of the database ends in a sentence."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (VulkanError, MigrationError) as error:
            complain(str(error))
        except (SQLAlchemyError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            complain(_of_the_database(error))
        raise typer.Exit(FAILED)


def _of_the_database(error: Exception) -> str:
    # Not the whole text of SQLAlchemy's error, which holds the statement and its parameters.
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    return f"The database could not be asked: {type(cause).__name__}: {cause}"


def report_unexpected() -> None:
    """Prints the traceback of the error being handled, without what a terminal would obey."""
    typer.echo(several_lines(traceback.format_exc()), err=True, nl=False)
