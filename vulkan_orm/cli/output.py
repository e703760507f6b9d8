"""What the commands print. Nothing that comes from a message or an error is interpreted."""

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Controls that a terminal obeys, and marks that turn the direction of what follows.
_CONTROLS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BREAKS = re.compile("[\t\n\x0b\x0c\r\x85\u2028\u2029]+")
PIPE_WIDTH = 200


def one_line(text: str) -> str:
    """The text with its line breaks as blanks and its control characters visibly replaced."""
    return several_lines(_BREAKS.sub(" ", text))


def several_lines(text: str) -> str:
    """The same for text whose line breaks are wanted."""
    return _CONTROLS.sub("\ufffd", text.replace("\r", " "))


def say(text: str) -> None:
    """Prints one line."""
    typer.echo(one_line(text))


def complain(text: str) -> None:
    """Prints one line to stderr."""
    typer.echo(one_line(text), err=True)


def document(data: Any) -> None:
    """Prints one JSON document; everything outside ASCII is escaped."""
    typer.echo(json.dumps(data, indent=2).replace("\x7f", "\\u007f"))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, cut: str = "") -> None:
    """Prints a table; numbers to the right, and the column named ``cut`` shortened to fit."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, highlight=False)
    cells = [list(row) for row in rows]
    for index, column in enumerate(columns):
        number = all(isinstance(row[index], int) for row in cells)
        made.add_column(
            Text(column),
            justify="right" if number else "left",
            no_wrap=number or column == cut,
            overflow="ellipsis" if column == cut else "fold",
        )
    for row in cells:
        made.add_row(*(Text(one_line(str(cell))) for cell in row))
    _console().print(made)


def _console() -> Console:
    cut_by_somebody = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(
        file=sys.stdout,
        width=None if cut_by_somebody else PIPE_WIDTH,
        markup=False,
        highlight=False,
        emoji=False,
    )
