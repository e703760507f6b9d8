"""Several processes on one SQLite file: whoever finds it locked waits, and nobody dies of it."""

import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from tests.databases import sqlite_database
from tests.faults.crew import Crew, end
from tests.faults.support import TOPIC, Job, Site, wait_until

PUBLISHERS = 2
EACH = 250


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_workers_and_publishers_on_one_file_get_everything_done_once(
    migrated_file: Path, tmp_path: Path, journal: str
) -> None:
    """C31: two workers, two publishers, and a stranger that holds the lock for two seconds."""
    file = tmp_path / "shared.db"
    file.write_bytes(migrated_file.read_bytes())
    with sqlite3.connect(file) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.close()
    site = Site(sqlite_database(file))
    crew = Crew(site.database.sync_url, tmp_path, engine="own" if journal == "wal" else "host")
    try:
        _contend(site, crew, file)
        assert site.effects() == list(range(PUBLISHERS * EACH))
        assert sorted(crew.runs()) == list(range(PUBLISHERS * EACH))
        assert site.queue() == []
        assert site.log() == []
        assert site.ranges() == []
    finally:
        crew.close()
        site.close()


def _contend(site: Site, crew: Crew, file: Path) -> None:
    workers = [crew.start(mode="run") for _ in range(2)]
    publishers = [
        threading.Thread(target=_publish, args=(site, number)) for number in range(PUBLISHERS)
    ]
    for thread in publishers:
        thread.start()
    wait_until(lambda: len(crew.runs()) > 20)
    _hold_lock(file, seconds=2.0)
    for thread in publishers:
        thread.join()
    wait_until(lambda: len(site.effects()) >= PUBLISHERS * EACH, 60)
    for worker in workers:
        worker.terminate()
    for worker in workers:
        assert end(worker) == 0, crew.said(worker)


def _hold_lock(file: Path, seconds: float) -> None:
    """A foreign writer, and what it does takes its time."""
    connection = sqlite3.connect(file, timeout=30, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    threading.Event().wait(seconds)
    connection.execute("COMMIT")
    connection.close()


def _publish(site: Site, number: int) -> None:
    """Reads first and publishes later in the same transaction, as a request does."""
    engine = create_engine(site.database.sync_url, connect_args={"timeout": 30})
    topic = site.vulkan(engine).topic(TOPIC, Job)
    for n in range(number * EACH, (number + 1) * EACH):
        with Session(engine) as session, session.begin():
            session.execute(text("SELECT count(*) FROM effect")).all()
            topic.publish(session, Job(n=n))
