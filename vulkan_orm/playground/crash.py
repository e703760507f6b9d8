"""A message that kills its worker: 07."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta

from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Mapped, Session, mapped_column

from vulkan_orm import RetryPolicy, Vulkan
from vulkan_orm.models import RangeClaim
from vulkan_orm.playground.stage import Host, Stage, scenario
from vulkan_orm.store import clock

LEASE = timedelta(seconds=60)
CHILD = "from vulkan_orm.playground.crash import work; work()"


class Page(BaseModel):
    """The payload."""

    name: str


class PageRead(Host):
    """What reading a page leaves."""

    __tablename__ = "reader_page"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


def declare(vulkan: Vulkan) -> Callable[..., None]:
    """The application, declared alike in this process and in the workers that die."""
    pages = vulkan.topic("pages", Page)

    @pages.consumer(
        group="reader",
        retry=RetryPolicy(max_retries=1),
        lease=LEASE,
    )
    def read(page: Page, session: Session) -> None:
        if page.name == "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        session.add(PageRead(name=page.name))

    return read


def work() -> None:
    """A worker process: drains the database it is told of, at the time it is told."""
    order = json.load(sys.stdin)
    clock.set_offset(order["offset"])
    vulkan = Vulkan(order["url"])
    declare(vulkan)
    vulkan.drain()
    vulkan.engine.dispose()


def start_worker(stage: Stage) -> int:
    """Starts one, waits for its end, and returns its exit code: -9 is a SIGKILL."""
    order = json.dumps({"url": stage.url, "offset": clock.offset()})
    worker = subprocess.run(  # by stdin, since a URL may hold a password
        [sys.executable, "-c", CHILD], input=order, text=True, timeout=60, check=False
    )
    return worker.returncode


@scenario(
    "07",
    "A crash in mid-run",
    question="One page of five kills the process that reads it. What becomes of the other four?",
    trap="The retry counter is written after the run, so a run that kills its process is never "
    "counted: the message kills worker after worker, and takes its neighbours with it.",
    here="Nobody is charged for a crash that nobody can be blamed for. Then each message is named "
    "before it runs, so the one that kills is known, charged, and soon dead.",
)
def crash(stage: Stage) -> None:
    stage.tables(PageRead)
    stage.code(declare(stage.vulkan))
    names = ["one", "two", "poison", "four", "five"]
    with stage.transaction() as session:
        pages = stage.vulkan.topics["pages"]
        ids = pages.publish_many(session, [Page(name=name) for name in names])
    poison = ids[2]

    codes = [start_worker(stage)]
    charged = list(stage.queue("pages", "reader"))
    stage.tell("Worker 1 claimed all five and was killed. Who did it? Nobody is charged.")
    stage.wait(LEASE + timedelta(seconds=1))

    codes.append(start_worker(stage))
    named = stage.rows(select(RangeClaim.running))
    stage.tell(
        "Worker 2 took over when the lease had ended, carefully: it named each message before it "
        f"ran, and was killed too. The message named last is {named[0]}."
    )
    stage.wait(LEASE + timedelta(seconds=1))

    codes.append(start_worker(stage))
    stage.tell(f"Worker 3 charged message {poison}, did the rest, ran {poison} alone: killed.")
    stage.show_queue("pages", "reader")
    stage.wait(LEASE + timedelta(seconds=1))

    codes.append(start_worker(stage))
    stage.tell("Worker 4 found the budget of 1 retry spent, and nothing else to do.")
    stage.show_queue("pages", "reader")
    stage.show_log("pages", "reader")
    check_crash(stage, poison, codes, charged, named)


def check_crash(
    stage: Stage,
    poison: int,
    codes: Sequence[int],
    charged: Sequence[object],
    named: Sequence[object],
) -> None:
    (row,) = stage.queue("pages", "reader")
    blamed = {each.message_id for each in stage.log("pages", "reader")}
    done = sorted(stage.rows(select(PageRead.name)))
    killed = [(1, "killed"), (2, "killed"), (None, "dead")]
    stage.check("three workers died, the fourth lived", codes, [-9, -9, -9, 0])
    stage.check("the first crash charged nobody", charged, [])
    stage.check("after the second the culprit was known by name", named, [poison])
    stage.check("it has its killed rows", stage.outcomes("pages", "reader", poison), killed)
    stage.check("and is dead", (row.message_id, row.state), (poison, "dead"))
    stage.check("its neighbours' work is there, once each", done, ["five", "four", "one", "two"])
    stage.check("and they were charged nothing", blamed, {poison})
    stage.check("nothing is left to read", stage.lag("pages", "reader"), 0)
