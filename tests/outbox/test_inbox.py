"""A request is handled once."""

import asyncio
from contextlib import suppress

import pytest

from holdfast.outbox import BadMessage


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
