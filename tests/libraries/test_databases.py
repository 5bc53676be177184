"""Errors of database drivers, made by those drivers."""

import asyncio
import functools
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import asyncpg
import psycopg
import psycopg.errors
import pytest
import sqlalchemy
import sqlalchemy.exc
from tests.support.errors import PERMANENT, TRANSIENT, look, raised, told


@pytest.mark.parametrize(
    ("kind", "category", "code"),
    [
        (asyncpg.DeadlockDetectedError, TRANSIENT, "GW_5XX"),
        (asyncpg.SerializationError, TRANSIENT, "GW_5XX"),
        (asyncpg.TooManyConnectionsError, TRANSIENT, "GW_UNAVAILABLE"),
        (asyncpg.CannotConnectNowError, TRANSIENT, "GW_UNAVAILABLE"),
        (asyncpg.ConnectionDoesNotExistError, TRANSIENT, "GW_UNAVAILABLE"),
        (asyncpg.AdminShutdownError, TRANSIENT, "GW_UNAVAILABLE"),
        (asyncpg.LockNotAvailableError, TRANSIENT, "GW_TIMEOUT"),
        (asyncpg.QueryCanceledError, TRANSIENT, "GW_TIMEOUT"),
        (asyncpg.InvalidCachedStatementError, TRANSIENT, "GW_5XX"),
        (asyncpg.UniqueViolationError, PERMANENT, "VALIDATION_ERROR"),
        (asyncpg.ForeignKeyViolationError, PERMANENT, "VALIDATION_ERROR"),
        (asyncpg.InvalidTextRepresentationError, PERMANENT, "VALIDATION_ERROR"),
        (asyncpg.UndefinedTableError, PERMANENT, "GW_4XX"),
        (asyncpg.InvalidPasswordError, PERMANENT, "GW_4XX"),
        (asyncpg.InvalidCatalogNameError, PERMANENT, "GW_4XX"),
        (asyncpg.RaiseError, PERMANENT, "VALIDATION_ERROR"),
    ],
)
def test_asyncpg_errors(kind, category, code):
    assert told(kind("connection 404")) == (category, code)


def test_a_deadlock_was_rolled_back_and_a_lost_connection_may_have_committed():
    assert look(asyncpg.DeadlockDetectedError("x")).ambiguous is False
    assert look(asyncpg.ConnectionDoesNotExistError("x")).ambiguous is True
    assert look(asyncpg.TransactionResolutionUnknownError("x")).ambiguous is True


def test_asyncpg_refused(closed_port: int):
    async def connect() -> None:
        await asyncpg.connect(host="127.0.0.1", port=closed_port, user="u", password="p")

    error = raised(lambda: asyncio.run(connect()))
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous is False


@pytest.mark.parametrize(
    ("kind", "category", "code"),
    [
        (psycopg.errors.DeadlockDetected, TRANSIENT, "GW_5XX"),
        (psycopg.errors.SerializationFailure, TRANSIENT, "GW_5XX"),
        (psycopg.errors.TooManyConnections, TRANSIENT, "GW_UNAVAILABLE"),
        (psycopg.errors.QueryCanceled, TRANSIENT, "GW_TIMEOUT"),
        (psycopg.errors.IdleInTransactionSessionTimeout, TRANSIENT, "GW_TIMEOUT"),
        (psycopg.errors.UniqueViolation, PERMANENT, "VALIDATION_ERROR"),
        (psycopg.errors.NotNullViolation, PERMANENT, "VALIDATION_ERROR"),
        (psycopg.errors.SyntaxError, PERMANENT, "GW_4XX"),
        (psycopg.errors.InFailedSqlTransaction, PERMANENT, "GW_4XX"),
        (psycopg.errors.InvalidPassword, PERMANENT, "GW_4XX"),
        (psycopg.errors.DatabaseDropped, PERMANENT, "GW_4XX"),
        (psycopg.errors.ConnectionTimeout, TRANSIENT, "GW_TIMEOUT"),
        (psycopg.OperationalError, TRANSIENT, "GW_UNAVAILABLE"),
        (psycopg.ProgrammingError, PERMANENT, "VALIDATION_ERROR"),
        (psycopg.InternalError, TRANSIENT, "GW_5XX"),
    ],
)
def test_psycopg_errors(kind, category, code):
    assert told(kind("connection 404")) == (category, code)


