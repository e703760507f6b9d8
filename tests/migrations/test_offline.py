"""`alembic upgrade head --sql`: what it prints makes the tables that `upgrade` makes (R52)."""

from typing import Any

import pytest
from sqlalchemy import Engine

from tests.migrations.host import ReferenceHost
from tests.migrations.schema import defaults, facts, tables
from vulkan_orm import migrations


def run_script(engine: Engine, script: str) -> None:
    """As an operator pipes it into psql or sqlite3."""
    with engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        if engine.dialect.name == "sqlite":
            driver.executescript(script)
        else:
            driver.execute(script)
        driver.commit()


@pytest.fixture
def offline(empty: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setenv("DATABASE_URL", empty.url.render_as_string(hide_password=False))
    return empty


def test_offline_sql_makes_the_same_tables(offline: Engine, ready: Engine) -> None:
    run_script(offline, ReferenceHost().upgrade_sql())

    with offline.connect() as printed, ready.connect() as run:
        assert facts(printed) == facts(run)
        assert defaults(printed) == defaults(run)
        assert migrations.current_version(printed) == migrations.LATEST


def test_offline_sql_asks_no_database(offline: Engine) -> None:
    ReferenceHost().upgrade_sql()

    with offline.connect() as connection:
        assert tables(connection) == set()


def test_offline_downgrade_takes_everything_away(offline: Engine) -> None:
    run_script(offline, ReferenceHost().upgrade_sql())

    run_script(offline, ReferenceHost().downgrade_sql())

    with offline.connect() as connection:
        assert tables(connection) <= {"alembic_version"}


def test_a_database_that_an_offline_script_made_has_an_identity_of_its_own(
    offline: Engine, ready: Engine
) -> None:
    """It is drawn where the script runs, and not where it was printed."""
    script = ReferenceHost().upgrade_sql()

    assert "gen_random_uuid()" in script or "randomblob(16)" in script
