"""Which scenarios are played, where, and what their verdicts come to."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import inspect

from vulkan_orm import UsageError, Vulkan
from vulkan_orm.diagnostics import BAD_OPTION
from vulkan_orm.playground import (
    crash,
    groups,
    later,
    one_transaction,
    operating,
    payment_desk,
    retries,
    webhooks,
)
from vulkan_orm.playground.narrator import Narrator
from vulkan_orm.playground.stage import SCENARIOS, Scenario, Stage
from vulkan_orm.store import clock

#: The modules whose scenarios are registered, so that nothing takes their import for unused.
THEMES = (
    one_transaction,
    retries,
    payment_desk,
    groups,
    crash,
    operating,
    later,
    webhooks,
)


def choose(numbers: Sequence[str] | None) -> list[Scenario]:
    """The scenarios of those numbers in their order; all where none are named."""
    wanted = list(SCENARIOS) if numbers is None else [each.zfill(2) for each in numbers]
    unknown = [each for each in wanted if each not in SCENARIOS]
    if unknown:
        known = ", ".join(sorted(SCENARIOS))
        raise UsageError(BAD_OPTION, f"There is no scenario {', '.join(unknown)}; known: {known}.")
    return [SCENARIOS[each] for each in sorted(set(wanted))]


def announce(scenarios: Sequence[Scenario]) -> None:
    narrator = Narrator()
    for each in scenarios:
        narrator.announce(each)


def play(scenarios: Sequence[Scenario], database: str | None) -> int:
    """Plays them one after the other; 0 when all passed."""
    if database is not None:
        _refuse_unfit(database)
    narrator = Narrator()
    failed = []
    for each in scenarios:
        with _place(database) as url:
            if not _perform(each, url, narrator):
                failed.append(each.number)
    narrator.sum_up(failed, len(scenarios))
    return 1 if failed else 0


def _perform(scenario: Scenario, url: str, narrator: Narrator) -> bool:
    narrator.open(scenario)
    before = clock.offset()
    stage = Stage(url, narrator)
    try:
        scenario.play(stage)
    except Exception as error:
        narrator.broke(error)
    finally:
        clock.set_offset(before)
        stage.close()
    return narrator.close(scenario)


@contextmanager
def _place(database: str | None) -> Iterator[str]:
    """Where a scenario plays: a file of its own unless a database was given."""
    if database is not None:
        yield database
        return
    with tempfile.TemporaryDirectory(prefix="vulkan-playground-") as folder:
        yield f"sqlite:///{Path(folder, 'playground.db')}"


def _refuse_unfit(database: str) -> None:
    vulkan = Vulkan(database)
    if vulkan.engines.is_async or not vulkan.engines.shared:
        raise UsageError(
            BAD_OPTION, "The playground needs a sync driver and a database other processes reach."
        )
    try:
        tables = inspect(vulkan.engine).get_table_names()
    finally:
        vulkan.engine.dispose()
    if tables:
        raise UsageError(
            BAD_OPTION,
            f"The playground wants an empty database; {vulkan.engine.url!r} has {len(tables)} "
            "tables.",
        )
