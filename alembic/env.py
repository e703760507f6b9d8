"""The environment of the reference host; a host's own is likely to be what `alembic init` wrote."""

import os
from logging.config import fileConfig
from typing import Any

from alembic import context
from sqlalchemy import Connection, create_engine, pool

from vulkan_orm.models import ExceptionQueue

config = context.config
target_metadata = ExceptionQueue.metadata


def database_url() -> str:
    return os.environ.get("DATABASE_URL", "sqlite:///reference.db")


def include_object(item: Any, name: str | None, *_: Any) -> bool:
    """What autogenerate compares: not the index that SQLite has beside its own primary key."""
    return name != "ix_vulkan_message_topic"


def run_offline() -> None:
    """Print the SQL instead of running it (`alembic upgrade head --sql`)."""
    context.configure(
        url=database_url(),
        target_metadata=target_metadata,
        literal_binds=True,
        dialect_opts={"paramstyle": "named"},
    )
    with context.begin_transaction():
        context.run_migrations()


def run_on(connection: Connection) -> None:
    context.configure(
        connection=connection, target_metadata=target_metadata, include_object=include_object
    )
    with context.begin_transaction():
        context.run_migrations()


def run_online() -> None:
    """Migrate over the connection that a caller lent, or else over one of our own."""
    lent: Connection | None = config.attributes.get("connection")
    if lent is not None:
        run_on(lent)
        return
    engine = create_engine(database_url(), poolclass=pool.NullPool)
    with engine.connect() as connection:
        run_on(connection)


# Whoever lends a connection runs us inside a program that has its own logging.
if config.config_file_name is not None and "connection" not in config.attributes:
    fileConfig(config.config_file_name, disable_existing_loggers=False)

if context.is_offline_mode():
    run_offline()
else:
    run_online()
