"""How a worker moves through a careful range, between the runs that the consumers' tests see."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import NullPool, create_engine

from tests.databases import Database
from vulkan_orm import DeliveryRepository, Draft, Vulkan
from vulkan_orm.consumers.work import RangeWork, Stretch
from vulkan_orm.service.watermark import Watermark
from vulkan_orm.store import clock

LEASE = 30.0


@pytest.fixture
def vulkan(migrated: Database) -> Iterator[Vulkan]:
    made = Vulkan(create_engine(migrated.sync_url, poolclass=NullPool))
    topic = made.topic("topic", int)

    @topic.consumer(group="group")
    def handler(payload: int) -> None:
        pass

    made.drain()
    yield made
    clock.set_offset(0)


def claim(vulkan: Vulkan) -> RangeWork:
    with vulkan.engines.session() as session, session.begin():
        repository = DeliveryRepository(session)
        group = repository.group("topic", "group")
        claimed = repository.claim_range(
            group, uuid4().hex, limit=10, lease=LEASE, watermark=Watermark()
        )
    assert claimed is not None
    return RangeWork(claimed, vulkan.consumers[0])


def test_a_message_that_was_only_put_off_is_not_blamed_for_a_lost_worker(vulkan: Vulkan) -> None:
    """R45, G6: it cannot have killed anybody, and its group goes on."""
    topic = vulkan.topics["topic"]
    with vulkan.engines.session() as session, session.begin():
        topic.publish_many(session, [1, Draft(2, delay=timedelta(days=1)), 3])
    claim(vulkan)
    clock.set_offset(2 * LEASE)
    careful = claim(vulkan)
    assert careful.claimed.careful
    with vulkan.engines.session() as session, session.begin():
        repository = DeliveryRepository(session)
        careful.begin(repository)
        careful.settle(repository, Stretch(1))
    clock.set_offset(4 * LEASE)

    again = claim(vulkan)

    assert [each.payload for each in again.rest] == ["2", "3"]
    assert again.rest[0].deferred_until is not None
    with vulkan.engines.session() as session:
        assert DeliveryRepository(session).history("topic", "group", again.rest[0].message_id) == []
