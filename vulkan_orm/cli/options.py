"""The arguments and options that several commands share."""

from typing import Annotated

import typer

from vulkan_orm.core.texts import clean

LARGEST_ID = 2**63 - 1


def _storable(text: str) -> str:
    # Bytes that are no text come from the command line as what no database takes.
    return clean(text, limit=len(text))


App = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:OBJECT",
        help="The application's Vulkan, here or before the command.",
        show_default=False,
    ),
]
Topic = Annotated[
    str, typer.Argument(callback=_storable, help="The topic's name.", show_default=False)
]
Group = Annotated[
    str, typer.Argument(callback=_storable, help="The consumer group's name.", show_default=False)
]
Ids = Annotated[
    list[int] | None,
    typer.Argument(
        metavar="IDS",
        min=1,
        max=LARGEST_ID,
        help="Message ids, as `vulkan dead` shows them.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


def distinct(ids: list[int] | None) -> list[int] | None:
    """The named ids, each once, in their order; None where none was named."""
    return list(dict.fromkeys(ids)) if ids else None
