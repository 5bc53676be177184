"""At most one attempt of a transaction commits, whatever becomes of the others."""

import asyncio
import sqlite3
import threading
from contextlib import suppress
from dataclasses import replace

import asyncpg
import psycopg
import pytest
from tests.support.databases import create, rows
from tests.support.waiting import until_sync

from holdfast import AttemptTimeout, Category, RetryService, StopReason, presets
from holdfast.providers import (
    CommitUnknown,
    transaction_attempts,
    with_database_transaction,
    with_database_transaction_sync,
)
from holdfast.providers.transaction_attempts import BlockingAttempts, GivenUpAttempt
from holdfast.testing import VirtualClock

QUICK = replace(presets.DATABASE, backoff=replace(presets.DATABASE.backoff, base=0.01))
SHORT = replace(QUICK, attempt_timeout=0.5)
NAME = "db:transaction:work"


@pytest.fixture
def path(tmp_path):
    place = str(tmp_path / "things.db")
    create(place)
    return place


@pytest.fixture
def database(postgres_url):
    create(postgres_url)
    return postgres_url


def insert(connection, number):
    connection.execute(f"INSERT INTO things VALUES ({number}, 0)")


def on_commit(database, statement):
    """Run `statement` on the server whenever a transaction that inserts a thing commits."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN {statement}; RETURN NULL; END $$"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON things DEFERRABLE INITIALLY "
            "DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit()"
        )


class BlockedCommit(sqlite3.Connection):
    """Waits in COMMIT until the test releases it, the first time."""

    entered = threading.Event()
    released = threading.Event()
    error = None

    def commit(self):
        first = not type(self).entered.is_set()
        type(self).entered.set()
        if first:
            assert type(self).released.wait(60)
            if self.error is not None:
                raise self.error
        super().commit()


@pytest.fixture
def blocked():
    """A class of connections whose first commit waits."""
    return type(
        "Blocked",
        (BlockedCommit,),
        {"entered": threading.Event(), "released": threading.Event()},
    )


# -- attempts that are given up before they commit ----------------------------------------------


@pytest.mark.parametrize("driver", ["sqlite3", "psycopg"])
def test_a_blocking_attempt_that_was_given_up_never_commits(driver, path, request):
    released, service, attempts = threading.Event(), RetryService(), []
    where = path if driver == "sqlite3" else request.getfixturevalue("database")

    def work(connection):
        attempts.append(threading.current_thread())
        if len(attempts) == 1:
            insert(connection, 1)
            released.wait(60)
            return "first"
        insert(connection, 2)
        return "second"

    def connect():
        if attempts:
            released.set()  # the first attempt goes on while the second one works
        return sqlite3.connect(where) if driver == "sqlite3" else psycopg.connect(where)

    result = with_database_transaction_sync(connect, work, "work", service=service, policy=SHORT)
    assert result.value == "second"
    assert isinstance(result.history[0].error, AttemptTimeout)
    until_sync(lambda: service.metrics(NAME).abandoned_threads == 0)
    assert rows(where) == [2]


def test_after_a_call_has_failed_none_of_its_attempts_commits(path):
    released, service = threading.Event(), RetryService()

    def work(connection):
        insert(connection, 1)
        released.wait(60)

    policy = replace(SHORT, max_attempts=1)
    result = with_database_transaction_sync(
        lambda: sqlite3.connect(path), work, "work", service=service, policy=policy
    )
    assert result.stop_reason is StopReason.ATTEMPTS
    released.set()
    until_sync(lambda: service.metrics(NAME).abandoned_threads == 0)
    assert rows(path) == []


def test_an_interrupted_caller_leaves_no_attempt_that_commits(path):
    inserted, released = threading.Event(), threading.Event()
    threads = []

    class Interrupting(VirtualClock):
        """Interrupts the caller, as Ctrl-C does, once the attempt is in its function."""

        def call_within(self, seconds, operation):
            def run():
                with suppress(GivenUpAttempt):
                    operation()

            threads.append(threading.Thread(target=run))
            threads[0].start()
            assert inserted.wait(60)
            raise KeyboardInterrupt

    def work(connection):
        insert(connection, 1)
        inserted.set()
        released.wait(60)

    service = RetryService(clock=Interrupting())
    with pytest.raises(KeyboardInterrupt):
        with_database_transaction_sync(lambda: sqlite3.connect(path), work, "work", service=service)
    released.set()
    threads[0].join()
    assert rows(path) == []


def test_an_attempt_is_checked_right_before_its_commit(path):
    """The caller gives up after the function has returned, before the commit."""

    def work(connection):
        insert(connection, 1)
        attempts.give_up(0)

    attempts = BlockingAttempts(lambda: sqlite3.connect(path), work)
    with pytest.raises(GivenUpAttempt):
        attempts.attempt()
    assert rows(path) == []


def test_an_attempt_whose_time_ends_in_its_function_does_not_commit(path):
    clock = VirtualClock()

    def work(connection):
        insert(connection, 1)
        clock.advance(11)

    result = with_database_transaction_sync(
        lambda: sqlite3.connect(path), work, "work", service=RetryService(clock=clock)
    )
    assert (result.stop_reason, result.attempts) == (StopReason.ATTEMPTS, 5)
    assert rows(path) == []


def test_an_asynchronous_attempt_that_was_cut_off_is_rolled_back(database):
    async def scenario():
        attempts = []

        async def work(connection):
            attempts.append(connection)
            await connection.execute(f"INSERT INTO things VALUES ({len(attempts)}, 0)")
            if len(attempts) == 1:
                await connection.execute("SELECT pg_sleep(60)")

        async with asyncpg.create_pool(database, min_size=1, max_size=2) as pool:
            policy = replace(QUICK, attempt_timeout=2.0)
            return await with_database_transaction(
                pool, work, "work", service=RetryService(), policy=policy
            )

    result = asyncio.run(scenario())
    assert (result.ok, result.attempts) == (True, 2)
    assert rows(database) == [2]


def test_a_function_that_ignores_its_cancellation_is_not_committed(database):
    async def scenario():
        async def work(connection):
            await connection.execute("INSERT INTO things VALUES (1, 0)")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return "late"

        policy = replace(SHORT, max_attempts=1)
        return await with_database_transaction(
            lambda: asyncpg.connect(database), work, "work", service=RetryService(), policy=policy
        )

    result = asyncio.run(scenario())
    assert isinstance(result.error, AttemptTimeout)
    assert rows(database) == []


def test_a_cancelled_caller_is_rolled_back_and_the_cancellation_passes(database):
    async def scenario():
        inserted = asyncio.Event()

        async def work(connection):
            await connection.execute("INSERT INTO things VALUES (1, 0)")
            inserted.set()
            await asyncio.sleep(60)

        call = asyncio.ensure_future(
            with_database_transaction(
                lambda: asyncpg.connect(database), work, "work", service=RetryService()
            )
        )
        await inserted.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(scenario())
    assert rows(database) == []


# -- attempts that are given up while they commit -----------------------------------------------


def commit_cut_off(path, blocked, policy=SHORT, failures=1):
    """Run a transaction whose first attempt is given up while it commits; return its result.

    The commit ends after so many `failures` of attempts.
    """
    attempts, events = [], []

    def work(connection):
        attempts.append(connection)
        insert(connection, len(attempts))
        return len(attempts)

    def release(event):
        events.append(event)
        if len(events) >= failures:
            blocked.released.set()

    return with_database_transaction_sync(
        lambda: sqlite3.connect(path, factory=blocked),
        work,
        "work",
        service=RetryService(listeners=[release]),
        policy=policy,
    )


def test_the_value_of_a_commit_under_way_is_returned_by_the_next_attempt(path, blocked):
    result = commit_cut_off(path, blocked)
    assert (result.value, result.attempts) == (1, 2)
    assert rows(path) == [1]


def test_a_commit_under_way_that_fails_is_followed_by_a_whole_new_attempt(path, blocked):
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    blocked.error = busy
    assert commit_cut_off(path, blocked).value == 2
    assert rows(path) == [2]


def test_an_attempt_that_waited_too_long_for_a_commit_does_nothing_any_more(path, blocked):
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    blocked.error = busy
    result = commit_cut_off(path, blocked, failures=2)
    assert (result.value, result.attempts) == (2, 3)
    assert rows(path) == [2]


@pytest.mark.parametrize("attempts", [1, 4])
def test_a_commit_under_way_whose_connection_is_lost_is_unknown(path, blocked, attempts):
    blocked.error = ConnectionResetError("connection reset by peer")
    result = commit_cut_off(path, blocked, replace(SHORT, max_attempts=attempts))
    assert isinstance(result.error, CommitUnknown)
    assert len(result.history) == min(attempts, 2)
    assert rows(path) == []


def test_the_last_attempts_commit_is_waited_for(path, blocked):
    def work(connection):
        insert(connection, 1)
        return "done"

    service = RetryService(listeners=[lambda event: blocked.released.set()])
    policy = replace(SHORT, max_attempts=1)
    result = with_database_transaction_sync(
        lambda: sqlite3.connect(path, factory=blocked),
        work,
        "work",
        service=service,
        policy=policy,
    )
    assert (result.value, result.stop_reason) == ("done", StopReason.SUCCESS)
    assert rows(path) == [1]


def test_a_commit_that_does_not_end_is_reported_as_unknown(path, blocked, monkeypatch):
    monkeypatch.setattr(transaction_attempts, "PATIENCE", 0.1)
    service = RetryService()
    policy = replace(SHORT, max_attempts=1)
    result = with_database_transaction_sync(
        lambda: sqlite3.connect(path, factory=blocked),
        lambda connection: insert(connection, 1),
        "work",
        service=service,
        policy=policy,
    )
    assert isinstance(result.error, CommitUnknown)
    assert result.stop_reason is StopReason.AMBIGUOUS
    blocked.released.set()
    until_sync(lambda: service.metrics(NAME).abandoned_threads == 0)


def async_commit_cut_off(database, max_attempts, timeout=1.0):
    """Run a transaction whose first attempt is given up while it commits; return its result."""
    numbers = []

    async def work(connection):
        numbers.append(len(numbers) + 1)
        await connection.execute(f"INSERT INTO things VALUES ({numbers[-1]}, 0)")
        return numbers[-1]

    policy = replace(QUICK, attempt_timeout=timeout, max_attempts=max_attempts)
    return asyncio.run(
        with_database_transaction(
            lambda: asyncpg.connect(database), work, "work", service=RetryService(), policy=policy
        )
    )


@pytest.mark.parametrize("attempts", [1, 4])
def test_an_asynchronous_commit_is_not_interrupted_by_the_end_of_its_attempt(database, attempts):
    on_commit(database, "PERFORM pg_sleep(1.5)")
    result = async_commit_cut_off(database, attempts)
    assert (result.value, result.ok) == (1, True)
    assert isinstance(result.history[0].error, AttemptTimeout)
    assert rows(database) == [1]


def test_an_asynchronous_commit_under_way_that_fails_is_followed_by_a_new_attempt(database):
    on_commit(
        database,
        "IF NEW.id = 1 THEN PERFORM pg_sleep(1.5); "
        "RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END IF",
    )
    assert async_commit_cut_off(database, 5).ok
    assert 1 not in rows(database)


@pytest.mark.parametrize("attempts", [1, 4])
def test_an_asynchronous_commit_under_way_whose_connection_is_lost_is_unknown(database, attempts):
    on_commit(database, "PERFORM pg_sleep(1.5), pg_terminate_backend(pg_backend_pid())")
    result = async_commit_cut_off(database, attempts)
    assert isinstance(result.error, CommitUnknown)
    assert rows(database) == []


def test_an_asynchronous_commit_that_does_not_end_is_reported_as_unknown(database, monkeypatch):
    monkeypatch.setattr(transaction_attempts, "PATIENCE", 0.1)
    on_commit(database, "PERFORM pg_sleep(2)")

    async def work(connection):
        await connection.execute("INSERT INTO things VALUES (1, 0)")

    async def scenario():
        policy = replace(QUICK, attempt_timeout=0.5, max_attempts=1)
        result = await with_database_transaction(
            lambda: asyncpg.connect(database), work, "work", service=RetryService(), policy=policy
        )
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others)
        return result

    result = asyncio.run(scenario())
    assert isinstance(result.error, CommitUnknown)


# -- commits that fail --------------------------------------------------------------------------


def blocking_call(database, policy=QUICK):
    return with_database_transaction_sync(
        lambda: psycopg.connect(database),
        lambda connection: insert(connection, 1),
        "work",
        service=RetryService(),
        policy=policy,
    )


def async_call(database, policy=QUICK):
    async def work(connection):
        await connection.execute("INSERT INTO things VALUES (1, 0)")

    return asyncio.run(
        with_database_transaction(
            lambda: asyncpg.connect(database), work, "work", service=RetryService(), policy=policy
        )
    )


@pytest.fixture(params=[blocking_call, async_call], ids=["blocking", "async"])
def call(request):
    return request.param


def test_a_connection_lost_during_commit_is_not_repeated(database, call):
    on_commit(database, "PERFORM pg_terminate_backend(pg_backend_pid())")
    result = call(database)
    assert isinstance(result.error, CommitUnknown)
    assert isinstance(result.error.__cause__, Exception)
    assert (result.stop_reason, result.attempts) == (StopReason.PERMANENT, 1)


def test_not_even_a_policy_repeats_a_commit_whose_outcome_is_unknown(database, call):
    on_commit(database, "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60)")
    counted = replace(QUICK, categorize=lambda error: Category.TRANSIENT, max_attempts=3)
    result = call(database, counted)
    assert isinstance(result.error, CommitUnknown)
    assert len({id(attempt.error) for attempt in result.history}) == 1


@pytest.mark.parametrize(("state", "attempts"), [("40001", 3), ("23505", 1)])
def test_what_the_server_refuses_at_commit_is_judged_as_it_is(database, call, state, attempts):
    on_commit(database, f"RAISE EXCEPTION 'no' USING ERRCODE = '{state}'")
    result = call(database, replace(QUICK, max_attempts=3))
    assert (result.attempts, result.error.sqlstate) == (attempts, state)
    assert rows(database) == []
