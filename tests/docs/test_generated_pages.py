"""The pages that come from the code are the ones that are committed."""

import runpy
from pathlib import Path

import pytest

from vulkan_orm.diagnostics import REGISTRY

DOCS = Path(__file__).parents[2] / "docs"
GENERATOR = runpy.run_path(str(DOCS / "generate.py"))


@pytest.mark.parametrize("name", GENERATOR["PAGES"])
def test_a_committed_page_is_what_the_generator_gives(name: str) -> None:
    """When this fails: python docs/generate.py"""
    assert (DOCS / name).read_text(encoding="utf-8") == GENERATOR["PAGES"][name]()


def test_every_diagnostic_has_a_heading_of_its_own() -> None:
    """R4"""
    lines = (DOCS / "reference/diagnostics.md").read_text(encoding="utf-8").splitlines()
    headings = [line.split()[1] for line in lines if line.startswith("## ")]
    assert headings == sorted(REGISTRY)
