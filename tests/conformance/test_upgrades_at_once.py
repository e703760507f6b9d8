"""Two processes that start at once bring the tables up together."""

import threading
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import NullPool, create_engine

from tests.conformance.harness import Job
from tests.databases import Database
from vulkan_orm import Vulkan


def test_several_upgrades_at_once_all_succeed(postgresql: Database) -> None:
    engine = create_engine(postgresql.sync_url, poolclass=NullPool)
    barrier = threading.Barrier(4)

    def upgrade() -> None:
        vulkan = Vulkan(engine)
        vulkan.topic("jobs", Job)
        barrier.wait(5)
        vulkan.upgrade()

    with ThreadPoolExecutor(4) as threads:
        for each in [threads.submit(upgrade) for _ in range(4)]:
            each.result(10)
