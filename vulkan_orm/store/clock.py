"""The database's clock: the only one that decides anything. Tests can offset it."""

from typing import Any

from sqlalchemy import Double, bindparam, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import FunctionElement

from vulkan_orm.columns import UTCDateTime

_offset = 0.0


def set_offset(seconds: float) -> None:
    """Moves what this process takes for the database's time; for tests alone."""
    global _offset
    _offset = seconds


def offset() -> float:
    return _offset


class _DatabaseClock(FunctionElement[Any]):
    """The instant, at the moment of execution, some seconds from now."""

    type = UTCDateTime()
    inherit_cache = True


def db_now() -> ColumnElement[Any]:
    """The database's time at this moment, not at its transaction's start."""
    return _DatabaseClock(bindparam(None, _offset, Double())) if _offset else _DatabaseClock()


def db_after(seconds: ColumnElement[Any] | float) -> ColumnElement[Any]:
    """The database's time some seconds from this moment."""
    span = seconds if isinstance(seconds, ColumnElement) else literal(seconds, Double())
    return _DatabaseClock(span + _offset if _offset else span)


@compiles(_DatabaseClock, "postgresql")
def _postgresql(element: _DatabaseClock, compiler: SQLCompiler, **kw: Any) -> str:
    spans = compiler.process(element.clauses, **kw)
    now = "clock_timestamp()"
    return f"({now} + make_interval(secs => {spans}))" if spans else now


@compiles(_DatabaseClock, "sqlite")
def _sqlite(element: _DatabaseClock, compiler: SQLCompiler, **kw: Any) -> str:
    # The text format in which SQLAlchemy stores a DateTime, so that comparisons hold.
    spans = compiler.process(element.clauses, **kw)
    modifier = f", printf('%+.3f seconds', {spans})" if spans else ""
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now'{modifier})"
