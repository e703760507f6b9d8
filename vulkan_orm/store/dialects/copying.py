"""PostgreSQL's COPY on the driver connection that a session has, in the transaction it is in.

SQLAlchemy runs no COPY: the driver is asked itself, and what it raises is raised as SQLAlchemy
raises it, so that to the session this is a statement like any other.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Dialect, Table
from sqlalchemy.exc import DBAPIError

_Send = Callable[[Connection, Table, Sequence[str], Iterable[bytes]], None]


def is_possible(connection: Connection) -> bool:
    """Not without a transaction: the fence would end before the rows are there."""
    dialect = connection.dialect
    driver: Any = connection.connection.dbapi_connection
    return _driver(dialect) in _SENDS and not dialect.detect_autocommit_setting(driver)


def copy(
    connection: Connection, table: Table, columns: Sequence[str], parts: Iterable[bytes]
) -> None:
    """Sends rows in COPY's text format, UTF-8. :raises DBAPIError: as a statement would."""
    with _errors_of(connection, table, columns):
        _SENDS[_driver(connection.dialect)](connection, table, columns, parts)


def _driver(dialect: Dialect) -> tuple[str, bool]:
    return dialect.driver, dialect.is_async


def _statement(connection: Connection, table: Table, columns: Sequence[str]) -> str:
    preparer = connection.dialect.identifier_preparer
    names = ", ".join(map(preparer.quote, columns))
    # The encoding is said here, for the connection may have another.
    return f"COPY {preparer.format_table(table)} ({names}) FROM STDIN WITH (ENCODING 'UTF8')"


@contextmanager
def _errors_of(connection: Connection, table: Table, columns: Sequence[str]) -> Iterator[None]:
    dialect = connection.dialect
    refusal: Any = dialect.loaded_dbapi.Error
    driver: Any = connection.connection.dbapi_connection
    try:
        yield
    except refusal as error:
        lost = dialect.is_disconnect(error, driver, None)
        if lost:
            connection.invalidate(error)
        statement = _statement(connection, table, columns)
        raise DBAPIError.instance(
            statement, None, error, refusal, connection_invalidated=lost, dialect=dialect
        ) from error


def _psycopg(
    connection: Connection, table: Table, columns: Sequence[str], parts: Iterable[bytes]
) -> None:
    driver: Any = connection.connection.driver_connection
    statement = _statement(connection, table, columns)
    with driver.cursor() as cursor, cursor.copy(statement) as sink:
        for part in parts:
            sink.write(part)


def _psycopg_async(
    connection: Connection, table: Table, columns: Sequence[str], parts: Iterable[bytes]
) -> None:
    statement = _statement(connection, table, columns)

    async def send(driver: Any) -> None:
        async with driver.cursor() as cursor, cursor.copy(statement) as sink:
            for part in parts:
                await sink.write(part)

    adapted: Any = connection.connection.dbapi_connection
    adapted.run_async(send)


def _asyncpg(
    connection: Connection, table: Table, columns: Sequence[str], parts: Iterable[bytes]
) -> None:
    async def source() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    async def send(driver: Any) -> None:
        await driver.copy_to_table(
            table.name,
            schema_name=table.schema,
            columns=columns,
            source=source(),
            encoding="utf8",
        )

    adapted: Any = connection.connection.dbapi_connection
    try:
        adapted.run_async(send)
    except Exception as error:
        # asyncpg has no errors of the DBAPI; its adapter has one for each of asyncpg's.
        adapted._handle_exception(error)


_SENDS: dict[tuple[str, bool], _Send] = {
    ("psycopg", False): _psycopg,
    ("psycopg", True): _psycopg_async,
    ("asyncpg", True): _asyncpg,
}
