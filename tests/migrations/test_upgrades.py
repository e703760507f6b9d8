"""The packaged steps, run by us and by a host's Alembic: up, down and up again (R52)."""

import pytest
from sqlalchemy import Connection, Engine, text

from tests.migrations.host import ReferenceHost, operations
from tests.migrations.schema import OURS, defaults, facts, tables
from vulkan_orm import Vulkan, migrations


def all_facts(engine: Engine) -> set[tuple[object, ...]]:
    with engine.connect() as connection:
        return facts(connection) | defaults(connection)


def names(engine: Engine) -> set[str]:
    with engine.connect() as connection:
        return tables(connection)


def sequences(connection: Connection) -> list[str]:
    if connection.dialect.name == "sqlite":
        return []
    return list(connection.scalars(text("SELECT sequencename FROM pg_sequences")))


def take_down(engine: Engine) -> None:
    with engine.begin() as connection:
        migrations.downgrade(operations(connection), from_version=1, to_version=0)


def test_upgrade_makes_every_table_and_records_its_version(empty: Engine) -> None:
    Vulkan(empty).upgrade()

    with empty.connect() as connection:
        assert tables(connection) == OURS
        assert migrations.current_version(connection) == migrations.LATEST


def test_downgrade_takes_everything_away_and_upgrade_brings_the_same_back(empty: Engine) -> None:
    Vulkan(empty).upgrade()
    before = all_facts(empty)

    take_down(empty)

    assert names(empty) == set()
    with empty.connect() as connection:
        assert sequences(connection) == []
        assert migrations.current_version(connection) == 0
    Vulkan(empty).upgrade()
    assert all_facts(empty) == before


def test_upgrade_run_again_changes_nothing(ready: Engine) -> None:
    before = all_facts(ready)
    with ready.connect() as connection:
        meta = connection.execute(text("SELECT * FROM vulkan_meta")).all()

    Vulkan(ready).upgrade()

    assert all_facts(ready) == before
    with ready.connect() as connection:
        assert connection.execute(text("SELECT * FROM vulkan_meta")).all() == meta


def test_a_step_that_was_cut_in_the_middle_is_run_again(ready: Engine) -> None:
    """Where DDL is not transactional, a crash leaves some tables and no version."""
    before = all_facts(ready)
    with ready.begin() as connection:
        connection.execute(text("DELETE FROM vulkan_meta"))
        connection.execute(text("DROP TABLE delivery_log"))
        connection.execute(text("DROP INDEX ix_exception_queue_due"))

    Vulkan(ready).upgrade()

    assert all_facts(ready) == before
    with ready.connect() as connection:
        assert migrations.current_version(connection) == migrations.LATEST


def test_a_downgrade_that_was_cut_in_the_middle_is_run_again(ready: Engine) -> None:
    with ready.begin() as connection:
        connection.execute(text("DROP TABLE delivery_log"))

    take_down(ready)

    assert names(ready) == set()


def test_alembic_upgrades_downgrades_and_upgrades_the_reference_host(empty: Engine) -> None:
    with empty.begin() as connection:
        ReferenceHost(connection).upgrade()
    before = all_facts(empty)
    assert names(empty) == OURS | {"alembic_version"}

    with empty.begin() as connection:
        ReferenceHost(connection).downgrade()

    assert names(empty) == {"alembic_version"}
    with empty.begin() as connection:
        ReferenceHost(connection).upgrade()
    assert all_facts(empty) == before


def test_the_reference_host_takes_its_database_from_the_environment(
    empty: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", empty.url.render_as_string(hide_password=False))

    ReferenceHost().upgrade()
    ReferenceHost().check()

    assert names(empty) == OURS | {"alembic_version"}
    ReferenceHost().downgrade()
    assert names(empty) == {"alembic_version"}


def test_both_ways_of_upgrading_make_the_same_tables(empty: Engine, ready: Engine) -> None:
    with empty.begin() as connection:
        ReferenceHost(connection).upgrade()

    assert all_facts(empty) == all_facts(ready)


def test_alembic_adopts_tables_that_were_made_without_it(ready: Engine) -> None:
    before = all_facts(ready)

    with ready.begin() as connection:
        ReferenceHost(connection).upgrade()
        ReferenceHost(connection).check()

    assert all_facts(ready) == before


def test_alembic_check_has_nothing_to_say_about_an_upgraded_host(empty: Engine) -> None:
    with empty.begin() as connection:
        host = ReferenceHost(connection)
        host.upgrade()

        host.check()

    assert "No new upgrade operations detected" in host.output.getvalue()


def test_a_migrated_database_carries_data_through_an_upgrade_run_again(ready: Engine) -> None:
    vulkan = Vulkan(ready)
    topic = vulkan.topic("topic", int)
    with vulkan.engines.session() as session, session.begin():
        topic.publish(session, 1)

    vulkan.upgrade()

    with ready.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM vulkan_message")) == 1
