"""What the steps promise to the revisions that call them, and what they refuse."""

import hashlib
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, MetaData, text

from tests.migrations.host import operations
from tests.migrations.schema import OURS, facts, tables
from vulkan_orm import DatabaseError, Vulkan, migrations
from vulkan_orm.migrations import MigrationError, v0001

# A released step is never edited. 0.1.0 is not released yet: until then a hash may be updated
# here together with its step, after that only a new step may change the tables.
PINNED = {v0001: "fd774c2ab9c7801bfb9cf9a017abc415eda95fb6b4876d40bfae81faa49fff96"}

CONVENTION = {
    "ix": "host_ix_%(table_name)s_%(column_0_name)s",
    "uq": "host_uq_%(table_name)s_%(column_0_name)s",
    "ck": "host_ck_%(table_name)s_%(constraint_name)s",
    "fk": "host_fk_%(table_name)s_%(column_0_name)s",
    "pk": "host_pk_%(table_name)s",
}


def upgrade(
    connection: Connection, from_version: int = 0, to_version: int = 1, schema: str | None = None
) -> None:
    migrations.upgrade(
        operations(connection), from_version=from_version, to_version=to_version, schema=schema
    )


def downgrade(connection: Connection, schema: str | None = None) -> None:
    migrations.downgrade(operations(connection), from_version=1, to_version=0, schema=schema)


def set_version(engine: Engine, version: int) -> None:
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE vulkan_meta SET schema_version = {version}"))


@pytest.mark.parametrize("step", PINNED, ids=lambda step: step.__name__)
def test_released_steps_are_not_edited(step: object) -> None:
    """Databases that ran the old text would never get the new: write a further step instead."""
    file = Path(step.__file__)  # type: ignore[attr-defined]
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    assert found == PINNED[step], f"{file.name} was edited; see PINNED"  # type: ignore[index]


def test_every_step_is_pinned() -> None:
    folder = Path(migrations.__file__).parent
    assert {file.stem for file in folder.glob("v*.py")} == {
        step.__name__.rpartition(".")[2] for step in PINNED
    }
    assert len(PINNED) == migrations.LATEST


def test_a_revision_that_wants_more_than_the_package_knows_is_refused(empty: Engine) -> None:
    with (
        empty.begin() as connection,
        pytest.raises(MigrationError, match=r"wants .* version 99; .* knows only 1"),
    ):
        upgrade(connection, to_version=99)

    with empty.connect() as connection:
        assert tables(connection) == set()


def test_a_database_older_than_the_revision_expects_is_refused(empty: Engine) -> None:
    with (
        empty.begin() as connection,
        pytest.raises(MigrationError, match=r"from version 1, but the database has version 0"),
    ):
        upgrade(connection, from_version=1)


def test_a_database_newer_than_a_downgrade_expects_is_refused(ready: Engine) -> None:
    set_version(ready, 2)

    with (
        ready.begin() as connection,
        pytest.raises(MigrationError, match=r"from version 1, but the database has version 2"),
    ):
        downgrade(connection)

    with ready.connect() as connection:
        assert tables(connection) == OURS


def test_a_database_newer_than_the_package_is_refused(ready: Engine) -> None:
    set_version(ready, 2)

    with (
        ready.begin() as connection,
        pytest.raises(MigrationError, match=r"has .* version 2; .* knows only 1"),
    ):
        upgrade(connection)
    with pytest.raises(DatabaseError, match="VK0042"):
        Vulkan(ready).upgrade()


@pytest.mark.parametrize(("version", "code"), [(0, "VK0041"), (2, "VK0042")])
def test_services_say_that_the_schema_is_another_than_theirs(
    ready: Engine, version: int, code: str
) -> None:
    set_version(ready, version)
    vulkan = Vulkan(ready)
    topic = vulkan.topic("topic", int)

    with (
        vulkan.engines.session() as session,
        session.begin(),
        pytest.raises(DatabaseError, match=code),
    ):
        topic.publish(session, 1)


def test_a_naming_convention_of_the_host_leaves_our_names_alone(
    empty: Engine, ready: Engine
) -> None:
    with empty.begin() as connection:
        op = operations(connection, target_metadata=MetaData(naming_convention=CONVENTION))
        migrations.upgrade(op, from_version=0, to_version=1)

    with empty.connect() as theirs, ready.connect() as ours:
        assert facts(theirs) == facts(ours)


def test_the_tables_can_stand_in_a_schema_of_the_host(ready_postgresql: Engine) -> None:
    with ready_postgresql.begin() as connection:
        connection.execute(text("CREATE SCHEMA app"))
        upgrade(connection, schema="app")

    with ready_postgresql.connect() as connection:
        assert tables(connection, "app") == OURS
        assert migrations.current_version(connection, "app") == migrations.LATEST
        assert facts(connection, "app") == facts(connection)
        sequences = text("SELECT count(*) FROM pg_sequences WHERE sequencename = :name")
        assert connection.scalar(sequences, {"name": "vulkan_message_id_seq"}) == 2


def test_a_downgrade_in_a_schema_touches_no_other(ready_postgresql: Engine) -> None:
    with ready_postgresql.begin() as connection:
        connection.execute(text("CREATE SCHEMA app"))
        upgrade(connection, schema="app")

        downgrade(connection, schema="app")

        assert tables(connection, "app") == set()
        assert tables(connection) == OURS
        connection.execute(text("DROP SCHEMA app"))
