"""Transactions of apps on PostgreSQL: from the pool, READ COMMITTED."""

import asyncio

import asyncpg
import pytest

from holdfast.jobs.exceptions import ContextError
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import StoreClosed, StoreUnavailable
from holdfast.store.joining import NoTransaction
from holdfast.store.postgres.store import PostgresStore


def test_a_transaction_is_read_committed_without_the_stores_planner_settings(play):
    async def scenario(store):
        async with store.database.transaction() as tx:
            assert await tx.fetch("SHOW transaction_isolation") == [("read committed",)]
            assert await tx.fetch("SHOW enable_seqscan") == [("on",)]
        assert await store.database.fetch("SHOW enable_seqscan") == [("on",)]

    play(scenario)


def test_a_connection_is_used_again_after_an_error_in_the_block(play):
    async def scenario(store):
        async def session(*, fails):
            async with store.database.transaction() as tx:
                ((pid,),) = await tx.fetch("SELECT pg_backend_pid()")
                if fails:
                    pids.append(pid)
                    await tx.fetch("SELECT 1 / :zero::int", {"zero": 0})
            return pid

        pids = []
        with pytest.raises(Exception, match="division by zero"):
            await session(fails=True)
        assert [await session(fails=False)] == pids

    play(scenario)


def test_a_session_setting_of_one_block_is_gone_in_the_next(play):
    async def scenario(store):
        async with store.database.transaction() as tx:
            await tx.fetch("SELECT set_config('work_mem', '1234kB', false)")
        async with store.database.transaction() as tx:
            assert await tx.fetch("SHOW work_mem") != [("1234kB",)]

    play(scenario)


def test_a_block_that_ends_its_transaction_is_refused(play):
    async def scenario(store):
        with pytest.raises(ContextError, match="was ended inside"):
            async with store.database.transaction() as tx:
                await tx.connection.execute("ROLLBACK")

    play(scenario)


async def one(tx):
    await tx.fetch("SELECT 1")


async def many(tx):
    await tx.execute_many("SELECT 1", [{}])


@pytest.mark.parametrize("run", [one, many])
def test_no_statement_runs_after_the_end_of_the_transaction(play, run):
    """It would be committed by itself."""

    async def scenario(store):
        async with store.database.transaction() as tx:
            await tx.connection.execute("ROLLBACK")
            with pytest.raises(ContextError, match="was ended inside its block"):
                await run(tx)
            await tx.connection.execute("BEGIN")
            await run(tx)

    play(scenario)


def test_a_commit_after_nested_comments_is_refused(play):
    async def scenario(store):
        async with store.database.transaction() as tx:
            with pytest.raises(ContextError, match="COMMIT is refused"):
                await tx.fetch("/* a /* b */ c */ COMMIT")
            assert tx.connection.is_in_transaction()

    play(scenario)


def test_a_connection_that_is_never_returned_is_waited_for_only_so_long(play):
    async def scenario(store):
        async with store.database.transaction():
            with pytest.raises(StoreUnavailable, match="no answer in time"):
                async with store.database.transaction():
                    pass

    play(scenario, connections=1, timeout=0.5)


async def by_driver(tx):
    await tx.connection.fetch("SELECT 1")


@pytest.mark.parametrize("use", [one, by_driver])
def test_a_connection_that_is_cut_inside_the_block_is_an_outage(play, use):
    async def scenario(store):
        async def cut():
            async with store.database.transaction() as tx:
                ((pid,),) = await tx.fetch("SELECT pg_backend_pid()")
                async with store.database.transaction() as other:
                    await other.fetch("SELECT pg_terminate_backend(:pid)", {"pid": pid})
                await use(tx)

        with pytest.raises(StoreUnavailable):
            await cut()
        async with store.database.transaction() as tx:
            assert await tx.fetch("SELECT 1") == [(1,)]

    play(scenario)


def test_what_fails_after_the_commit_is_only_logged(play, monkeypatch, caplog):
    async def scenario(store):
        async def away(*_, **__):
            raise StoreUnavailable("away")

        monkeypatch.setattr(store._counters, "wrote", away)
        async with store.database.transaction() as tx:
            await store.enqueue_on(tx.connection, [NewJob("job", "work")])
        assert await store.get("job") is not None
        assert "after a transaction of an app was committed: away" in caplog.text

    play(scenario)


def test_a_connection_without_a_transaction_cannot_be_joined(play, bench):
    async def scenario(store):
        connection = await asyncpg.connect(bench.url)
        with pytest.raises(NoTransaction):
            store.database.joined(connection)
        await connection.close()

    play(scenario)


def test_a_closed_store_has_no_database(bench):
    async def scenario():
        store = PostgresStore(bench.url)
        async with store:
            await store.database.fetch("SELECT 1")
        with pytest.raises(StoreClosed):
            await store.database.fetch("SELECT 1")
        with pytest.raises(StoreClosed):
            async with store.database.transaction():
                pass

    asyncio.run(scenario())
