"""The reference host in `alembic/`, and hosts with settings of their own."""

from io import StringIO
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection

ROOT = Path(__file__).parents[2]


class ReferenceHost:
    """Alembic's commands on the reference host, over a connection that is lent to it.

    Without one the host takes the database that ``DATABASE_URL`` names.
    """

    def __init__(self, connection: Connection | None = None) -> None:
        self.output = StringIO()
        self.config = Config(output_buffer=self.output, stdout=self.output)
        self.config.set_main_option("script_location", str(ROOT / "alembic"))
        if connection is not None:
            self.config.attributes["connection"] = connection

    def upgrade(self) -> None:
        command.upgrade(self.config, "head")

    def downgrade(self) -> None:
        command.downgrade(self.config, "base")

    def check(self) -> None:
        command.check(self.config)

    def upgrade_sql(self) -> str:
        command.upgrade(self.config, "head", sql=True)
        return self.output.getvalue()

    def downgrade_sql(self) -> str:
        command.downgrade(self.config, "head:base", sql=True)
        return self.output.getvalue()


def operations(connection: Connection, **opts: Any) -> Operations:
    """What a revision of a host calls ``op``."""
    return Operations(MigrationContext.configure(connection, opts=opts))
