"""The systems: what they are asked, how each tells that all is done, what each has to be."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PSYCOPG = "psycopg[binary,pool]==3.3.9"
UVLOOP = "uvloop==0.23.0"

_OURS_LEFT = """
    SELECT (SELECT count(*) FROM vulkan_consumer_group
            WHERE position < (SELECT max(id) FROM vulkan_message))
         + (SELECT count(*) FROM vulkan_range_claim) + (SELECT count(*) FROM exception_queue)
"""


@dataclass(frozen=True, slots=True)
class System:
    """One system, with its script and the query for what is not durably finished."""

    name: str
    module: str
    left: str
    jobs: int
    failing: int = 5000
    #: The environment, by its folder's name and what is installed there; none for ours.
    environment: str = ""
    packages: Sequence[str] = ()
    option: str = ""
    sqlite: bool = False

    @property
    def title(self) -> str:
        return self.packages[0].replace("==", " ") if self.packages else self.name

    def python(self, home: Path) -> Path:
        return home / self.environment / "bin" / "python" if self.packages else Path(sys.executable)

    def install(self, home: Path) -> None:
        """Makes the environment, unless one with these very packages is there."""
        if not self.packages:
            return
        folder = home / self.environment
        note = folder / "installed.txt"
        wanted = "\n".join(self.packages)
        if note.exists() and note.read_text(encoding="utf-8") == wanted:
            return
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [self.python(home), "-m", "pip", "install", "--quiet", *self.packages]
        subprocess.run(pip, check=True)
        note.write_text(wanted, encoding="utf-8")


OURS = System("vulkan run()", "vulkan_", _OURS_LEFT, 60_000)
OURS_ASYNC = System("vulkan arun()", "vulkan_", _OURS_LEFT, 60_000, option="async")
OURS_SQLITE = System("vulkan run(), SQLite", "vulkan_", _OURS_LEFT, 5000, sqlite=True)

PGQUEUER = System(
    "pgqueuer",
    "pgqueuer_",
    "SELECT count(*) FROM pgqueuer",
    60_000,
    environment="pgqueuer",
    packages=("pgqueuer==1.6.0", "asyncpg==0.32.0", PSYCOPG, UVLOOP),
)
CHANCY = System(
    "chancy",
    "chancy_",
    "SELECT count(*) FROM chancy_jobs WHERE state IN ('pending', 'running', 'retrying')",
    20_000,
    environment="chancy",
    packages=("chancy==0.26.0", PSYCOPG, UVLOOP),
)
PROCRASTINATE = System(
    "procrastinate",
    "procrastinate_",
    "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
    4000,
    failing=1000,
    environment="procrastinate",
    packages=("procrastinate==3.10.0", PSYCOPG, UVLOOP),
)
HUEY = System(
    "huey",
    "huey_",
    "SELECT (SELECT count(*) FROM task) + (SELECT count(*) FROM schedule)",
    5000,
    environment="huey",
    packages=("huey==3.5.4",),
    sqlite=True,
)
PEERS = {each.name: each for each in (PGQUEUER, CHANCY, PROCRASTINATE, HUEY)}
