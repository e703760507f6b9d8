"""Bringing our tables up without an Alembic environment of the host's."""

from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, Engine

from vulkan_orm import migrations
from vulkan_orm.diagnostics import SCHEMA_TOO_NEW, DatabaseError
from vulkan_orm.service.database import forget


def upgrade(engine: Engine) -> None:
    """Runs the steps that the database lacks, in one transaction where its DDL allows it.

    :raises DatabaseError: VK0042 when the tables are newer than this package.
    """
    with engine.begin() as connection:
        upgrade_on(connection)


def upgrade_on(connection: Connection) -> None:
    current = migrations.current_version(connection)
    if current > migrations.LATEST:
        raise DatabaseError(
            SCHEMA_TOO_NEW,
            f"The schema has version {current}; this package knows {migrations.LATEST}.",
        )
    operations = Operations(MigrationContext.configure(connection))
    migrations.upgrade(operations, from_version=0, to_version=migrations.LATEST)
    forget(connection.engine)
