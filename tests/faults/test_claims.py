"""Workers that claim at the same moment."""

import threading
from uuid import uuid4

from tests.faults.support import Job, Site
from vulkan_orm import DeliveryRepository, RetryPolicy
from vulkan_orm.consumers import loop
from vulkan_orm.service.watermark import Watermark

MESSAGES, WORKERS, LIMIT = 400, 6, 7


def test_ranges_claimed_at_once_neither_overlap_nor_leave_a_gap(site: Site) -> None:
    """R33: whoever waited for the group's row goes on where the one before has stopped."""
    vulkan = site.vulkan()
    messages = site.publish(*[Job(n=number) for number in range(MESSAGES)])
    group, engines = site.group(), vulkan.engines
    claimed: list[list[int]] = []
    start = threading.Barrier(WORKERS)

    def work() -> None:
        watermark = Watermark()

        def claim(repository: DeliveryRepository) -> list[int]:
            owner = uuid4().hex
            found = repository.claim_range(group, owner, limit=LIMIT, lease=60, watermark=watermark)
            return [each.message_id for each in found.deliveries] if found else []

        start.wait()
        while ids := loop.transact(engines, claim):
            claimed.append(ids)

    threads = [threading.Thread(target=work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each for ids in claimed for each in ids) == messages
    assert all(ids == sorted(ids) for ids in claimed)


def test_a_range_that_another_is_taking_does_not_hide_what_is_unread(
    postgresql_site: Site,
) -> None:
    """R45: it goes first, but not while somebody has it in hand."""
    site = postgresql_site
    messages = site.publish(*[Job(n=number) for number in range(4)])
    group = site.group()

    def claim(repository: DeliveryRepository, limit: int) -> list[int]:
        claimed = repository.claim_range(
            group, uuid4().hex, limit=limit, lease=60, watermark=Watermark()
        )
        return [each.message_id for each in claimed.deliveries] if claimed else []

    with site.repository() as repository:
        begun = repository.claim_range(group, "first", limit=2, lease=60, watermark=Watermark())
        assert begun is not None
    with site.repository() as repository:
        repository.hand_back(begun, [], RetryPolicy(), progress=begun.progress)
    with site.repository() as taking:
        assert claim(taking, 2) == messages[:2]
        with site.repository() as other:
            assert claim(other, 10) == messages[2:]
