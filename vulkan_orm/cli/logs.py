"""What a worker process logs: to stderr, unless the application has set up its own logging."""

import logging
from enum import StrEnum

from vulkan_orm.cli.output import several_lines


class Level(StrEnum):
    """How much to log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Printable(logging.Formatter):
    """A format whose records, error texts of handlers among them, cannot steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return several_lines(super().format(record))


def log_to_stderr(level: Level) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(Printable("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
