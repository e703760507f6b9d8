"""The stress run, small enough for every day."""

import pytest

from tests.databases import Database
from tests.stress.__main__ import stress


@pytest.mark.parametrize("kills", [0, 2])
def test_the_ledger_of_publishers_and_workers_side_by_side_balances(
    database: Database, kills: int
) -> None:
    found = stress(
        database.sync_url, messages=1_000, publishers=3, workers=2, kills=kills, patience=100
    )
    assert found == []
