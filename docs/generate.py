"""Writes the pages of docs/ that come from the code: ``python docs/generate.py``."""

from collections.abc import Callable
from pathlib import Path

from vulkan_orm.diagnostics import REGISTRY, Condition

DOCS = Path(__file__).resolve().parent

_DIAGNOSTICS = """\
<!-- Written by docs/generate.py from vulkan_orm/diagnostics.py. -->
# Diagnostics

Every error of vulkan_orm carries one of these conditions: `error.code`, and in full \
`error.condition`. A *permanent* one will not go away by trying again, so a delivery whose handler \
lets it escape is dead on that attempt, as with `Terminal`. A *transient* one may, and is \
retried. The list is closed: an application says what it means with `Terminal`, `Delay` or \
`treat=`, never with a code of its own.
"""


def diagnostics_page() -> str:
    """The registry, one heading a code, in the order of the codes."""
    sections = [_section(REGISTRY[code]) for code in sorted(REGISTRY)]
    return "\n".join([_DIAGNOSTICS, *sections])


def _section(condition: Condition) -> str:
    return f"""\
## {condition.code} {condition.name}

- **Kind:** {condition.kind}
- **Meaning:** {condition.meaning}
- **Remedy:** {condition.remedy}
"""


PAGES: dict[str, Callable[[], str]] = {
    "reference/diagnostics.md": diagnostics_page,
}


def main() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
