"""Many messages in one publish: their order is the order they were given in."""

import pytest
from sqlalchemy.orm import Session

from tests.conformance.harness import App, Job
from vulkan_orm import Draft, MessageMeta
from vulkan_orm.models import Message
from vulkan_orm.service import publisher

Drafts = list[Draft[Job]]


def drafts(keys: str) -> Drafts:
    """One a character, named by its place; a dot has no idempotency key."""
    return [
        Draft(Job(name=f"{place:02}"), idempotency_key=None if key == "." else key)
        for place, key in enumerate(keys)
    ]


def published_in_order(app: App, given: Drafts) -> None:
    ran: list[str] = []

    def handler(payload: Job, session: Session, meta: MessageMeta) -> None:
        ran.append(payload.name)

    app.consumer(handler)
    found = app.publish_many(given)
    assert found == sorted(set(found))
    assert len(found) == len(given) == app.count(Message)
    app.drain()
    assert ran == [each.payload.name for each in given]


@pytest.mark.parametrize("keys", ["......", "zyxcba", "za.", ".za", "z.a..yx.b"])
def test_messages_with_and_without_idempotency_keys_keep_their_order(app: App, keys: str) -> None:
    published_in_order(app, drafts(keys))


@pytest.mark.parametrize("keys", [".......", "zyxwcba", "z.ay..xwv"])
def test_a_publish_of_more_rows_than_a_statement_takes_keeps_order_and_loses_none(
    app: App, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    monkeypatch.setattr(publisher, "MAX_ROWS", 2)
    published_in_order(app, drafts(keys))


@pytest.mark.parametrize("keys", [".......", "zyxwcba", "z.ay..xwv"])
@pytest.mark.parametrize("characters", [1, 150])
def test_a_publish_larger_than_a_document_keeps_order_and_loses_none(
    app: App, monkeypatch: pytest.MonkeyPatch, keys: str, characters: int
) -> None:
    monkeypatch.setattr(publisher, "MAX_DOCUMENT", characters)
    published_in_order(app, drafts(keys))


def test_a_key_that_comes_twice_names_its_first_message_each_time(app: App) -> None:
    first, plain, again, other = app.publish_many(drafts("k.kj"))
    assert again == first
    assert first < plain < other
    assert app.publish_many(drafts("jk")) == [other, first]
    assert app.count(Message) == 3
