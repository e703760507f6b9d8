"""PostgreSQL's COPY on the driver connection that a session has, in the transaction it is in.

SQLAlchemy runs no COPY: the driver is asked itself, and what it raises is raised as SQLAlchemy
raises it, so that to the session this is a statement like any other.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.exc import DBAPIError

from vulkan_orm.models import Base


@dataclass(frozen=True, slots=True)
class _Target:
    """Where rows go, by names that are not quoted yet."""

    schema: str | None
    table: str
    columns: Sequence[str]

    def statement(self, connection: Connection) -> str:
        quote = connection.dialect.identifier_preparer.quote
        table = ".".join(quote(name) for name in (self.schema, self.table) if name)
        columns = ", ".join(map(quote, self.columns))
        # Said here, for the connection may have another encoding.
        return f"COPY {table} ({columns}) FROM STDIN WITH (ENCODING 'UTF8')"


_Send = Callable[[Connection, _Target, Iterable[bytes]], None]


def is_possible(connection: Connection) -> bool:
    """Not without a transaction, which would end the fence before the rows are there."""
    dialect = connection.dialect
    driver: Any = connection.connection.dbapi_connection
    return _driver(dialect) in _SENDS and not dialect.detect_autocommit_setting(driver)


def copy(
    connection: Connection, table: type[Base], columns: Sequence[str], parts: Iterable[bytes]
) -> None:
    """Sends rows, in the text format. :raises DBAPIError: as a statement would."""
    target = _target(connection, table, columns)
    with _errors_of(connection, target):
        _SENDS[_driver(connection.dialect)](connection, target, parts)


def _driver(dialect: Dialect) -> tuple[str, bool]:
    return dialect.driver, dialect.is_async


def _target(connection: Connection, table: type[Base], columns: Sequence[str]) -> _Target:
    schema = table.metadata.tables[table.__tablename__].schema
    schemas = connection.get_execution_options().get("schema_translate_map") or {}
    return _Target(schemas.get(schema, schema), table.__tablename__, columns)


@contextmanager
def _errors_of(connection: Connection, target: _Target) -> Iterator[None]:
    dialect = connection.dialect
    refusal: Any = dialect.loaded_dbapi.Error
    driver: Any = connection.connection.dbapi_connection
    try:
        yield
    except refusal as error:
        lost = dialect.is_disconnect(error, driver, None)
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            target.statement(connection),
            None,
            error,
            refusal,
            connection_invalidated=lost,
            dialect=dialect,
        ) from error


def _psycopg(connection: Connection, target: _Target, parts: Iterable[bytes]) -> None:
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(target.statement(connection)) as sink:
        for part in parts:
            sink.write(part)


def _psycopg_async(connection: Connection, target: _Target, parts: Iterable[bytes]) -> None:
    statement = target.statement(connection)

    async def send(driver: Any) -> None:
        async with driver.cursor() as cursor, cursor.copy(statement) as sink:
            for part in parts:
                await sink.write(part)

    adapted: Any = connection.connection.dbapi_connection
    adapted.run_async(send)


def _asyncpg(connection: Connection, target: _Target, parts: Iterable[bytes]) -> None:
    async def source() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    async def send(driver: Any) -> None:
        await driver.copy_to_table(
            target.table,
            schema_name=target.schema,
            columns=list(target.columns),
            source=source(),
            encoding="utf8",
        )

    adapted: Any = connection.connection.dbapi_connection
    try:
        adapted.run_async(send)
    except Exception as error:
        # asyncpg has no errors of the DBAPI; its adapter has, for each of asyncpg's.
        adapted._handle_exception(error)


_SENDS: dict[tuple[str, bool], _Send] = {
    ("psycopg", False): _psycopg,
    ("psycopg", True): _psycopg_async,
    ("asyncpg", True): _asyncpg,
}
