"""The types that users see, as their type checker sees them."""

from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_the_public_surface_has_the_types_it_promises() -> None:
    """Wrong payloads are errors, an async session makes an awaitable, handlers stay as they are."""
    config, surface = str(ROOT / "pyproject.toml"), str(Path(__file__).with_name("public.py"))

    report, crash, status = api.run(["--config-file", config, surface])

    assert status == 0, report + crash


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "vulkan_orm" / "py.typed").exists()
