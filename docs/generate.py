"""Writes the pages of docs/ that come from the code: ``python docs/generate.py``."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import CheckConstraint, Index, Table, UniqueConstraint
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Mapper

from vulkan_orm.diagnostics import REGISTRY, Condition
from vulkan_orm.models import Base

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


_TABLES = """\
<!-- Written by docs/generate.py from vulkan_orm/models.py. -->
# Tables

What the migrations make, with PostgreSQL's types. The classes are mapped in `vulkan_orm.models`, \
on a registry of their own, to query and join; writing goes through the services. All times are \
the database's, in UTC.
"""


def tables_page() -> str:
    """The mapped classes, one heading a table."""
    mappers = sorted(Base.registry.mappers, key=lambda each: each.local_table.description)
    return "\n".join([_TABLES, *(_table(mapper) for mapper in mappers)])


def _table(mapper: Mapper[Any]) -> str:
    table = mapper.local_table
    assert isinstance(table, Table)
    dialect = postgresql.dialect()
    columns = "\n".join(
        f"| `{each.name}` | {each.type.compile(dialect)} | {'yes' if each.nullable else ''} |"
        for each in table.columns
    )
    return f"""\
## {table.name}

`{mapper.class_.__name__}`. {inspect.getdoc(mapper.class_)}

| column | type | may be null |
|---|---|---|
{columns}

{_rules(table)}
"""


def _rules(table: Table) -> str:
    lines = [f"- primary key: {', '.join(each.name for each in table.primary_key)}"]
    for constraint in sorted(table.constraints, key=lambda each: str(each.name)):
        if isinstance(constraint, UniqueConstraint):
            lines.append(f"- unique: {', '.join(each.name for each in constraint.columns)}")
        elif isinstance(constraint, CheckConstraint):
            lines.append(f"- always: `{constraint.sqltext}`")
    lines += [_index(each) for each in sorted(table.indexes, key=lambda each: str(each.name))]
    return "\n".join(lines)


def _index(index: Index) -> str:
    where = index.dialect_options["postgresql"].get("where")
    predicate = f" where `{where}`" if where is not None else ""
    return f"- index `{index.name}`: {', '.join(each.name for each in index.columns)}{predicate}"


PAGES: dict[str, Callable[[], str]] = {
    "reference/diagnostics.md": diagnostics_page,
    "reference/tables.md": tables_page,
}


def main() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
