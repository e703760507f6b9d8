"""Every Python example of the documents runs: a page's blocks, one after the other."""

import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITH_EXAMPLES = [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    module = ModuleType(f"example_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    for found in BLOCK.finditer(text):
        line = text[: found.start()].count("\n") + 1
        code = compile("\n" * line + found.group(1), str(page), "exec")
        exec(code, module.__dict__)
    vulkan = module.__dict__.get("vulkan")
    if vulkan is not None and not vulkan.engines.is_async:
        vulkan.engine.dispose()


def test_every_link_between_pages_leads_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+?\.md)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert not broken
