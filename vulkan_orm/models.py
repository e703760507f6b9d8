"""The tables as mapped classes, to query and join. Writing goes through the services.

Own registry and MetaData: no name here can collide with a class of the host application.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Sequence,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from vulkan_orm.columns import Json, UTCDateTime
from vulkan_orm.core import budget

STATES = ("ready", "running", "held", "dead")
NAME_LENGTH = 200
KEY_LENGTH = 255
CHANNEL_LENGTH = 63
# So that a group's row stays short; who finds no room looks for itself.
MAX_SLEEPERS = 8


class Base(DeclarativeBase):
    """The registry of our classes, apart from the host's."""

    # SQLite counts an autoincrementing id only in a column called INTEGER.
    type_annotation_map = {
        int: BigInteger().with_variant(Integer(), "sqlite"),
        float: Float,
        datetime: UTCDateTime,
    }


# Messages draw their ids from it by statements of ours alone; the column has no default.
MESSAGE_ID = Sequence("vulkan_message_id_seq", metadata=Base.metadata)


class Meta(Base):
    """One row: which schema version the tables have, and which database this is."""

    __tablename__ = "vulkan_meta"
    __table_args__ = (CheckConstraint("id = 1", name="ck_vulkan_meta_one_row"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    schema_version: Mapped[int]
    identity: Mapped[str] = mapped_column(String(32))
    installation: Mapped[int]


class Topic(Base):
    """A named append-only log."""

    __tablename__ = "vulkan_topic"
    __table_args__ = (UniqueConstraint("name", name="uq_vulkan_topic_name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH))


class Message(Base):
    """One published message. ``id`` is its offset in the log."""

    __tablename__ = "vulkan_message"
    __table_args__ = (PrimaryKeyConstraint("topic_id", "id", name="pk_vulkan_message"),)

    topic_id: Mapped[int]
    id: Mapped[int] = mapped_column(autoincrement=False)
    key: Mapped[str | None] = mapped_column(String(KEY_LENGTH))
    payload: Mapped[Any] = mapped_column(Json, nullable=False)
    headers: Mapped[dict[str, str] | None] = mapped_column(Json)
    published_at: Mapped[datetime]
    deliver_at: Mapped[datetime | None]
    max_retries: Mapped[int | None]
    max_delays: Mapped[int | None]


class IdempotencyKey(Base):
    """A key that a publisher gave, and the one message it stands for."""

    __tablename__ = "vulkan_idempotency_key"
    __table_args__ = (PrimaryKeyConstraint("topic_id", "key", name="pk_vulkan_idempotency_key"),)

    topic_id: Mapped[int]
    key: Mapped[str] = mapped_column(String(KEY_LENGTH))
    message_id: Mapped[int]
    created_at: Mapped[datetime]


class ConsumerGroup(Base):
    """A group's position in a topic: everything up to it is claimed or done.

    ``sleepers`` are the channels of workers that sleep. A publisher gives a hint to the first.
    """

    __tablename__ = "vulkan_consumer_group"
    __table_args__ = (
        UniqueConstraint("topic_id", "name", name="uq_vulkan_consumer_group_name"),
        CheckConstraint("position >= 0", name="ck_vulkan_consumer_group_position"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    topic_id: Mapped[int] = mapped_column(
        ForeignKey(Topic.id, name="fk_vulkan_consumer_group_topic")
    )
    name: Mapped[str] = mapped_column(String(NAME_LENGTH))
    position: Mapped[int]
    sleepers: Mapped[list[str] | None] = mapped_column(
        ARRAY(String(CHANNEL_LENGTH)).with_variant(Text(), "sqlite")
    )
    sleeps_until: Mapped[datetime | None]


class RangeClaim(Base):
    """A range of the log that a worker holds, or that waits for one (no owner)."""

    __tablename__ = "vulkan_range_claim"
    __table_args__ = (
        # For the claim, which looks for the group's first range without a live owner.
        UniqueConstraint("group_id", "first", name="uq_vulkan_range_claim_first"),
        CheckConstraint("first <= last", name="ck_vulkan_range_claim_order"),
        CheckConstraint(
            "progress >= first - 1 AND progress <= last",
            name="ck_vulkan_range_claim_progress",
        ),
        CheckConstraint(
            "running IS NULL OR (running > progress AND running <= last)",
            name="ck_vulkan_range_claim_running",
        ),
        CheckConstraint(
            "(owner IS NULL) = (lease_until IS NULL)",
            name="ck_vulkan_range_claim_owner",
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    group_id: Mapped[int] = mapped_column(
        ForeignKey(ConsumerGroup.id, name="fk_vulkan_range_claim_group")
    )
    first: Mapped[int]
    last: Mapped[int]
    progress: Mapped[int]
    running: Mapped[int | None]
    claims: Mapped[int]
    careful: Mapped[bool]
    owner: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    lease_until: Mapped[datetime | None]


class ExceptionQueue(Base):
    """A delivery that did not simply succeed."""

    __tablename__ = "exception_queue"
    __table_args__ = (
        PrimaryKeyConstraint("group_id", "message_id", name="pk_exception_queue"),
        CheckConstraint(f"state IN {STATES}", name="ck_exception_queue_state"),
        CheckConstraint(
            "interruptions >= 0 AND interruptions <= delays AND delays <= attempts",
            name="ck_exception_queue_counters",
        ),
        CheckConstraint(
            "granted_retries >= 0 AND granted_delays >= 0",
            name="ck_exception_queue_granted",
        ),
        CheckConstraint(
            "(state = 'running') = (owner IS NOT NULL) AND (owner IS NULL) = (lease_until IS NULL)",
            name="ck_exception_queue_owner",
        ),
        # For the retry claim: what is due, in the order it fell due.
        Index(
            "ix_exception_queue_due",
            "group_id",
            "can_run_after",
            "message_id",
            postgresql_where=text("state = 'ready'"),
            sqlite_where=text("state = 'ready'"),
        ),
        # For recovery: runs whose lease has ended.
        Index(
            "ix_exception_queue_lease",
            "lease_until",
            postgresql_where=text("state = 'running'"),
            sqlite_where=text("state = 'running'"),
        ),
    )

    group_id: Mapped[int] = mapped_column(
        ForeignKey(ConsumerGroup.id, name="fk_exception_queue_group")
    )
    message_id: Mapped[int] = mapped_column(autoincrement=False)
    key: Mapped[str | None] = mapped_column(String(KEY_LENGTH))
    state: Mapped[str] = mapped_column(String(10))
    attempts: Mapped[int]
    delays: Mapped[int]
    interruptions: Mapped[int]
    can_run_after: Mapped[datetime]
    max_retries: Mapped[int | None]
    max_delays: Mapped[int | None]
    granted_retries: Mapped[int]
    granted_delays: Mapped[int]
    careful: Mapped[bool]
    on_hold: Mapped[bool]
    owner: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    lease_until: Mapped[datetime | None]
    claimed_at: Mapped[datetime | None]
    first_failed_at: Mapped[datetime]
    published_at: Mapped[datetime]
    last_error: Mapped[str | None] = mapped_column(Text)
    payload: Mapped[Any] = mapped_column(Json, nullable=True)
    headers: Mapped[dict[str, str] | None] = mapped_column(Json)

    @hybrid_property
    def spent(self) -> int:
        """What the delivery has used up of its retry budget."""
        return int(budget.spent(self.attempts, self.delays))

    @spent.inplace.expression
    @classmethod
    def _spent(cls) -> ColumnElement[int]:
        expression: ColumnElement[int] = budget.spent(cls.attempts, cls.delays)
        return expression


class DeliveryLog(Base):
    """One outcome of one delivery. ``attempt`` is null where nothing ran."""

    __tablename__ = "delivery_log"
    __table_args__ = (
        UniqueConstraint("group_id", "message_id", "attempt", name="uq_delivery_log_attempt"),
        CheckConstraint("attempt IS NULL OR attempt > 0", name="ck_delivery_log_attempt"),
        CheckConstraint(
            f"became IN {STATES} OR became = 'gone'",
            name="ck_delivery_log_became",
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    group_id: Mapped[int]
    message_id: Mapped[int]
    attempt: Mapped[int | None]
    outcome: Mapped[str] = mapped_column(String(20))
    became: Mapped[str] = mapped_column(String(10))
    error_code: Mapped[str | None] = mapped_column(String(6))
    error_type: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    error_text: Mapped[str | None] = mapped_column(Text)
    traceback: Mapped[str | None] = mapped_column(Text)
    started_at: Mapped[datetime | None]
    duration: Mapped[float | None]
    owner: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    logged_at: Mapped[datetime]
