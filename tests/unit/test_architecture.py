"""The shape of the package, held: what no type checker and no other test would notice."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

import vulkan_orm
from vulkan_orm.aio import AsyncDeliveryRepository

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "vulkan_orm"
CONFIG = str(ROOT / "pyproject.toml")

DIALECTS = {"postgresql", "sqlite", "mysql", "mariadb"}
MAY_NAME_DIALECTS = ("store/dialects/", "store/clock.py", "columns.py", "models.py", "migrations/")
BUILDERS = {"select", "insert", "update", "delete", "text"}
COUNTERS = {"attempts", "delays", "interruptions"}
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
MAX_FUNCTION = 40
MAX_MODULE = 400

PUBLIC = [
    "DatabaseError",
    "DecodeError",
    "Delay",
    "DeliveryRepository",
    "Draft",
    "HandlerError",
    "MessageMeta",
    "Outcome",
    "PayloadError",
    "RetryPolicy",
    "StaleClaim",
    "Terminal",
    "Topic",
    "UsageError",
    "Vulkan",
    "VulkanError",
]


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """The package's modules by path, or those that are in one of the folders."""
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE).as_posix()
        if not folders or path.startswith(folders):
            yield path, ast.parse(file.read_text(encoding="utf-8"))


def last_name(node: ast.expr) -> str | None:
    """``attempts`` of both ``attempts`` and ``row.attempts``."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


def test_dialects_are_named_in_one_place() -> None:
    """Elsewhere the dialect is asked what it can do."""
    named = [
        f"{path}:{node.lineno}"
        for path, tree in modules()
        if not path.startswith(MAY_NAME_DIALECTS)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in DIALECTS
    ]
    assert named == []


def test_services_and_consumers_build_no_statement() -> None:
    built = [
        f"{path}:{node.lineno}"
        for path, tree in modules("service/", "consumers/", "app.py", "aio.py", "cli/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _builds(node.func)
    ]
    assert built == []


def _builds(called: ast.expr) -> bool:
    match called:
        case ast.Name(id=name):
            return name in BUILDERS
        case ast.Attribute(attr=name, value=ast.Name(id="sa" | "sqlalchemy")):
            return name in BUILDERS
    return False


def test_the_store_knows_no_session_and_executes_nothing() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, tree in modules("store/")
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name | ast.Attribute) and last_name(node) == "Session")
        or (isinstance(node, ast.alias) and node.name in ("Session", "sqlalchemy.orm"))
        or (isinstance(node, ast.Call) and last_name(node.func) in ("execute", "scalars"))
    ]
    assert found == []


def test_the_budget_is_worked_out_in_one_place() -> None:
    """R10: ``attempts - delays`` has one definition."""
    found = [
        f"{path}:{node.lineno}"
        for path, tree in modules()
        if path != "core/budget.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and {last_name(node.left), last_name(node.right)} <= COUNTERS
    ]
    assert found == []


def test_consumers_do_not_decide_what_becomes_of_a_delivery() -> None:
    """R23: that is for ``apply_outcome`` alone."""
    found = [
        path
        for path, tree in modules("consumers/", "app.py", "cli/", "playground/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and last_name(node.func) in ("decide", "within_budget")
    ]
    assert found == []


def public_methods(of: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(of, inspect.isfunction)
        if not name.startswith("_")
    }


def test_the_async_repository_has_the_methods_of_the_sync_one() -> None:
    assert public_methods(AsyncDeliveryRepository) == public_methods(vulkan_orm.DeliveryRepository)


@pytest.mark.parametrize("name", public_methods(AsyncDeliveryRepository))
def test_an_async_method_awaits_the_sync_one(name: str) -> None:
    method = getattr(AsyncDeliveryRepository, name)
    assert inspect.iscoroutinefunction(method)
    assert f"_sync.{name}(" in inspect.getsource(method)
    assert method.__doc__ == f"See :meth:`DeliveryRepository.{name}`."


def test_the_public_names_are_these() -> None:
    """A change needs a line in the changelog."""
    assert vulkan_orm.__all__ == PUBLIC
    assert sorted(PUBLIC) == PUBLIC
    for name in PUBLIC:
        assert getattr(vulkan_orm, name).__module__.startswith("vulkan_orm.")


def test_no_function_is_longer_than_a_screen() -> None:
    """But for the frozen migrations, where one is a table."""
    long = {
        f"{path}:{node.lineno} {node.name}": length
        for path, tree in modules()
        if not path.startswith("migrations/")
        for node in ast.walk(tree)
        if isinstance(node, Function) and (length := _length(node)) > MAX_FUNCTION
    }
    assert long == {}


def _length(function: Function) -> int:
    """Lines of code of its own: a docstring may say as much as it has to say."""
    inner = [node for node in ast.iter_child_nodes(function) if isinstance(node, Function)]
    length = _lines(function) - sum(_lines(node) for node in inner)
    if ast.get_docstring(function) is not None:
        length -= _lines(function.body[0])
    return length


def _lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_no_module_grows_without_end() -> None:
    long = {
        file.relative_to(PACKAGE).as_posix(): length
        for file in PACKAGE.rglob("*.py")
        if (length := len(file.read_text(encoding="utf-8").splitlines())) > MAX_MODULE
    }
    assert long == {}


def test_imports_keep_their_contracts() -> None:
    """Layers point down, the core is pure, migrations import nothing of ours."""
    # In a process of its own, since it sets logging up anew and silences what others test.
    call = (
        "import sys; from importlinter.cli import lint_imports as lint;"
        f" sys.exit(lint({CONFIG!r}, no_cache=True))"
    )
    linted = subprocess.run(
        [sys.executable, "-c", call], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert linted.returncode == 0, linted.stdout
