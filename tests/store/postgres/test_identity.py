"""A caller's connection must be one to the store's own database."""

import asyncio
import secrets
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pytest

from holdfast.jobs.model import NewJob
from holdfast.outbox.model import NewMessage
from holdfast.store.joining import join
from holdfast.store.postgres.connection import Database, describe
from holdfast.store.postgres.identity import Identity
from holdfast.store.postgres.store import PostgresStore


@pytest.fixture
def twin_url(postgres_server, postgres_template):
    """A second database with the same schema."""
    name = postgres_server.create_database(postgres_template)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
def bare_url(postgres_server):
    """A second database without our schema."""
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


def refused(url):
    return pytest.raises(TypeError, match=f"another database than {describe(url)}")


@pytest.mark.parametrize("other", ["twin_url", "bare_url"])
def test_another_database_is_refused_and_the_transaction_goes_on(play, bench, other, request):
    url = request.getfixturevalue(other)

    async def scenario(store):
        connection = await asyncpg.connect(url)
        async with connection.transaction():
            await connection.execute("CREATE TABLE orders (id int)")
            with refused(bench.url):
                await store.enqueue_on(connection, [NewJob("a", "work")])
        assert await connection.fetchval("SELECT count(*) FROM orders") == 0
        await connection.close()

    play(scenario)


def test_nothing_is_left_in_the_other_database(play, bench, twin_url):
    async def scenario(store):
        with psycopg.connect(twin_url) as connection:
            with refused(bench.url):
                await store.enqueue_on(connection, [NewJob("a", "work")])
            connection.commit()
        async with PostgresStore(twin_url) as other:
            assert (await other.list_jobs()).jobs == ()
        assert (await store.list_jobs()).jobs == ()

    play(scenario)


def test_a_refusal_does_not_make_the_right_connection_wrong(play, bench, twin_url):
    async def scenario(store):
        for number in range(2):
            with psycopg.connect(twin_url) as connection, refused(bench.url):
                await store.enqueue_on(connection, [NewJob("a", "work")])
            with psycopg.connect(bench.url) as connection:
                await store.enqueue_on(connection, [NewJob(f"b{number}", "work")])
        assert {job.id for job in (await store.list_jobs()).jobs} == {"b0", "b1"}

    play(scenario)


def test_our_own_side_is_asked_once(bench):
    async def scenario():
        database = Database(bench.url, connections=1, timeout=30)
        await database.open()
        identity = Identity(database)
        with psycopg.connect(bench.url) as connection:
            await identity.check(join(connection))
            # From here on, reading our own side again would fail.
            await database.close()
            await identity.check(join(connection))

    asyncio.run(scenario())


def test_an_account_without_any_rights_may_be_asked(bench):
    async def scenario():
        database = Database(bench.url, connections=1, timeout=30)
        await database.open()
        connection = await asyncpg.connect(bench.url)
        transaction = connection.transaction()
        await transaction.start()
        role = f"plain_{secrets.token_hex(8)}"
        await connection.execute(f"CREATE ROLE {role}")
        await connection.execute(f"SET LOCAL ROLE {role}")
        await Identity(database).check(join(connection))
        assert await connection.fetchval("SELECT current_user") == role
        await transaction.rollback()
        await connection.close()
        await database.close()

    asyncio.run(scenario())


def test_a_reopened_store_still_knows_its_database(bench):
    async def scenario():
        store = PostgresStore(bench.url)
        for name in ("a", "b"):
            async with store:
                with psycopg.connect(bench.url) as connection:
                    await store.enqueue_on(connection, [NewJob(name, "work")])
                assert await store.get(name) is not None

    asyncio.run(scenario())


@pytest.fixture
def restricted(postgres_server, postgres_template):
    """The URL of a database for an account without a right to pg_control_system()."""
    name = postgres_server.create_database(postgres_template)
    owner, role = postgres_server.url(name), f"restricted_{secrets.token_hex(8)}"

    async def revoke():
        connection = await asyncpg.connect(owner)
        await connection.execute(
            f"""
            REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC;
            CREATE ROLE {role} LOGIN PASSWORD 'of-a-test';
            GRANT USAGE ON SCHEMA holdfast TO {role};
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA holdfast TO {role};
            GRANT USAGE ON ALL SEQUENCES IN SCHEMA holdfast TO {role};
            """
        )
        await connection.close()

    asyncio.run(revoke())
    parts = urlsplit(owner)
    host = parts.netloc.rpartition("@")[2]
    yield urlunsplit(parts._replace(netloc=f"{role}:of-a-test@{host}"))
    postgres_server.drop_database(name)
    postgres_server.execute(f"DROP ROLE {role}")


def test_without_a_right_to_the_system_identifier_the_servers_start_is_compared(
    restricted, twin_url, caplog
):
    message = NewMessage("m", "order-1", "ordered", "{}")

    async def scenario():
        store = PostgresStore(restricted)
        for name in ("a", "b"):
            async with store:
                with psycopg.connect(restricted) as connection:
                    await store.enqueue_on(connection, [NewJob(name, "work")])
                    await store.outbox.add_on(connection, [message, replace(message, id=name)])
                    assert await store.outbox.first_on(connection, "consumer", name)
                    connection.rollback()
                with psycopg.connect(twin_url) as connection, refused(restricted):
                    await store.enqueue_on(connection, [NewJob(name, "work")])
                with psycopg.connect(twin_url) as connection, refused(restricted):
                    await store.outbox.first_on(connection, "consumer", name)

    asyncio.run(scenario())
    warnings = [
        record.message for record in caplog.records if "pg_control_system" in record.message
    ]
    assert len(warnings) == 1
    assert describe(restricted) in warnings[0]
