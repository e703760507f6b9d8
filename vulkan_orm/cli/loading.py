"""Finding the application's Vulkan by ``module:object``."""

import importlib
import os
import sys
import traceback
from types import ModuleType
from typing import Any

from vulkan_orm.app import Vulkan
from vulkan_orm.diagnostics import NO_APPLICATION, UsageError


def load(name: str | None) -> Vulkan:
    """Imports the module, the current directory first, and gives the object.

    :raises UsageError: VK0011, saying what is missing.
    """
    if not name:
        raise UsageError(NO_APPLICATION, "No application is named.")
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise UsageError(NO_APPLICATION, f"{name!r} is not of the form module:object.")
    module = _import(module_name)
    found: Any = module
    for step in path.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            raise UsageError(
                NO_APPLICATION, f"{module_name!r} has no {path!r}{_instead(module)}."
            ) from None
    if not isinstance(found, Vulkan):
        raise UsageError(
            NO_APPLICATION,
            f"{name!r} is of type {type(found).__name__}, not a Vulkan{_instead(module)}.",
        )
    return found


def _import(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    # A script that exits when imported is an application that cannot be loaded.
    except (Exception, SystemExit) as error:
        raise UsageError(
            NO_APPLICATION,
            f"The module {name!r} could not be imported: "
            f"{type(error).__name__}: {error}{_place(error)}.",
        ) from error


def _place(error: BaseException) -> str:
    """The line of the application where it happened; nothing where its module was not found."""
    ways_there = (__file__, importlib.__file__)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith("<frozen") and frame.filename not in ways_there:
            return f" ({frame.filename}, line {frame.lineno})"
    return ""


def _instead(module: ModuleType) -> str:
    others = [name for name, value in vars(module).items() if isinstance(value, Vulkan)]
    return f"; it has {', '.join(others)}" if others else ""
