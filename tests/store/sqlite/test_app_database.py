"""Transactions of apps on SQLite: they take turns, are bounded in time, and leave the loop free."""

import asyncio

import apsw
import pytest
from tests.support.waiting import until

from holdfast.jobs.exceptions import ContextError
from holdfast.jobs.model import Completed, Finished, NewJob
from holdfast.jobs.store_port import ClaimRequest, StoreClosed
from holdfast.jobs.store_values import TransactionTooLong
from holdfast.store.joining import NoTransaction
from holdfast.store.sqlite import app_database
from holdfast.store.sqlite.connection import connect, disconnect
from holdfast.store.sqlite.store import SQLiteStore

SLOW = """
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :most)
SELECT count(*) FROM n
"""
FOREVER = {"most": 10**12}
ADD_ONE: tuple[str, dict[str, int]] = ("INSERT INTO notes VALUES (1)", {})


@pytest.fixture
def play(tmp_path):
    """Run a scenario on a store with the table `notes`."""

    def run(scenario):
        async def main():
            async with SQLiteStore(tmp_path / "work.db") as store:
                async with store.database.transaction() as tx:
                    await tx.fetch("CREATE TABLE notes (id INTEGER PRIMARY KEY)")
                await scenario(store)

        asyncio.run(main())

    return run


@pytest.fixture
def _short(monkeypatch):
    monkeypatch.setattr(app_database, "SECONDS", 0.2)


async def run_block(store, *statements, then=None):
    """Run statements, each with its parameters, in one transaction."""
    async with store.database.transaction() as tx:
        for sql, parameters in statements:
            await tx.fetch(sql, parameters)
        if then is not None:
            await then


async def count(store):
    ((number,),) = await store.database.fetch("SELECT count(*) FROM notes")
    return number


@pytest.mark.usefixtures("_short")
def test_a_block_that_takes_too_long_is_rolled_back_and_says_what_to_do(play):
    async def scenario(store):
        # It waits for the writer, which waits for the end of the block.
        deadlock = store.enqueue([NewJob("one", "work")])
        with pytest.raises(TransactionTooLong, match=r"0\.2 s.*enqueue with connection="):
            await run_block(store, ADD_ONE, then=deadlock)
        assert await count(store) == 0
        assert await store.get("one") is not None

    play(scenario)


@pytest.mark.usefixtures("_short")
def test_a_statement_that_runs_when_the_time_is_over_is_interrupted(play):
    async def scenario(store):
        with pytest.raises(TransactionTooLong):
            await run_block(store, ADD_ONE, (SLOW, FOREVER))
        assert await count(store) == 0
        await run_block(store, ADD_ONE)
        assert await count(store) == 1

    play(scenario)


def test_a_cancelled_statement_is_interrupted_and_rolled_back(play):
    async def scenario(store):
        began = asyncio.Event()

        async def work():
            async with store.database.transaction() as tx:
                await tx.fetch("INSERT INTO notes VALUES (1)")
                began.set()
                await tx.fetch(SLOW, FOREVER)

        task = asyncio.create_task(work())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await count(store) == 0

    play(scenario)


def test_the_event_loop_goes_on_while_statements_run(play):
    async def scenario(store):
        turns = 0

        async def count_turns():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async def slow_write():
            async with store.database.transaction() as tx:
                await tx.fetch(SLOW, {"most": 200_000})

        task = asyncio.create_task(count_turns())
        for work in (lambda: store.database.fetch(SLOW, {"most": 200_000}), slow_write):
            before = turns
            await work()
            assert turns > before + 10
        task.cancel()

    play(scenario)


def test_a_transaction_waits_for_its_turn_and_can_be_cancelled_meanwhile(play):
    async def scenario(store):
        async def second():
            async with store.database.transaction() as tx:
                await tx.fetch("INSERT INTO notes VALUES (2)")

        async with store.database.transaction() as tx:
            await tx.fetch("INSERT INTO notes VALUES (1)")
            waiting, cancelled = asyncio.create_task(second()), asyncio.create_task(second())
            await until(lambda: store._writer._requests.qsize() == 2)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
        await waiting
        assert await count(store) == 2

    play(scenario)


ENDS = ["COMMIT", "ROLLBACK", "ROLLBACK; BEGIN", "SELECT ';'; /* ; */ ROLLBACK; BEGIN"]


@pytest.mark.parametrize("end", ENDS)
def test_a_block_that_ends_its_transaction_is_refused_and_changes_nothing(play, end):
    async def scenario(store):
        with pytest.raises(ContextError, match="SAVEPOINT"):
            await run_block(store, ADD_ONE, (end, {}))
        assert await count(store) == 0

    play(scenario)


@pytest.mark.parametrize("end", ENDS)
def test_a_connection_that_ends_its_transaction_is_found_out_at_the_end(play, end):
    """No statement of it is checked; what it has begun by itself is not committed."""

    async def ended(store):
        async with store.database.transaction() as tx:
            tx.connection.execute(end).fetchall()
            tx.connection.execute(*ADD_ONE)

    async def scenario(store):
        with pytest.raises(ContextError, match="was ended inside"):
            await ended(store)
        assert await count(store) == 0

    play(scenario)


def test_a_connection_is_kept_for_the_next_transaction_and_closed_with_the_store(tmp_path):
    async def scenario():
        store, seen = SQLiteStore(tmp_path / "work.db"), []
        async with store:
            for _ in range(3):
                async with store.database.transaction() as tx:
                    seen.append(tx.connection)
        assert len(set(seen)) == 1
        assert [path.name for path in tmp_path.iterdir()] == ["work.db"]

    asyncio.run(scenario())


