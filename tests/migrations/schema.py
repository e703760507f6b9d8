"""What a database's tables are, in a form that two databases can be compared by."""

from typing import Any

from sqlalchemy import Connection, Inspector, inspect, text

OURS = {
    "delivery_log",
    "exception_queue",
    "vulkan_consumer_group",
    "vulkan_idempotency_key",
    "vulkan_message",
    "vulkan_meta",
    "vulkan_range_claim",
    "vulkan_topic",
}

Facts = set[tuple[Any, ...]]


def facts(connection: Connection, schema: str | None = None) -> Facts:
    """Columns, keys, checks and indexes of our tables, one fact each."""
    inspector = inspect(connection)
    found: Facts = set()
    for table in OURS & set(inspector.get_table_names(schema=schema)):
        found |= {(table, *fact) for fact in _facts_of(inspector, table, schema)}
    return found


def _facts_of(inspector: Inspector, table: str, schema: str | None) -> Facts:
    dialect = inspector.bind.dialect
    found: Facts = set()
    for column in inspector.get_columns(table, schema=schema):
        kind = column["type"].compile(dialect=dialect)
        found.add(("column", column["name"], kind, column["nullable"]))
    primary = inspector.get_pk_constraint(table, schema=schema)
    found.add(("primary key", primary["name"], *primary["constrained_columns"]))
    for unique in inspector.get_unique_constraints(table, schema=schema):
        found.add(("unique", unique["name"], *unique["column_names"]))
    for check in inspector.get_check_constraints(table, schema=schema):
        found.add(("check", check["name"], check["sqltext"]))
    for foreign in inspector.get_foreign_keys(table, schema=schema):
        columns = (*foreign["constrained_columns"], *foreign["referred_columns"])
        found.add(("foreign key", foreign["name"], foreign["referred_table"], *columns))
    for index in inspector.get_indexes(table, schema=schema):
        if not index.get("duplicates_constraint"):
            where = index["dialect_options"].get(f"{dialect.name}_where")
            columns = tuple(str(name) for name in index["column_names"])
            found.add(("index", index["name"], *columns, index["unique"], str(where)))
    return found


def defaults(connection: Connection) -> Facts:
    """Where ids come from: PostgreSQL's identities, defaults and sequences, SQLite's DDL."""
    if connection.dialect.name == "sqlite":
        rows = text("SELECT name, sql FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'")
        return {(row.name, *row.sql.split()) for row in connection.execute(rows)}
    columns = text(
        "SELECT table_name, column_name, identity_generation, column_default"
        " FROM information_schema.columns WHERE table_schema = 'public'"
        " AND (is_identity = 'YES' OR column_default IS NOT NULL)"
    )
    sequences = text(
        "SELECT sequencename, data_type::text, start_value, increment_by, cache_size"
        " FROM pg_sequences WHERE schemaname = 'public'"
    )
    return {tuple(row) for query in (columns, sequences) for row in connection.execute(query)}


def tables(connection: Connection, schema: str | None = None) -> set[str]:
    return set(inspect(connection).get_table_names(schema=schema))
