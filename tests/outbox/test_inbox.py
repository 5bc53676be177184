"""A request is handled once."""

import asyncio
from contextlib import contextmanager, suppress

import apsw
import asyncpg
import psycopg
import pytest

from holdfast import Engine
from holdfast.outbox import BadMessage


@contextmanager
def blocking_transaction(url):
    """Yield a connection of a driver that blocks, in a transaction that is committed."""
    if not url.startswith("sqlite"):
        with psycopg.connect(url) as connection:
            yield connection
        return
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.set_busy_timeout(60_000)
    with connection:
        yield connection
    connection.close()


def test_of_many_consumers_at_once_one_handles_a_request(database):
    async def scenario():
        async with database.engine() as engine:

            async def handle():
                async with database.transaction() as connection:
                    return await engine.inbox.first(connection, "request-1")

            if database.url.startswith("sqlite"):  # its transactions block this thread
                answers = [await handle() for _ in range(5)]
            else:
                answers = await asyncio.gather(*(handle() for _ in range(5)))
            assert sorted(answers) == [False] * 4 + [True]
            assert await engine.inbox.handled("request-1")

    asyncio.run(scenario())


def test_an_effect_that_fails_leaves_the_request_unhandled(database):
    async def scenario():
        async with database.engine() as engine:
            with suppress(ZeroDivisionError):
                async with database.transaction() as connection:
                    assert await engine.inbox.first(connection, "request-1")
                    raise ZeroDivisionError
            assert not await engine.inbox.handled("request-1")

    asyncio.run(scenario())


def test_consumers_with_different_names_handle_a_request_each(database):
    async def scenario():
        async with database.engine() as engine, database.transaction() as connection:
            for consumer in ("grading", "billing"):
                assert await engine.inbox.first(connection, "r", consumer=consumer)
                assert not await engine.inbox.first(connection, "r", consumer=consumer)

    asyncio.run(scenario())


def test_old_requests_are_forgotten_on_request(database):
    async def scenario():
        async with database.engine() as engine:
            async with database.transaction() as connection:
                for number in range(3):
                    await engine.inbox.first(connection, f"r{number}")
            assert await engine.inbox.delete_handled(3600.0) == 0
            assert await engine.inbox.delete_handled(0.0) == 3
            assert not await engine.inbox.handled("r0")

    asyncio.run(scenario())


def test_an_id_that_cannot_be_stored_is_refused(database):
    async def scenario():
        async with database.engine() as engine:
            with pytest.raises(BadMessage, match="request_id"):
                await engine.inbox.handled("")

    asyncio.run(scenario())


def test_a_blocking_engine_records_a_request_without_its_thread(database, monkeypatch):
    with database.engine().blocking() as engine:
        with monkeypatch.context() as changed:
            changed.setattr(engine.inbox, "_run", None)
            for expected in (True, False):
                with blocking_transaction(database.url) as connection:
                    assert engine.inbox.first(connection, "r1") is expected
        assert engine.inbox.handled("r1")


def test_a_blocking_engine_that_is_closed_records_no_request(database):
    with database.engine().blocking() as engine:
        pass
    with (
        blocking_transaction(database.url) as connection,
        pytest.raises(RuntimeError, match="open the blocking engine first"),
    ):
        engine.inbox.first(connection, "r1")


def test_a_blocking_engine_refuses_a_connection_to_another_database(
    postgres_server, postgres_url, postgres_template
):
    elsewhere = postgres_server.url(postgres_server.create_database(postgres_template))
    empty = postgres_server.url(postgres_server.create_database())
    with Engine(postgres_url).blocking() as engine:
        for other in (elsewhere, empty):
            with (
                psycopg.connect(other) as connection,
                pytest.raises(TypeError, match="another database"),
            ):
                engine.inbox.first(connection, "r1")


def test_a_blocking_engine_refuses_a_connection_that_must_be_awaited(postgres_url):
    async def scenario(engine):
        connection = await asyncpg.connect(postgres_url)
        async with connection.transaction():
            with pytest.raises(TypeError, match="a connection that blocks"):
                engine.inbox.first(connection, "r1")
        await connection.close()

    with Engine(postgres_url).blocking() as engine:
        asyncio.run(scenario(engine))
