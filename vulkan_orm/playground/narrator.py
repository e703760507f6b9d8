"""Telling on the terminal what a scenario does, and keeping its verdict."""

import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from vulkan_orm.playground.stage import Scenario


class Narrator:
    """Prints as things happen. What it prints is plain text: nothing in it is markup."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._checks: list[bool] = []

    def announce(self, scenario: "Scenario") -> None:
        """A scenario in the list."""
        self._line(f"{scenario.number}  {scenario.title}", "bold")
        self._line(scenario.question, indent=4)

    def open(self, scenario: "Scenario") -> None:
        self._checks = []
        self._console.rule(Text(f"{scenario.number}  {scenario.title}", "bold"), align="left")
        self._line(scenario.question)

    def code(self, functions: Sequence[Callable[..., Any]]) -> None:
        sources = [textwrap.dedent(inspect.getsource(each)) for each in functions]
        syntax = Syntax(
            "\n".join(sources).rstrip(),
            "python",
            theme="ansi_dark",
            background_color="default",
            word_wrap=True,
        )
        self._heading("The code")
        self._console.print(Padding(syntax, (0, 0, 0, 4)))
        self._heading("What happened")

    def tell(self, text: str) -> None:
        self._line(f"- {text}", indent=2)

    def table(self, heading: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        table = Table(title=Text(heading, "dim"), title_justify="left", box=box.SIMPLE_HEAD)
        for each in columns:
            table.add_column(each)
        for row in rows:
            table.add_row(*(Text(str(cell)) for cell in row))
        if rows:
            self._console.print(Padding(table, (0, 0, 0, 4)))
        else:
            self._line(f"{heading}: no rows", "dim", indent=4)

    def check(self, what: str, found: object, expected: object) -> None:
        if not self._checks:
            self._heading("Checks")
        holds = found == expected
        self._checks.append(holds)
        if holds:
            self._line(f"ok  {what}", "green", indent=2)
        else:
            self._line(f"NO  {what}: expected {expected!r}, found {found!r}", "red", indent=2)

    def broke(self, error: Exception) -> None:
        """The scenario itself raised: one more check that does not hold."""
        self.check(f"it plays to its end ({type(error).__name__}: {error})", False, True)

    def close(self, scenario: "Scenario") -> bool:
        """Prints trap and verdict; True when every check held, and there was one."""
        self._console.print()
        if scenario.trap:
            self._labelled("A trap elsewhere: ", scenario.trap)
            self._labelled("Right here: ", scenario.here)
        else:
            self._labelled("Not a trap: ", scenario.here)
        held = sum(self._checks)
        passed = held == len(self._checks) > 0
        word = "passed" if passed else "FAILED"
        line = f"{scenario.number} {word} ({held} of {len(self._checks)} checks)"
        self._line(line, "bold green" if passed else "bold red")
        self._console.print()
        return passed

    def sum_up(self, failed: Sequence[str], total: int) -> None:
        if failed:
            self._line(f"{len(failed)} of {total} FAILED: {', '.join(failed)}", "bold red")
        else:
            self._line(f"All {total} scenarios passed.", "bold green")

    def _heading(self, text: str) -> None:
        self._console.print()
        self._line(text, "bold cyan")

    def _labelled(self, label: str, text: str) -> None:
        self._console.print(Text.assemble((label, "bold"), text))

    def _line(self, text: str, style: str = "", *, indent: int = 0) -> None:
        self._console.print(Padding(Text(text, style), (0, 0, 0, indent)))