async def begun(store, job_id):
    """Begin the transaction of an attempt, as a handler that gets statements only."""
    await store.enqueue([NewJob(job_id, "work")])
    (claim,) = (await store.tick("w", (), ClaimRequest(1, ("default",), {"work": None}))).claims
    transaction = store.transaction(claim.lease, store.database)
    return transaction, await transaction.begin(), Finished(claim.lease, Completed())


def test_handlers_with_statements_use_one_connection_after_the_other(tmp_path):
    async def scenario():
        store, seen = SQLiteStore(tmp_path / "work.db"), []
        async with store:
            for name in "abc":
                transaction, _, finished = await begun(store, name)
                seen.append(transaction._connection)
                await transaction.complete(finished)
                await transaction.rollback()
        assert len(set(seen)) == 1
        assert [path.name for path in tmp_path.iterdir()] == ["work.db"]

    asyncio.run(scenario())


def test_the_connection_of_a_transaction_that_was_rolled_back_is_not_used_again(play):
    async def scenario(store):
        transaction, _, _ = await begun(store, "a")
        first = transaction._connection
        await transaction.rollback()
        transaction, _, finished = await begun(store, "b")
        assert transaction._connection is not first
        await transaction.complete(finished)
        await transaction.rollback()

    play(scenario)


LASTING = [
    "CREATE TABLE temp.notes (id INTEGER PRIMARY KEY)",
    "CREATE TEMP VIEW seen AS SELECT 1",
    "PRAGMA ignore_check_constraints = ON",
    "ATTACH ':memory:' AS other",
]


@pytest.mark.parametrize("sql", LASTING)
def test_a_connection_that_a_block_changed_for_good_is_not_used_again(play, sql):
    async def scenario(store):
        for _ in range(2):  # a new connection, or one that served a block before
            async with store.database.transaction() as tx:
                connection = tx.connection
            for _ in range(2):
                async with store.database.transaction() as tx:
                    connection = tx.connection
                    await tx.fetch(sql)
                with pytest.raises(apsw.ConnectionClosedError):
                    connection.execute("SELECT 1")

    play(scenario)


def test_a_cancelled_statement_that_still_runs_at_the_end_of_a_block_rolls_all_back(play):
    async def cancelled(store):
        async with store.database.transaction() as tx:
            await tx.fetch(*ADD_ONE)
            late = asyncio.create_task(tx.fetch(SLOW, FOREVER))
            await until(tx._lock.locked)
            late.cancel()
            await asyncio.wait((late,))

    async def scenario(store):
        with pytest.raises(ContextError, match="still ran"):
            await cancelled(store)
        assert await count(store) == 0

    play(scenario)


@pytest.mark.parametrize("sql", LASTING)
def test_a_connection_that_a_handler_changed_for_good_is_not_used_again(play, sql):
    async def scenario(store):
        for name in "ab":
            transaction, tx, finished = await begun(store, name)
            kept = transaction._connection
            await tx.fetch(sql)
            await transaction.complete(finished)
            await transaction.rollback()
            assert store.database.kept.take() is None
            with pytest.raises(apsw.ConnectionClosedError):
                kept.execute("SELECT 1")

    play(scenario)


@pytest.mark.parametrize(
    "sql",
    [
        "PRAGMA foreign_keys",
        "WITH more (id) AS (SELECT 7) INSERT INTO notes SELECT id FROM more WHERE true",
        "INSERT INTO words VALUES ('found')",
        "SELECT * FROM words('found')",
    ],
)
def test_a_connection_on_which_a_handler_only_read_and_wrote_is_kept(play, sql):
    async def scenario(store):
        await run_block(store, ("CREATE VIRTUAL TABLE words USING fts5 (word)", {}))
        transaction, tx, finished = await begun(store, "a")
        first = transaction._connection
        await tx.fetch(sql)
        await transaction.complete(finished)
        await transaction.rollback()
        transaction, _, _ = await begun(store, "b")
        assert transaction._connection is first
        await transaction.rollback()

    play(scenario)


def test_a_cancelled_statement_that_still_runs_at_the_end_rolls_all_back(play):
    async def scenario(store):
        transaction, tx, finished = await begun(store, "a")
        await tx.fetch("INSERT INTO notes VALUES (1)")
        late = asyncio.create_task(tx.fetch(SLOW, FOREVER))
        await until(tx._lock.locked)
        late.cancel()
        await asyncio.wait((late,))
        with pytest.raises(ContextError, match="still ran"):
            await transaction.complete(finished)
        await transaction.rollback()
        assert await count(store) == 0

    play(scenario)


def test_a_connection_that_comes_back_after_the_store_was_closed_is_closed(tmp_path):
    async def scenario():
        store = SQLiteStore(tmp_path / "work.db")
        async with store:
            transaction, _, finished = await begun(store, "a")
            await transaction.complete(finished)
        await transaction.rollback()
        assert [path.name for path in tmp_path.iterdir()] == ["work.db"]

    asyncio.run(scenario())


def test_a_connection_without_a_transaction_cannot_be_joined(play):
    async def scenario(store):
        own = connect(store.path, busy_timeout=1)
        with pytest.raises(NoTransaction):
            store.database.joined(own)
        disconnect(own)

    play(scenario)


def test_a_closed_store_has_no_database(tmp_path):
    async def scenario():
        store = SQLiteStore(tmp_path / "work.db")
        async with store:
            database = store.database
        with pytest.raises(StoreClosed):
            await database.fetch("SELECT 1")
        with pytest.raises(StoreClosed):
            async with database.transaction():
                pass

    asyncio.run(scenario())
