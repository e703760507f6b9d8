"""The mapped classes say what the migrated tables are."""

from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine

from tests.migrations.schema import Facts, facts
from vulkan_orm.models import Base

# SQLite's AUTOINCREMENT, without which ids could be given twice, wants id alone as primary key.
ON_SQLITE: Facts = {
    ("vulkan_message", "primary key", None, "id"),
    ("vulkan_message", "index", "ix_vulkan_message_topic", "topic_id", "id", 1, "None"),
}
IN_MODELS: Facts = {("vulkan_message", "primary key", "pk_vulkan_message", "topic_id", "id")}


def named(found: Facts) -> Facts:
    """The keys that the models leave unnamed are named after their tables."""
    return {
        (table, kind, f"pk_{table}" if kind == "primary key" else name, *rest)
        for table, kind, name, *rest in found
    }


def test_the_tables_of_the_models_are_the_migrated_ones(ready: Engine, empty: Engine) -> None:
    Base.metadata.create_all(empty)

    with ready.connect() as migrated, empty.connect() as modelled:
        ours, theirs = facts(migrated), named(facts(modelled))

    if ready.dialect.name == "sqlite":
        assert ours - theirs == ON_SQLITE
        assert theirs - ours == IN_MODELS
    else:
        assert ours == theirs


def test_autogenerate_finds_no_difference(ready: Engine) -> None:
    def include(_: Any, name: str | None, *__: Any) -> bool:
        return name != "ix_vulkan_message_topic"

    with ready.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "include_object": include,
                "autogenerate_plugins": [
                    "alembic.autogenerate.*",
                    "alembic.ext.checkconstraint_byname",
                ],
            },
        )

        assert compare_metadata(context, Base.metadata) == []