def test_psycopg_refused(closed_port: int):
    target = f"host=127.0.0.1 port={closed_port} user=u dbname=d"
    error = raised(lambda: psycopg.connect(target, connect_timeout=2))
    assert isinstance(error, psycopg.OperationalError)
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous is False


def test_psycopg_connection_lost_in_the_middle_may_have_committed():
    error = psycopg.OperationalError("server closed the connection unexpectedly")
    assert look(error).ambiguous is True


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = str(tmp_path / "work.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()
    return path


@contextmanager
def locked(path: str) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        yield


INSERT = "INSERT INTO t VALUES (1)"


def test_sqlite_locked_is_transient(database: str):
    with locked(database), closing(sqlite3.connect(database, timeout=0)) as connection:
        error = raised(lambda: connection.execute(INSERT))
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")
    assert look(error).ambiguous is False


def test_sqlite_mistakes_are_permanent(database: str, tmp_path: Path):
    (tmp_path / "garbage").write_bytes(b"no database at all " * 100)
    with (
        closing(sqlite3.connect(database)) as good,
        closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as read_only,
        closing(sqlite3.connect(tmp_path / "garbage")) as garbage,
    ):
        for action, code in (
            (lambda: good.execute(INSERT), "VALIDATION_ERROR"),
            (lambda: good.execute("SELECT * FROM none"), "VALIDATION_ERROR"),
            (lambda: good.execute("INSERT INTO t VALUES ('x')"), "VALIDATION_ERROR"),
            (lambda: good.execute("SELECT ?", (1, 2)), "VALIDATION_ERROR"),
            (lambda: read_only.execute("DELETE FROM t"), "IO_ERROR"),
            (lambda: garbage.execute("SELECT * FROM t"), "IO_ERROR"),
        ):
            assert told(raised(action)) == (PERMANENT, code)


def test_sqlite_that_cannot_open_its_file_is_tried_again(tmp_path: Path):
    error = raised(lambda: sqlite3.connect(tmp_path / "none" / "work.db"))
    assert told(error) == (TRANSIENT, "IO_ERROR")


def test_apsw_errors(database: str):
    with closing(apsw.Connection(database)) as connection:
        for statement in (INSERT, "SELECT * FROM none"):
            error = raised(functools.partial(connection.execute, statement))
            assert told(error) == (PERMANENT, "VALIDATION_ERROR")
        with closing(apsw.Connection(database)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            error = raised(functools.partial(connection.execute, INSERT))
    assert isinstance(error, apsw.BusyError)
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")


def test_sqlalchemy_wraps_the_drivers_error(database: str):
    engine = sqlalchemy.create_engine(f"sqlite:///{database}", connect_args={"timeout": 0})

    def run(statement: str) -> None:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(statement))

    unique = raised(lambda: run(INSERT))
    missing = raised(lambda: run("SELECT * FROM none"))
    with locked(database):
        busy = raised(lambda: run(INSERT))
    engine.dispose()
    assert isinstance(unique, sqlalchemy.exc.IntegrityError)
    assert told(unique) == (PERMANENT, "VALIDATION_ERROR")
    assert isinstance(missing, sqlalchemy.exc.OperationalError)
    assert told(missing) == (PERMANENT, "VALIDATION_ERROR")
    assert isinstance(busy, sqlalchemy.exc.OperationalError)
    assert told(busy) == (TRANSIENT, "GW_TIMEOUT")
    assert look(busy).ambiguous is False


def test_sqlalchemy_without_a_cause_is_read_by_its_original_error():
    deadlock = psycopg.errors.DeadlockDetected("x")
    error = sqlalchemy.exc.DBAPIError("SELECT", {}, deadlock)
    assert told(error) == (TRANSIENT, "GW_5XX")


def test_sqlalchemy_pool_that_is_used_up_has_sent_nothing():
    error = sqlalchemy.exc.TimeoutError("QueuePool limit")
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")
    assert look(error).ambiguous is False
