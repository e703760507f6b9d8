"""Rows travel as one JSON document, and what no database keeps is refused before it does."""

import json

import pytest

from vulkan_orm.core.outcomes import Outcome
from vulkan_orm.diagnostics import PayloadError
from vulkan_orm.service.codec import rows_json


@pytest.mark.parametrize("text", ["a\x00b", "a\ud83db"])
def test_what_no_database_keeps_is_refused(text: str) -> None:
    with pytest.raises(PayloadError, match="VK0020"):
        rows_json([{"text": "x"}, {"text": text}])


@pytest.mark.parametrize("text", [r"\u0000", r"\\u0000", "\N{GRINNING FACE}", "\u2028", '"', ""])
def test_other_text_is_kept_character_by_character(text: str) -> None:
    row = {"text": text, "number": 2**53 + 1, "none": None, "wait": 0.1, "word": Outcome.DEAD}
    assert json.loads(rows_json([row])) == [row]
