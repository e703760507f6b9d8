"""R34: an idle worker is woken by what is published, alone, and costs nobody anything else."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine, event, make_url, select, text, update
from sqlalchemy.orm import Session

from tests.conformance.conftest import applied, emptied
from tests.conformance.harness import GROUP, PATIENCE, TOPIC, App, Job
from tests.databases import DRIVERS, Database
from vulkan_orm import Delay, DeliveryRepository, MessageMeta, Topic, Vulkan
from vulkan_orm.consumers import lookout
from vulkan_orm.consumers.lookout import Lookout
from vulkan_orm.core import pace
from vulkan_orm.models import ConsumerGroup
from vulkan_orm.store import clock

# Longer than any test waits: nothing but a hint, a due retry or a stop can end such a rest.
FOR_EVER = 3_600.0


@dataclass
class Sleepers:
    """The loops that sleep, counted as they fall asleep."""

    asleep: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    claims: list[str] = field(default_factory=list)

    def wait(self) -> None:
        assert self.asleep.acquire(timeout=PATIENCE), "nobody fell asleep"


@pytest.fixture
def sleepers(monkeypatch: pytest.MonkeyPatch) -> Sleepers:
    """Workers whose rests have no end of their own."""
    found = Sleepers()
    pause_of, claim = Lookout._next_pause, DeliveryRepository.claim_range

    def next_pause(self: Lookout) -> float:
        pause = pause_of(self)
        if self._pause == FOR_EVER and self._asleep and not self._unaware:
            found.asleep.release()
        return pause

    def claim_range(self: DeliveryRepository, *args: Any, **options: Any) -> Any:
        found.claims.append(args[1])
        return claim(self, *args, **options)

    monkeypatch.setattr(Lookout, "_next_pause", next_pause)
    monkeypatch.setattr(DeliveryRepository, "claim_range", claim_range)
    # As the loops see it; the listener has it from elsewhere, and connects again soon.
    monkeypatch.setattr(pace, "next_pause", lambda pause, *, worked: FOR_EVER if pause else 0.001)
    monkeypatch.setattr(lookout, "CHECK_INTERVAL", FOR_EVER)
    return found


@pytest.fixture(params=[each for each in DRIVERS if each != "sqlite"])
def postgresql(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A migrated database without a row, whose publishers give hints."""
    yield from emptied(request, request.param)


@pytest.fixture
def hinted(postgresql: Database, colour: str) -> Iterator[App]:
    """An application on it."""
    yield from applied(postgresql, colour)


@contextmanager
def working(*apps: App) -> Iterator[None]:
    """Workers beside the test, while the block lasts."""
    running = [app.meanwhile(app.run) for app in apps]
    try:
        yield
    finally:
        for app in apps:
            stop(app.vulkan)
        for each in running:
            each.result(PATIENCE)


def stop(vulkan: Vulkan) -> None:
    # A run that has only been asked for has nothing yet that a stop could reach.
    until(lambda: bool(vulkan._stops))
    vulkan.stop()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


class Ran:
    """The names of the messages that ran, to wait for."""

    def __init__(self, app: App, **options: Any) -> None:
        self.names: list[str] = []
        self._ran = threading.Semaphore(0)
        app.consumer(self._run, session=False, **options)

    def _run(self, payload: Job, _meta: MessageMeta) -> None:
        self.names.append(payload.name)
        self._ran.release()

    def wait(self) -> None:
        assert self._ran.acquire(timeout=PATIENCE), f"only {self.names} ran"


class Busy:
    """A group whose handler does not come back before it may."""

    def __init__(self, app: App, leave: threading.Event, *, concurrency: int = 1) -> None:
        self.names: list[str] = []
        self._leave = leave
        self._entered = threading.Semaphore(0)
        handler: Any = self._run if app.colour == "sync" else self._run_async
        app.jobs.consumer(group=GROUP, concurrency=concurrency)(handler)

    def _run(self, payload: Job) -> None:
        self.names.append(payload.name)
        self._entered.release()
        assert self._leave.wait(PATIENCE)

    async def _run_async(self, payload: Job) -> None:
        await asyncio.to_thread(self._run, payload)

    def wait(self) -> None:
        assert self._entered.acquire(timeout=PATIENCE), "nobody was woken"


