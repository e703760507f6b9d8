"""One name for each concept (R22); docs/reference/words.md is the list that is enforced."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from vulkan_orm.core.outcomes import Outcome

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "vulkan_orm"
WORDS = ROOT / "docs/reference/words.md"
COMPARISON = ROOT / "docs/explanation/comparison.md"
SUFFIXES = {".py", ".md", ".html", ".jinja", ".mako", ".sql", ".ini", ".toml"}
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "misc", "common"}


def rows() -> Iterator[list[str]]:
    """The table rows of the word list: word, meaning, banned."""
    for line in WORDS.read_text(encoding="utf-8").splitlines():
        if line.startswith("| **"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def named_words() -> list[str]:
    return [word for row in rows() for word in re.findall(r"\*\*(.+?)\*\*", " ".join(row))]


def banned_words() -> list[str]:
    return [word.strip() for row in rows() for word in row[2].split(",") if word.strip()]


def pattern_of(word: str) -> re.Pattern[str]:
    """The word in any inflection, over text whose words are separated by single spaces."""
    stem = re.escape(plain(word).strip()).removesuffix("e")
    return re.compile(rf"\b{stem}(?:e?s|e?d|ing|e|ers?)?\b", re.IGNORECASE)


def plain(text: str) -> str:
    """Identifiers and hyphenated words taken apart, so that each is found in any spelling."""
    humps = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return re.sub(r"[\s_-]+", " ", humps)


def found_in(text: str) -> list[str]:
    words = plain(text)
    return [
        f"{word}: …{words[max(hit.start() - 30, 0) : hit.end() + 30]}…"
        for word in banned_words()
        for hit in pattern_of(word).finditer(words)
    ]


def pages() -> list[Path]:
    """The package (and with it the commands and their help), the documents, the host's files."""
    folders = [PACKAGE, ROOT / "docs", ROOT / "alembic"]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in SUFFIXES]
    tops = [ROOT / name for name in ("README.md", "CHANGELOG.md", "alembic.ini", "pyproject.toml")]
    return sorted({*files, *filter(Path.exists, tops)} - {WORDS})


def text_of(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    if page == COMPARISON:
        return re.sub(r"`[^`]*`", "", text)
    return text


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_uses_a_banned_word(page: Path) -> None:
    """R22"""
    assert found_in(text_of(page)) == []


def test_no_file_is_named_by_a_banned_word() -> None:
    """R22"""
    assert found_in(" ".join(str(page.relative_to(ROOT)) for page in pages())) == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    """R22"""
    modules = [path.stem for path in PACKAGE.rglob("*.py")] + [
        path.name for path in PACKAGE.rglob("*") if path.is_dir()
    ]
    assert [
        name for name in modules if name in EMPTY_NAMES or name.lower().endswith("manager")
    ] == []


def test_no_class_is_a_manager() -> None:
    """R22"""
    classes = [
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert [name for name in classes if name.endswith("Manager")] == []


def test_each_concept_is_named_once() -> None:
    """R22"""
    words = named_words()
    assert sorted(words) == sorted(set(words))


def test_no_word_is_both_named_and_banned() -> None:
    """R22"""
    assert [text for word in named_words() for text in found_in(word)] == []


def test_every_outcome_is_a_named_word() -> None:
    """R22"""
    assert {outcome.value for outcome in Outcome} <= set(named_words())


@pytest.mark.parametrize(
    "text",
    [
        "it snoozes",
        "snooze_until",
        "SnoozeError",
        "a dead-letter\nqueue",
        "the dead letter queue",
        "acks",
        "Nack",
        "requeued",
        "ttl",
    ],
)
def test_a_banned_word_is_found_in_any_spelling(text: str) -> None:
    """R22"""
    assert found_in(text)


@pytest.mark.parametrize("text", ["acknowledgement", "back", "dead letters", "title", "package"])
def test_a_word_that_only_contains_a_banned_one_is_left_alone(text: str) -> None:
    """R22"""
    assert found_in(text) == []
