"""Versioned, frozen schema steps, to be called from a revision of the host's own history."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from alembic.operations import Operations

from vulkan_orm.migrations import v0001

LATEST = 1

Step = Callable[[Operations, str | None], None]
_STEPS: MappingProxyType[int, tuple[Step, Step]] = MappingProxyType(
    {1: (v0001.upgrade, v0001.downgrade)}
)
_IDENTITY = {
    "postgresql": (
        "replace(gen_random_uuid()::text, '-', '')",
        "(random() * 2147483646)::bigint",
    ),
    "sqlite": ("lower(hex(randomblob(16)))", "abs(random() % 2147483647)"),
}


class MigrationError(RuntimeError):
    """The schema is at another version than the revision expects; nothing was changed."""


def upgrade(
    op: Operations, *, from_version: int, to_version: int, schema: str | None = None
) -> None:
    """Brings our tables from one version to another, inside the host's migration.

    Online it skips what the database already has, so it may be run again; offline the two
    literals decide.

    :raises MigrationError: when the database is older than ``from_version``, or the package
        does not know ``to_version`` or what the database has.
    """
    _check_known(to_version)
    _wait_for_others(op)
    current = _current(op, schema, offline=from_version)
    _check_not_newer(current)
    if current < from_version:
        raise MigrationError(
            f"This revision upgrades vulkan_orm's schema from version {from_version}, but the "
            f"database has version {current}. Run the missing revisions first."
        )
    for version in range(current + 1, to_version + 1):
        _STEPS[version][0](op, schema)
        _record(op, schema, version)


def downgrade(
    op: Operations, *, from_version: int, to_version: int, schema: str | None = None
) -> None:
    """Takes the same steps back, the newest first.

    :raises MigrationError: when the database is newer than ``from_version``.
    """
    _check_known(from_version)
    _wait_for_others(op)
    current = _current(op, schema, offline=from_version)
    if current > from_version:
        raise MigrationError(
            f"This revision downgrades vulkan_orm's schema from version {from_version}, but the "
            f"database has version {current}. Downgrade the newer revisions first."
        )
    for version in range(current, to_version, -1):
        _STEPS[version][1](op, schema)
        if version > 1:
            _record(op, schema, version - 1)


def _wait_for_others(op: Operations) -> None:
    """Of two instances that migrate at once, one waits for the other's transaction."""
    if op.get_context().dialect.name == "postgresql":
        op.execute("SELECT pg_advisory_xact_lock(hashtext('vulkan_orm migration'))")


def _check_known(version: int) -> None:
    if version > LATEST:
        raise MigrationError(
            f"This revision wants vulkan_orm's schema version {version}; the installed package "
            f"knows only {LATEST}. Upgrade the package."
        )


def _check_not_newer(current: int) -> None:
    if current > LATEST:
        raise MigrationError(
            f"The database has vulkan_orm's schema version {current}; the installed package "
            f"knows only {LATEST}. Upgrade the package."
        )


def _meta(schema: str | None) -> sa.Table:
    return sa.Table(
        "vulkan_meta",
        sa.MetaData(),
        sa.Column("id", sa.BigInteger),
        sa.Column("schema_version", sa.BigInteger),
        sa.Column("identity", sa.String(32)),
        sa.Column("installation", sa.BigInteger),
        schema=schema,
    )


def current_version(connection: sa.Connection, schema: str | None = None) -> int:
    """The schema version the database has; 0 where there are no tables of ours."""
    if not sa.inspect(connection).has_table("vulkan_meta", schema=schema):
        return 0
    meta = _meta(schema)
    return connection.scalar(sa.select(meta.c.schema_version)) or 0


def _current(op: Operations, schema: str | None, *, offline: int) -> int:
    context = op.get_context()
    if context.as_sql:
        return offline
    assert context.connection is not None
    return current_version(context.connection, schema)


def _record(op: Operations, schema: str | None, version: int) -> None:
    meta = _meta(schema)
    if version > 1:
        op.execute(meta.update().values(schema_version=sa.literal(version)))
        return
    identity, installation = _IDENTITY[op.get_context().dialect.name]
    row: sa.Select[*tuple[Any, ...]] = sa.select(
        sa.literal_column("1"),
        sa.literal_column(str(version)),
        sa.literal_column(identity),
        sa.literal_column(installation),
    ).where(~sa.exists(sa.select(meta.c.id)))
    op.execute(meta.insert().from_select(["id", "schema_version", "identity", "installation"], row))
