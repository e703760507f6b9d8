"""Statements that append to the log.

Messages travel as one JSON document a statement: one round trip for one as for thousands. Where
the driver has COPY, thousands travel by that, which the server reads more quickly.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Double,
    Insert,
    Integer,
    Select,
    String,
    Text,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    select,
)

from vulkan_orm.columns import Json, UTCDateTime
from vulkan_orm.models import KEY_LENGTH, IdempotencyKey, Message, Topic
from vulkan_orm.store.clock import db_after, db_now
from vulkan_orm.store.dialects.base import Columns, Dialect

_DRAFT: Columns = {
    "id": BigInteger(),
    "key": String(KEY_LENGTH),
    "payload": Json(),
    "headers": Json(),
    "deliver_at": UTCDateTime(),
    "delay": Double(),
    "max_retries": BigInteger(),
    "max_delays": BigInteger(),
}
_COPIED = ("key", "headers", "max_retries", "max_delays")


def document(name: str = "document") -> ColumnElement[str]:
    """The parameter that carries a JSON array of rows."""
    return bindparam(name, type_=Text())


def append(dialect: Dialect, installation: int, *, ids_given: bool) -> Insert:
    """Inserts the messages of a document into a topic and returns their ids, ascending in order.

    Parameters: ``topic``, ``document``. Inserts nothing where the topic does not exist.
    """
    drafts = dialect.rows(document(), _DRAFT, "draft")
    topic = dialect.topic_with_fence(bindparam("topic", type_=String()), installation).subquery()
    values: dict[str, ColumnElement[Any]] = {
        "topic_id": topic.c.id,
        "payload": func.coalesce(drafts.c.payload, literal_column("'null'", Json())),
        "published_at": db_now(),
        "deliver_at": case(
            (drafts.c.delay.is_not(None), db_after(drafts.c.delay)),
            else_=drafts.c.deliver_at,
        ),
        **{name: drafts.c[name] for name in _COPIED},
    }
    if ids_given:
        values["id"] = drafts.c.id
    elif dialect.ids_commit_out_of_order:
        values["id"] = dialect.drawn_id(literal_column("1"))
    rows = select(*values.values()).select_from(topic).join(drafts, literal_column("1 = 1"))
    return insert(Message).from_select(list(values), rows).returning(Message.id)


def draw(dialect: Dialect, installation: int) -> Select[int, list[int], datetime]:
    """Draws ids for messages that a later statement brings; when that was, by the database.

    Parameters: ``topic``, ``count``. No row where the topic does not exist.
    """
    topic = dialect.topic_with_fence(bindparam("topic", type_=String()), installation).subquery()
    places = func.generate_series(1, bindparam("count", type_=Integer())).table_valued("place")
    ids = func.array_agg(dialect.drawn_id(places.c.place), type_=ARRAY(BigInteger()))
    return (
        select(topic.c.id.label("topic_id"), ids.label("ids"), db_now().label("published_at"))
        .select_from(topic)
        .join(places, literal_column("1 = 1"))
        .group_by(topic.c.id)
    )


def take_keys(dialect: Dialect, installation: int) -> Insert:
    """Claims the idempotency keys of a document that nobody has, and draws a message id for each.

    Ids are drawn in the order of the document. Waits for a transaction that is about to claim
    the same key. Returns (key, message_id) of those it got. Parameters: ``topic``, ``document``.
    """
    columns: Columns = {"place": BigInteger(), "key": String(KEY_LENGTH)}
    wanted = dialect.rows(document(), columns, "wanted")
    topic = dialect.topic_with_fence(bindparam("topic", type_=String()), installation).subquery()
    drawn = dialect.materialized(
        select(topic.c.id, wanted.c.key, dialect.drawn_id(wanted.c.place).label("message_id"))
        .select_from(topic)
        .join(wanted, literal_column("1 = 1")),
        "drawn",
    )
    # Always the same order, so that two publishers of the same keys cannot deadlock.
    rows = (
        select(drawn.c.id, drawn.c.key, drawn.c.message_id, db_now())
        .where(literal_column("1 = 1"))
        .order_by(drawn.c.key)
    )
    names = ["topic_id", "key", "message_id", "created_at"]
    statement = dialect.insert(IdempotencyKey).from_select(names, rows).on_conflict_do_nothing()
    result: Insert = statement.returning(IdempotencyKey.key, IdempotencyKey.message_id)
    return result


def keys_taken(keys: list[str]) -> Select[str, int]:
    """The message ids that idempotency keys stand for. Parameter: ``topic``."""
    return (
        select(IdempotencyKey.key, IdempotencyKey.message_id)
        .join(Topic, Topic.id == IdempotencyKey.topic_id)
        .where(Topic.name == bindparam("topic"), IdempotencyKey.key.in_(keys))
    )


def add_topic(dialect: Dialect, name: str) -> Insert:
    """Makes a topic's row if it is missing."""
    statement: Insert = (
        dialect.insert(Topic).values(name=name).on_conflict_do_nothing(index_elements=["name"])
    )
    return statement
