"""Step 1: the first tables. Frozen once released; imports nothing of the package."""

from typing import Any

import sqlalchemy as sa
from alembic.operations import Operations
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateSequence, DropSequence, conv

STATES = "('ready', 'running', 'held', 'dead')"


def upgrade(op: Operations, schema: str | None) -> None:
    on_postgresql = op.get_context().dialect.name == "postgresql"
    if on_postgresql:
        op.execute(CreateSequence(_sequence(schema), if_not_exists=True))
    _meta(op, schema)
    _topic(op, schema)
    _message(op, schema, on_postgresql)
    _idempotency_key(op, schema)
    _consumer_group(op, schema)
    _range_claim(op, schema)
    _exception_queue(op, schema)
    _delivery_log(op, schema)


def downgrade(op: Operations, schema: str | None) -> None:
    for table in (
        "delivery_log",
        "exception_queue",
        "vulkan_range_claim",
        "vulkan_consumer_group",
        "vulkan_idempotency_key",
        "vulkan_message",
        "vulkan_topic",
        "vulkan_meta",
    ):
        op.drop_table(table, schema=schema, if_exists=True)
    if op.get_context().dialect.name == "postgresql":
        op.execute(DropSequence(_sequence(schema), if_exists=True))


def _sequence(schema: str | None) -> sa.Sequence:
    # CACHE 1: the fence proves nothing about ids that sessions hold in stock.
    return sa.Sequence("vulkan_message_id_seq", schema=schema, data_type=sa.BigInteger(), cache=1)


def _big() -> Any:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _json() -> Any:
    return sa.Text().with_variant(postgresql.JSONB(), "postgresql")


def _time() -> Any:
    return sa.DateTime(timezone=True)


def _id() -> sa.Column[Any]:
    return sa.Column("id", _big(), sa.Identity(), nullable=False)


def _table(op: Operations, name: str, *parts: Any, schema: str | None, **kw: Any) -> None:
    op.create_table(name, *parts, schema=schema, if_not_exists=True, **kw)


def _check(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=conv(name))


def _primary(name: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=conv(name))


def _unique(name: str, *columns: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*columns, name=conv(name))


def _foreign(name: str, column: str, table: str, schema: str | None) -> sa.ForeignKeyConstraint:
    target = f"{schema}.{table}.id" if schema else f"{table}.id"
    return sa.ForeignKeyConstraint([column], [target], name=conv(name))


def _meta(op: Operations, schema: str | None) -> None:
    _table(
        op,
        "vulkan_meta",
        sa.Column("id", _big(), nullable=False, autoincrement=False),
        sa.Column("schema_version", _big(), nullable=False),
        sa.Column("identity", sa.String(32), nullable=False),
        sa.Column("installation", _big(), nullable=False),
        _primary("pk_vulkan_meta", "id"),
        _check("ck_vulkan_meta_one_row", "id = 1"),
        schema=schema,
    )


def _topic(op: Operations, schema: str | None) -> None:
    _table(
        op,
        "vulkan_topic",
        _id(),
        sa.Column("name", sa.String(200), nullable=False),
        _primary("pk_vulkan_topic", "id"),
        _unique("uq_vulkan_topic_name", "name"),
        schema=schema,
    )


def _message(op: Operations, schema: str | None, on_postgresql: bool) -> None:
    # SQLite's AUTOINCREMENT, without which ids could be reused, wants id alone as primary key.
    keys: list[Any] = [_primary("pk_vulkan_message", "topic_id", "id")]
    if not on_postgresql:
        keys = [_primary("pk_vulkan_message", "id")]
    _table(
        op,
        "vulkan_message",
        sa.Column("topic_id", _big(), nullable=False, autoincrement=False),
        sa.Column("id", _big(), nullable=False, autoincrement=not on_postgresql),
        sa.Column("key", sa.String(255)),
        sa.Column("payload", _json(), nullable=False),
        sa.Column("headers", _json()),
        sa.Column("published_at", _time(), nullable=False),
        sa.Column("deliver_at", _time()),
        sa.Column("max_retries", _big()),
        sa.Column("max_delays", _big()),
        *keys,
        schema=schema,
        sqlite_autoincrement=True,
    )
    if not on_postgresql:
        op.create_index(
            conv("ix_vulkan_message_topic"),
            "vulkan_message",
            ["topic_id", "id"],
            unique=True,
            schema=schema,
            if_not_exists=True,
        )


