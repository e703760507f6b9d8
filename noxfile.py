"""Every check of the project by name; `.ci/run` runs lint, types and tests the same way."""

from pathlib import Path

import nox

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["lint", "types", "tests"]


@nox.session
def lint(session: nox.Session) -> None:
    """Style, format and import contracts."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-logo")


@nox.session
def types(session: nox.Session) -> None:
    """The package and its tests under mypy's strict mode."""
    session.install("-e", ".[dev]")
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """One driver for each database and colour: what `.ci/run` runs."""
    session.install("-e", ".[dev]")
    session.run("pytest", "-n", "2", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """The tests with branch coverage, to look at what they miss."""
    session.install("-e", ".[dev]")
    session.run("pytest", "-n", "2", "--cov", *session.posargs)


@nox.session
def dialects(session: nox.Session) -> None:
    """The behaviour suite over every driver that is supported."""
    session.install("-e", ".[dev]")
    paths = session.posargs or ["tests/conformance"]
    session.run("pytest", "-n", "2", *paths, env={"VULKAN_TEST_DRIVERS": "all"})


@nox.session
def wheel(session: nox.Session) -> None:
    """What a user gets: the wheel alone, away from the source tree."""
    session.install("build")
    dist = Path(session.create_tmp()).resolve() / "dist"
    session.run("python", "-m", "build", "--outdir", str(dist), silent=True)
    (built,) = dist.glob("*.whl")
    session.run("pip", "uninstall", "--yes", "--quiet", "build")
    session.install(f"vulkan-orm[cli] @ {built.as_uri()}")
    session.chdir(dist)
    session.run("python", "-c", "import vulkan_orm")
    session.run("vulkan", "--help")


PEERS = {
    "pgqueuer": ["pgqueuer==1.6.0", "asyncpg==0.32.0", "psycopg[binary,pool]==3.3.9"],
    "procrastinate": ["procrastinate==3.10.0", "psycopg[binary,pool]==3.3.9"],
    "chancy": ["chancy==0.26.0", "psycopg[binary,pool]==3.3.9"],
    "huey": ["huey==3.5.4"],
}


@nox.session
def bench_peers(session: nox.Session) -> None:
    """Other queues beside ours, each in an environment of its own; needs PostgreSQL."""
    session.install("-e", ".[dev]")
    folder = Path(session.create_tmp()).resolve() / "peers"
    for name, packages in PEERS.items():
        python = folder / name / "bin" / "python"
        if not python.exists():
            session.run("python", "-m", "venv", str(folder / name))
            pip = [str(python), "-m", "pip", "install", "--quiet", "uvloop==0.23.0", *packages]
            session.run(*pip, external=True)
    session.run(
        "python", "-m", "tests.bench.peers", "--environments", str(folder), *session.posargs
    )


@nox.session
def stress(session: nox.Session) -> None:
    """Publishers and workers side by side until 200,000 messages balance; needs PostgreSQL."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "tests.stress", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Figures beside the bare driver's floor; needs PostgreSQL."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "tests.bench", *session.posargs)
