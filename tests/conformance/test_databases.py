"""Databases that are not ready, not known or not ours: an error with a code, and nothing lost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine, select, update
from sqlalchemy.orm import Session

from tests.conformance.harness import APPS, GROUP, TOPIC, App, Job
from tests.conformance.host import Effect
from tests.databases import Database
from vulkan_orm import DatabaseError, UsageError, Vulkan
from vulkan_orm.models import Meta


@contextmanager
def application(database: Database, colour: str) -> Iterator[App]:
    made = APPS[colour](database)
    try:
        yield made
    finally:
        made.close()


def refused_publish(app: App, code: str) -> Callable[[Session], None]:
    """A publish that is refused after a business row, which its transaction keeps."""

    def work(session: Session) -> None:
        session.add(Effect(value="business"))
        session.flush()
        for _ in range(2):
            with pytest.raises(DatabaseError) as caught:
                app.publish_in(session, Job())
            assert caught.value.code == code
            assert caught.value.condition.remedy in str(caught.value)
        session.add(Effect(value="more business"))

    return work


def test_a_database_that_is_not_migrated_is_named_with_the_remedy(
    database: Database, colour: str
) -> None:
    """The bad input of issue 2: nothing lost, the caller's session still usable."""
    with application(database, colour) as app:
        app.consumer(lambda payload, session, meta: None)
        app.in_transaction(refused_publish(app, "VK0040"))
        assert app.effects() == ["business", "more business"]
        with pytest.raises(DatabaseError) as caught:
            app.drain()
        assert caught.value.code == "VK0040"
        with pytest.raises(DatabaseError):
            app.repo("dead", TOPIC, GROUP)
        app.upgrade()
        app.publish()
        assert app.drain() == {"succeeded": 1}


@pytest.mark.parametrize(
    ("version", "code"), [(0, "VK0041"), (99, "VK0042")], ids=["older", "newer"]
)
def test_a_schema_of_another_version_is_named_with_the_remedy(
    migrated: Database, colour: str, version: int, code: str
) -> None:
    """The bad input of issue 2."""
    with application(migrated, colour) as app:
        app.consumer(lambda payload, session, meta: None)
        app.in_transaction(
            lambda session: session.execute(update(Meta).values(schema_version=version))
        )
        app.in_transaction(refused_publish(app, code))
        assert app.effects() == ["business", "more business"]
        with pytest.raises(DatabaseError) as caught:
            app.drain()
        assert caught.value.code == code


def test_a_database_of_a_newer_version_is_not_downgraded_by_an_upgrade(
    migrated: Database, colour: str
) -> None:
    """The bad input of issue 2."""
    with application(migrated, colour) as app:
        app.in_transaction(lambda session: session.execute(update(Meta).values(schema_version=99)))
        with pytest.raises(DatabaseError) as caught:
            app.upgrade()
        assert caught.value.code == "VK0042"
        assert app.scalars(select(Meta.schema_version)) == [99]


def test_a_session_of_another_database_is_refused(
    migrated: Database, database: Database, colour: str
) -> None:
    """Section 7: another identity in vulkan_meta."""
    with application(migrated, colour) as app, application(database, colour) as other:
        other.upgrade()
        mine = app.jobs

        def work(session: Session) -> None:
            session.add(Effect(value="business"))
            with pytest.raises(DatabaseError) as caught:
                other.publish_in(session, Job(), topic=mine)
            assert caught.value.code == "VK0043"

        other.in_transaction(work)
        assert other.effects() == ["business"]
        assert other.publish() > 0


def test_a_session_of_another_engine_on_the_same_database_is_welcome(
    migrated: Database, colour: str
) -> None:
    """Section 7: the identity counts, not the engine."""
    with application(migrated, colour) as app, application(migrated, colour) as second:
        seen: list[str] = []
        app.consumer(lambda payload, session, meta: seen.append(payload.name))
        second.in_transaction(
            lambda session: second.publish_in(session, Job(name="guest"), topic=app.jobs)
        )
        app.drain()
        assert seen == ["guest"]


def test_an_upgrade_done_twice_is_harmless(database: Database, colour: str) -> None:
    """R39."""
    with application(database, colour) as app:
        app.consumer(lambda payload, session, meta: None)
        app.upgrade()
        app.publish()
        app.upgrade()
        assert app.drain() == {"succeeded": 1}


@pytest.mark.parametrize("bind", [7, None, []], ids=str)
def test_what_is_no_database_is_refused(bind: object) -> None:
    """The bad input of issue 2."""
    with pytest.raises(UsageError) as caught:
        Vulkan(bind)  # type: ignore[arg-type]
    assert caught.value.code == "VK0007"


def test_a_database_we_do_not_know_is_refused() -> None:
    """Section 6: what one cannot do is said, not faked."""
    engine = create_engine("mssql+pymssql://", module=SimpleNamespace(paramstyle="pyformat"))
    with pytest.raises(UsageError) as caught:
        Vulkan(engine)
    assert caught.value.code == "VK0044"
