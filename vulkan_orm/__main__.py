"""The command ``vulkan``, and ``python -m vulkan_orm``."""

import sys

from vulkan_orm.diagnostics import MISSING_EXTRA

LIBRARIES = ("typer", "rich")


def main() -> None:
    """Runs the command of ``sys.argv`` and exits with its code."""
    try:
        from vulkan_orm.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in LIBRARIES:
            raise
        print(
            f"{MISSING_EXTRA.code} The command vulkan needs {' and '.join(LIBRARIES)}: "
            "pip install 'vulkan-orm[cli]'.",
            file=sys.stderr,
        )
        sys.exit(2)
    sys.exit(run())


if __name__ == "__main__":
    main()