def _idempotency_key(op: Operations, schema: str | None) -> None:
    _table(
        op,
        "vulkan_idempotency_key",
        sa.Column("topic_id", _big(), nullable=False, autoincrement=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("message_id", _big(), nullable=False),
        sa.Column("created_at", _time(), nullable=False),
        _primary("pk_vulkan_idempotency_key", "topic_id", "key"),
        schema=schema,
    )


def _consumer_group(op: Operations, schema: str | None) -> None:
    _table(
        op,
        "vulkan_consumer_group",
        _id(),
        sa.Column("topic_id", _big(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("position", _big(), nullable=False),
        sa.Column("sleepers", sa.ARRAY(sa.String(63)).with_variant(sa.Text(), "sqlite")),
        sa.Column("sleeps_until", _time()),
        _primary("pk_vulkan_consumer_group", "id"),
        _unique("uq_vulkan_consumer_group_name", "topic_id", "name"),
        _check("ck_vulkan_consumer_group_position", "position >= 0"),
        _foreign("fk_vulkan_consumer_group_topic", "topic_id", "vulkan_topic", schema),
        schema=schema,
    )


def _range_claim(op: Operations, schema: str | None) -> None:
    _table(
        op,
        "vulkan_range_claim",
        _id(),
        sa.Column("group_id", _big(), nullable=False),
        sa.Column("first", _big(), nullable=False),
        sa.Column("last", _big(), nullable=False),
        sa.Column("progress", _big(), nullable=False),
        sa.Column("running", _big()),
        sa.Column("claims", _big(), nullable=False),
        sa.Column("careful", sa.Boolean(), nullable=False),
        sa.Column("owner", sa.String(200)),
        sa.Column("lease_until", _time()),
        _primary("pk_vulkan_range_claim", "id"),
        _unique("uq_vulkan_range_claim_first", "group_id", "first"),
        _check("ck_vulkan_range_claim_order", "first <= last"),
        _check(
            "ck_vulkan_range_claim_progress",
            "progress >= first - 1 AND progress <= last",
        ),
        _check(
            "ck_vulkan_range_claim_running",
            "running IS NULL OR (running > progress AND running <= last)",
        ),
        _check("ck_vulkan_range_claim_owner", "(owner IS NULL) = (lease_until IS NULL)"),
        _foreign("fk_vulkan_range_claim_group", "group_id", "vulkan_consumer_group", schema),
        schema=schema,
    )


def _exception_queue(op: Operations, schema: str | None) -> None:
    _table(
        op,
        "exception_queue",
        sa.Column("group_id", _big(), nullable=False, autoincrement=False),
        sa.Column("message_id", _big(), nullable=False, autoincrement=False),
        sa.Column("key", sa.String(255)),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("attempts", _big(), nullable=False),
        sa.Column("delays", _big(), nullable=False),
        sa.Column("interruptions", _big(), nullable=False),
        sa.Column("can_run_after", _time(), nullable=False),
        sa.Column("max_retries", _big()),
        sa.Column("max_delays", _big()),
        sa.Column("granted_retries", _big(), nullable=False),
        sa.Column("granted_delays", _big(), nullable=False),
        sa.Column("careful", sa.Boolean(), nullable=False),
        sa.Column("on_hold", sa.Boolean(), nullable=False),
        sa.Column("owner", sa.String(200)),
        sa.Column("lease_until", _time()),
        sa.Column("claimed_at", _time()),
        sa.Column("first_failed_at", _time(), nullable=False),
        sa.Column("published_at", _time(), nullable=False),
        sa.Column("last_error", sa.Text()),
        sa.Column("payload", _json()),
        sa.Column("headers", _json()),
        _primary("pk_exception_queue", "group_id", "message_id"),
        _check("ck_exception_queue_state", f"state IN {STATES}"),
        _check(
            "ck_exception_queue_counters",
            "interruptions >= 0 AND interruptions <= delays AND delays <= attempts",
        ),
        _check("ck_exception_queue_granted", "granted_retries >= 0 AND granted_delays >= 0"),
        _check(
            "ck_exception_queue_owner",
            "(state = 'running') = (owner IS NOT NULL) AND (owner IS NULL) = (lease_until IS NULL)",
        ),
        _foreign("fk_exception_queue_group", "group_id", "vulkan_consumer_group", schema),
        schema=schema,
    )
    _partial_index(
        op, "due", ["group_id", "can_run_after", "message_id"], "state = 'ready'", schema
    )
    _partial_index(op, "lease", ["lease_until"], "state = 'running'", schema)


def _partial_index(
    op: Operations, name: str, columns: list[str], where: str, schema: str | None
) -> None:
    op.create_index(
        conv(f"ix_exception_queue_{name}"),
        "exception_queue",
        columns,
        schema=schema,
        if_not_exists=True,
        postgresql_where=sa.text(where),
        sqlite_where=sa.text(where),
    )


def _delivery_log(op: Operations, schema: str | None) -> None:
    _table(
        op,
        "delivery_log",
        _id(),
        sa.Column("group_id", _big(), nullable=False),
        sa.Column("message_id", _big(), nullable=False),
        sa.Column("attempt", _big()),
        sa.Column("outcome", sa.String(20), nullable=False),
        sa.Column("became", sa.String(10), nullable=False),
        sa.Column("error_code", sa.String(6)),
        sa.Column("error_type", sa.String(200)),
        sa.Column("error_text", sa.Text()),
        sa.Column("traceback", sa.Text()),
        sa.Column("started_at", _time()),
        sa.Column("duration", sa.Float()),
        sa.Column("owner", sa.String(200)),
        sa.Column("logged_at", _time(), nullable=False),
        _primary("pk_delivery_log", "id"),
        _unique("uq_delivery_log_attempt", "group_id", "message_id", "attempt"),
        _check("ck_delivery_log_attempt", "attempt IS NULL OR attempt > 0"),
        _check("ck_delivery_log_became", f"became IN {STATES} OR became = 'gone'"),
        schema=schema,
    )