def sleeper(app: App) -> str | None:
    """Whom the next publish would wake."""
    (found,) = app.scalars(select(ConsumerGroup.sleepers))
    return found[0] if found else None


@contextmanager
def outside(app: App) -> Iterator[psycopg.Connection[Any]]:
    """A connection of nobody's."""
    dsn = make_url(app.database.sync_url).set(drivername="postgresql")
    with psycopg.connect(dsn.render_as_string(hide_password=False), autocommit=True) as connection:
        yield connection


def test_what_is_published_while_the_worker_rests_is_run(app: App) -> None:
    """Also where a database has no hints."""
    ran = Ran(app)
    app.publish(Job(name="first"))
    with working(app):
        ran.wait()
        app.publish(Job(name="second"))
        ran.wait()
    assert ran.names == ["first", "second"]


def test_a_publish_wakes_a_worker_that_sleeps(hinted: App, sleepers: Sleepers) -> None:
    ran = Ran(hinted)
    with working(hinted):
        for name in "abc":
            sleepers.wait()
            hinted.publish(Job(name=name))
            ran.wait()
        sleepers.wait()
    assert ran.names == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["many", "idempotent"])
def test_every_way_of_publishing_wakes(hinted: App, sleepers: Sleepers, how: str) -> None:
    ran = Ran(hinted)
    with working(hinted):
        sleepers.wait()
        if how == "many":
            hinted.publish_many([Job()])
        else:
            hinted.publish(Job(), idempotency_key="once")
        ran.wait()


def test_one_publish_makes_one_claim_however_many_workers_sleep(
    hinted: App, sleepers: Sleepers
) -> None:
    for second in applied(hinted.database, hinted.colour):
        first_ran, second_ran = Ran(hinted), Ran(second)
        with working(hinted):
            sleepers.wait()
            with working(second):
                sleepers.wait()
                sleepers.claims.clear()
                hinted.publish()
                first_ran.wait()
                sleepers.wait()
        assert len(sleepers.claims) == 1
        assert second_ran.names == []


def test_while_one_worker_is_busy_a_publish_wakes_the_next(hinted: App, sleepers: Sleepers) -> None:
    leave = threading.Event()
    for second in applied(hinted.database, hinted.colour):
        crews = [Busy(app, leave) for app in (hinted, second)]
        with working(hinted):
            sleepers.wait()
            with working(second):
                sleepers.wait()
                for crew in crews:
                    hinted.publish()
                    crew.wait()
                leave.set()
                sleepers.wait()
                sleepers.wait()


def test_nobody_is_notified_while_nobody_sleeps(hinted: App, sleepers: Sleepers) -> None:
    """NOTIFY makes commits queue: publishers are to pay for it only where it is of use."""
    leave = threading.Event()
    crew = Busy(hinted, leave)
    with working(hinted), outside(hinted) as ear, outside(hinted) as mouth:
        sleepers.wait()
        channel = sleeper(hinted)
        hinted.publish(Job(name="wakes"))
        crew.wait()
        assert sleeper(hinted) is None
        ear.execute(f'LISTEN "{channel}"')
        hinted.publish(Job(name="does not"))
        mouth.execute(f"SELECT pg_notify('{channel}', 'the end')")
        heard = next(ear.notifies(timeout=PATIENCE))
        leave.set()
        sleepers.wait()
    # Notifications arrive in the order of commits.
    assert heard.payload == "the end"
    assert crew.names == ["wakes", "does not"]


@pytest.mark.parametrize("whose", ["the listener's", "everybody's"])
def test_a_worker_listens_again_when_its_connection_was_lost(
    hinted: App, sleepers: Sleepers, whose: str
) -> None:
    """As by a restart of the server; what was published meanwhile is found as well."""
    ran = Ran(hinted)
    condition = "pid <> pg_backend_pid() AND datname = current_database()"
    if whose == "the listener's":
        condition += " AND query LIKE 'LISTEN %'"
    with working(hinted):
        sleepers.wait()
        with outside(hinted) as connection:
            query = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {condition}"
            assert connection.execute(query).rowcount >= 1
            with Session(create_engine(hinted.database.sync_url, poolclass=NullPool)) as session:
                topic: Topic[Job] = Vulkan(session.get_bind()).topic(TOPIC, Job)  # type: ignore[arg-type]
                topic.publish(session, Job(name="meanwhile"))
                session.commit()
        ran.wait()
        sleepers.wait()
        hinted.publish(Job(name="afterwards"))
        ran.wait()
    assert ran.names == ["meanwhile", "afterwards"]


