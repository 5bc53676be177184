"""Adding messages in the caller's own transaction, and looking after failed ones."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import apsw
import asyncpg
import psycopg
import pytest
from pydantic import BaseModel
from tests.store.test_joining import DRIVERS
from tests.support.publishers import ScriptedPublisher

from holdfast.bootstrap import Engine
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.outbox import (
    BadMessage,
    MessageNotFailed,
    MessageRefused,
    MessageStatus,
    RelayOptions,
    UnknownMessage,
)
from holdfast.outbox.client import PAYLOAD_LIMIT


class Undo(Exception):
    """Raised to leave a transaction without committing it."""


@dataclass
class Placed:
    order: int


class Model(BaseModel):
    order: int


async def published(engine, options=None):
    """Return what a relay publishes until the outbox is empty."""
    publisher = ScriptedPublisher()
    await engine.relay(publisher, options).run(until_idle=True)
    return publisher.taken


@pytest.mark.parametrize("begin", DRIVERS)
def test_a_message_is_committed_with_the_rows_of_every_driver(postgres_url, begin):
    async def scenario():
        async with Engine(postgres_url) as engine:
            async with begin(postgres_url) as connection:
                added = await engine.outbox.add(connection, "order-7", "order.placed", {"n": 7})
                assert await engine.outbox.get(added) is None
            (message,) = await published(engine)
            assert (message.id, message.aggregate_id) == (added, "order-7")
            assert (message.message_type, message.payload) == ("order.placed", '{"n":7}')

    asyncio.run(scenario())


@pytest.mark.parametrize("begin", DRIVERS)
def test_messages_of_aggregates_are_erased_in_the_transaction_of_every_driver(postgres_url, begin):
    async def scenario():
        async with Engine(postgres_url) as engine:
            async with begin(postgres_url) as connection:
                for order in ("order-7", "order-8", "order-9"):
                    await engine.outbox.add(connection, order, "order.placed", {})
            with suppress(Undo):
                async with begin(postgres_url) as connection:
                    assert await engine.outbox.erase(connection, ["order-7", "order-9", "x"]) == 2
                    raise Undo
            assert len((await engine.outbox.list()).messages) == 3
            async with begin(postgres_url) as connection:
                await engine.outbox.erase(connection, ["order-7", "order-9"])
            return [each.aggregate_id for each in (await engine.outbox.list()).messages]

    assert asyncio.run(scenario()) == ["order-8"]


def test_a_transaction_that_is_rolled_back_publishes_nothing(database):
    async def scenario():
        async with database.engine() as engine:
            with suppress(Undo):
                async with database.transaction() as connection:
                    await engine.outbox.add(connection, "order-7", "order.placed", None)
                    raise Undo
            assert await published(engine) == []
            assert (await engine.outbox.list()).messages == ()

    asyncio.run(scenario())


def test_a_handler_adds_messages_in_the_transaction_of_its_job(database):
    app, engines = App("orders"), []

    @app.job()
    async def place(ctx: JobContext, args: int) -> None:
        async with ctx.transaction() as connection:
            await engines[0].outbox.add(connection, str(args), "order.placed", args)

    async def scenario():
        async with database.engine([app]) as engine:
            engines.append(engine)
            await engine.enqueue(place, 7)
            await engine.work(until_idle=True)
            (message,) = await published(engine)
            assert message.aggregate_id == "7"

    asyncio.run(scenario())


def test_several_messages_are_added_at_once_in_their_order(database):
    async def scenario():
        async with database.engine() as engine:
            async with database.transaction() as connection:
                new = [(f"order-{n}", "order.placed", n) for n in range(5)]
                added = await engine.outbox.add_many(connection, new)
                assert await engine.outbox.add_many(connection, []) == ()
            assert [message.id for message in await published(engine)] == list(added)

    asyncio.run(scenario())


@pytest.mark.parametrize("payload", [{"order": 7}, Placed(7), Model(order=7)])
def test_a_payload_is_any_json(tmp_path, payload):
    async def scenario():
        path = f"{tmp_path}/work.db"
        async with Engine(f"sqlite:///{path}") as engine:
            with apsw.Connection(path) as connection:
                added = await engine.outbox.add(connection, "a", "b", payload)
            assert (await engine.outbox.get(added)).payload == '{"order":7}'

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("aggregate", "kind", "payload", "problem"),
    [
        ("", "b", 1, "aggregate_id must be a text of 1 to 200"),
        (7, "b", 1, "aggregate_id must be a text"),
        ("a", "b" * 201, 1, "message_type must be a text of 1 to 200"),
        ("a\0", "b", 1, "cannot be stored"),
        ("a", "b", object(), "a object cannot be sent"),
        ("a", "b", "\ud800", "not JSON"),
        ("a", "b", "x" * PAYLOAD_LIMIT, "store large data elsewhere"),
    ],
)
def test_a_message_that_cannot_be_stored_is_refused(tmp_path, aggregate, kind, payload, problem):
    async def scenario():
        path = f"{tmp_path}/work.db"
        async with Engine(f"sqlite:///{path}") as engine:
            with apsw.Connection(path) as connection, pytest.raises(BadMessage, match=problem):
                await engine.outbox.add(connection, aggregate, kind, payload)

    asyncio.run(scenario())


def test_a_connection_without_a_transaction_is_refused(database):
    async def scenario():
        async with database.engine() as engine, database.transaction() as connection:
            if isinstance(connection, apsw.Connection):
                other = apsw.Connection(connection.filename)
            else:
                other = await asyncpg.connect(database.url)
            with pytest.raises(ValueError, match="no open transaction"):
                await engine.outbox.add(other, "a", "b", None)
            closing = other.close()
            if closing is not None:
                await closing

    asyncio.run(scenario())


def test_a_connection_to_another_database_is_refused(postgres_server, postgres_url):
    async def scenario():
        elsewhere = postgres_server.url(postgres_server.create_database())
        connection = await asyncpg.connect(elsewhere)
        async with Engine(postgres_url) as engine, Engine(postgres_url) as second:
            async with connection.transaction():
                with pytest.raises(TypeError, match="another database"):
                    await engine.inbox.first(connection, "r")
            own = await asyncpg.connect(postgres_url)
            async with own.transaction():
                await second.outbox.add(own, "a", "b", None)
            await own.close()
        await connection.close()

    asyncio.run(scenario())


def test_a_copy_of_the_database_is_another_one(postgres_server, postgres_url, postgres_template):
    async def scenario():
        elsewhere = postgres_server.url(postgres_server.create_database(postgres_template))
        connection = await asyncpg.connect(elsewhere)
        async with Engine(postgres_url) as engine, connection.transaction():
            with pytest.raises(TypeError, match="another database"):
                await engine.outbox.add(connection, "a", "b", None)
            assert await connection.fetchval("SELECT count(*) FROM holdfast.outbox") == 0
        await connection.close()

    asyncio.run(scenario())


def test_a_blocking_engine_adds_with_a_connection_of_the_calling_thread(postgres_url):
    with Engine(postgres_url).blocking() as engine:
        with psycopg.connect(postgres_url) as connection:
            added = engine.outbox.add(connection, "a", "b", {"n": 1})
            assert engine.inbox.first(connection, "r1")
        assert engine.outbox.get(added).status is MessageStatus.PENDING
        assert [message.id for message in engine.outbox.list().messages] == [added]
        assert engine.outbox.backlog().pending == 1
        assert engine.inbox.handled("r1")


def test_a_failed_message_is_requeued_or_discarded(database):
    def refuse(message):
        raise MessageRefused("no queue")

    async def scenario():
        async with database.engine() as engine:
            one, two = await database.add(engine, "a", "b")
            relay = engine.relay(ScriptedPublisher(refuse), RelayOptions(max_attempts=1))
            await relay.run(until_idle=True)
            failed = (await engine.outbox.list(MessageStatus.FAILED)).messages
            assert {message.id for message in failed} == {one, two}
            again = await engine.outbox.requeue(one)
            assert (again.status, again.retry_count) == (MessageStatus.PENDING, 0)
            with pytest.raises(MessageNotFailed, match="is pending, not failed"):
                await engine.outbox.requeue(one)
            with pytest.raises(MessageNotFailed):
                await engine.outbox.discard(one)
            assert (await engine.outbox.discard(two)).id == two
            for unknown in (two, "odd\0id"):
                with pytest.raises(UnknownMessage):
                    await engine.outbox.discard(unknown)
            assert [message.id for message in await published(engine)] == [one]

    asyncio.run(scenario())
