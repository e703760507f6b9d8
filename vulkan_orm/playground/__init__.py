"""Numbered scenarios that anyone can run, each showing what happens and checking that it does."""

from collections.abc import Sequence

from vulkan_orm.diagnostics import MISSING_EXTRA, UsageError


def run(
    scenarios: Sequence[str] | None = None,
    *,
    list_only: bool = False,
    database: str | None = None,
) -> int:
    """Plays scenarios, prints what happened, and returns 0 when every verdict is passed, else 1.

    :param scenarios: numbers as ``list_only`` prints them; all unless said.
    :param list_only: prints the scenarios and plays none.
    :param database: the URL of an empty database of its own, where what was played stays to be
        looked at; otherwise each scenario has a SQLite file that is gone afterwards.
    :raises UsageError: VK0007 for a number that is not there or a database that will not do,
        VK0010 without the extra ``cli``.
    """
    try:
        from vulkan_orm.playground import programme
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        raise UsageError(MISSING_EXTRA, "The playground needs vulkan-orm[cli].") from error
    chosen = programme.choose(scenarios)
    if list_only:
        programme.announce(chosen)
        return 0
    return programme.play(chosen, database)


__all__ = ["run"]
