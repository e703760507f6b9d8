"""Workers that claim at the same moment."""

import threading
from uuid import uuid4

from tests.faults.support import Job, Site
from vulkan_orm import DeliveryRepository
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
