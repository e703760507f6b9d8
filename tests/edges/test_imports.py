"""What importing the package costs those who did not ask for an extra."""

import subprocess
import sys

EXTRAS = [
    "aiosqlite",
    "asyncpg",
    "click",
    "greenlet",
    "jinja2",
    "psycopg",
    "pytest",
    "rich",
    "starlette",
    "typer",
]


def loaded_by(statement: str) -> list[str]:
    """Those of the extras that a fresh interpreter has after a statement."""
    program = f"{statement}; import sys; print(*[n for n in {EXTRAS} if n in sys.modules])"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_importing_the_package_loads_no_extra() -> None:
    assert loaded_by("import vulkan_orm") == []


def test_a_sync_vulkan_on_sqlite_loads_no_extra() -> None:
    assert loaded_by("import vulkan_orm; vulkan_orm.Vulkan('sqlite://').upgrade()") == []


def test_importing_the_command_alone_does_not_need_its_libraries() -> None:
    assert loaded_by("import vulkan_orm.__main__") == []
