"""Sources of connections: what is taken, and what is refused with a reason."""

import asyncio
import sqlite3
from contextlib import closing

import asyncpg
import psycopg
import pytest
import sqlalchemy
import sqlalchemy.ext.asyncio

from holdfast import RetryService, StopReason
from holdfast.providers import with_database_transaction, with_database_transaction_sync
from holdfast.testing import VirtualClock


def run_sync(source):
    service = RetryService(clock=VirtualClock())
    return with_database_transaction_sync(source, lambda _: "done", "work", service=service)


def run_async(source):
    async def work(connection):
        return "done"

    service = RetryService(clock=VirtualClock())
    return asyncio.run(with_database_transaction(source, work, "work", service=service))


def test_a_single_connection_is_no_source():
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(TypeError, match="a pool, an engine or a function"),
    ):
        run_sync(connection)


@pytest.mark.parametrize("source", [None, "sqlite:///work.db", 7])
def test_what_opens_no_connections_is_no_source(source):
    with pytest.raises(TypeError, match="must be a pool, an engine or a function"):
        run_sync(source)


def test_a_source_must_return_a_connection():
    for result in (run_sync(lambda: "nothing"), run_async(lambda: "nothing")):
        assert result.attempts == 1
        assert "got builtins.str" in str(result.error)
        assert isinstance(result.error, TypeError)


def test_a_coroutine_is_for_the_asynchronous_form():
    async def connect():
        raise AssertionError("it is not awaited")

    result = run_sync(connect)
    assert isinstance(result.error, TypeError)


def test_a_driver_that_blocks_is_for_the_blocking_form():
    with closing(sqlite3.connect(":memory:")) as connection:
        result = run_async(lambda: connection)
    assert "use with_database_transaction_sync for a sqlite3.Connection" in str(result.error)


def test_an_asynchronous_driver_is_for_the_asynchronous_form():
    engine = sqlalchemy.ext.asyncio.create_async_engine("sqlite+aiosqlite://")
    result = run_sync(engine)
    assert "use with_database_transaction for a sqlalchemy" in str(result.error)


def test_a_connection_with_an_open_transaction_is_refused_and_left_alone():
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("BEGIN")
        result = run_sync(lambda: connection)
        assert (result.stop_reason, result.attempts) == (StopReason.PERMANENT, 1)
        assert "open transaction" in str(result.error)
        assert connection.in_transaction


def test_an_engine_that_begins_by_itself_is_refused():
    engine = sqlalchemy.create_engine("sqlite://")
    result = run_sync(engine.begin)
    assert "open transaction" in str(result.error)
    engine.dispose()


def test_open_transactions_of_servers_drivers_are_refused(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("SELECT 1")
        assert "open transaction" in str(run_sync(lambda: connection).error)

    async def work(connection):
        return "done"

    async def scenario():
        service = RetryService(clock=VirtualClock())
        errors = []
        connection = await asyncpg.connect(postgres_url)
        async with connection.transaction():
            result = await with_database_transaction(
                lambda: connection, work, "work", service=service
            )
            errors.append(result.error)
        await connection.close()
        engine = sqlalchemy.ext.asyncio.create_async_engine(
            postgres_url.replace("postgresql://", "postgresql+asyncpg://")
        )
        async with engine.connect() as begun:
            await begun.begin()
            result = await with_database_transaction(lambda: begun, work, "work", service=service)
            errors.append(result.error)
        await engine.dispose()
        return errors

    for error in asyncio.run(scenario()):
        assert "open transaction" in str(error)


def test_a_connection_that_cannot_be_closed_does_not_undo_a_commit(tmp_path):
    class Unclosable(sqlite3.Connection):
        def close(self):
            super().close()
            raise sqlite3.OperationalError("cannot close")

    path = tmp_path / "work.db"
    result = run_sync(lambda: sqlite3.connect(path, factory=Unclosable))
    assert result.value == "done"


def test_a_source_that_cannot_connect_is_tried_again(tmp_path):
    calls = []

    def connect():
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionRefusedError("refused")
        return sqlite3.connect(tmp_path / "work.db")

    assert run_sync(connect).attempts == 2


def test_an_asynchronous_source_that_cannot_connect_is_tried_again(postgres_url):
    calls = []

    async def connect():
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionRefusedError("refused")
        return await asyncpg.connect(postgres_url)

    assert run_async(connect).attempts == 2