def test_a_worker_that_sleeps_runs_a_delayed_message_when_it_is_due(
    hinted: App, sleepers: Sleepers
) -> None:
    again = threading.Event()

    def handler(payload: Job, meta: MessageMeta) -> None:
        if meta.attempts == 0:
            raise Delay(0.2)
        again.set()

    hinted.consumer(handler, session=False)
    with working(hinted):
        sleepers.wait()
        hinted.publish()
        assert again.wait(PATIENCE)


def test_a_stop_wakes_a_worker_and_takes_its_name_away(hinted: App, sleepers: Sleepers) -> None:
    Ran(hinted, concurrency=3)
    with working(hinted):
        sleepers.wait()
        assert sleeper(hinted) is not None
    assert sleeper(hinted) is None


def test_a_publisher_that_began_before_the_worker_fell_asleep_is_waited_for(
    hinted: App, sleepers: Sleepers
) -> None:
    """It could not know that a hint is wanted."""
    ran = Ran(hinted)
    hinted.group()
    publisher = hinted.open()
    publisher.run(lambda session: hinted.publish_in(session, Job(name="open")))
    with working(hinted):
        until(lambda: sleeper(hinted) is not None)
        publisher.commit()
        ran.wait()


def test_a_name_that_a_dead_worker_left_gives_way_to_one_that_works(
    hinted: App, sleepers: Sleepers
) -> None:
    ran = Ran(hinted)
    hinted.group()
    dead = update(ConsumerGroup).values(sleepers=["dead"], sleeps_until=clock.db_after(60.0))
    hinted.in_transaction(lambda session: session.execute(dead))
    hinted.publish()
    with working(hinted):
        ran.wait()
        sleepers.wait()
        assert sleeper(hinted) not in (None, "dead")
        hinted.publish()
        ran.wait()


def test_an_idle_worker_gives_as_many_messages_to_its_threads_or_tasks_as_come(
    hinted: App, sleepers: Sleepers
) -> None:
    """They run side by side, though each was claimed by another and one alone slept."""
    leave = threading.Event()
    crew = Busy(hinted, leave, concurrency=3)
    with working(hinted):
        sleepers.wait()
        for _ in range(3):
            hinted.publish()
            crew.wait()
        leave.set()
        until(lambda: hinted.repo("lag", TOPIC, GROUP).total == 0)
    assert hinted.log() == []


def test_without_wake_up_nobody_sleeps_and_no_publisher_gives_a_hint(
    postgresql: Database,
) -> None:
    vulkan = Vulkan(postgresql.sync_url, wake_up=False)
    topic = vulkan.topic(TOPIC, Job)
    statements: list[str] = []
    seen = threading.Semaphore(0)

    @topic.consumer(group=GROUP)
    def handler(payload: Job) -> None:
        seen.release()

    event.listen(vulkan.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    running = threading.Thread(target=vulkan.run)
    running.start()
    for _ in range(2):
        with Session(vulkan.engine) as session, session.begin():
            topic.publish(session, Job())
        assert seen.acquire(timeout=PATIENCE)
    stop(vulkan)
    running.join(PATIENCE)
    vulkan.engine.dispose()
    assert not any("pg_notify" in each or "SET sleepers" in each for each in statements)


def test_a_two_phase_transaction_gives_no_hint(hinted: App) -> None:
    """PostgreSQL would refuse to prepare it."""
    statements: list[str] = []
    engine = create_engine(hinted.database.sync_url, poolclass=NullPool)
    event.listen(engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    topic: Topic[Job] = Vulkan(engine).topic(TOPIC, Job)
    for two_phases in (False, True):
        with Session(engine, twophase=two_phases) as session:
            session.execute(text("SELECT 1"))
            topic.publish(session, Job())
            session.rollback()
    hints = ["pg_notify" in each for each in statements if "INSERT INTO vulkan_message" in each]
    assert hints[0]
    assert not hints[-1]
