"""Database work is repeated where its error may pass; a transaction always as a whole."""

import asyncio
import random
import sqlite3
import threading

import asyncpg
import psycopg
import pytest
from tests.support.databases import BLOCKING, DRIVERS, ON_SERVER, always, create, once, rows

from holdfast import RetryPolicy, RetryService, StopReason, presets
from holdfast.providers import (
    with_database_retry,
    with_database_retry_sync,
    with_database_transaction,
    with_database_transaction_sync,
)
from holdfast.testing import VirtualClock

DEADLOCK = "DO $$ BEGIN RAISE EXCEPTION 'unlucky' USING ERRCODE = '40P01'; END $$"
SERIALIZATION = "DO $$ BEGIN RAISE EXCEPTION 'unlucky' USING ERRCODE = '40001'; END $$"
INSERT = "INSERT INTO things VALUES (1, 0)"


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def driver(request):
    return request.param


@pytest.fixture
def where(driver, tmp_path, request):
    """A database with an empty table `things`, for the driver."""
    place = str(tmp_path / "things.db")
    if driver.server:
        place = request.getfixturevalue("postgres_url")
    create(place)
    return place


@pytest.fixture
def things(postgres_url):
    """A PostgreSQL database with the things 1 and 2."""
    create(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("INSERT INTO things VALUES (1, 0), (2, 0)")
    return postgres_url


# -- transactions, with every driver ------------------------------------------------------------


def test_a_transaction_is_committed_and_its_value_returned(driver, where):
    service = RetryService(clock=VirtualClock())
    result = driver.run(where, always(INSERT), service=service)
    assert (result.value, result.attempts, result.stop_reason) == (1, 1, StopReason.SUCCESS)
    assert rows(where) == [1]
    assert service.names() == ["db:transaction:work"]


def test_a_violated_constraint_is_raised_at_once_and_all_is_rolled_back(driver, where):
    result = driver.run(
        where, always("INSERT INTO things VALUES (2, 0)"), always(INSERT), always(INSERT)
    )
    assert (result.stop_reason, result.attempts) == (StopReason.PERMANENT, 1)
    assert any(word in str(result.error).lower() for word in ("unique", "duplicate"))
    assert rows(where) == []


def test_an_error_that_passes_repeats_the_whole_transaction(driver, where):
    def unlucky(number):
        if number < 3:
            raise ConnectionResetError("connection reset by peer")

    result = driver.run(where, always(INSERT), unlucky)
    assert (result.value, result.attempts) == (3, 3)
    assert rows(where) == [1]


def test_an_error_of_the_function_itself_rolls_back(driver, where):
    def broken(number):
        raise KeyError("a bug")

    result = driver.run(where, always(INSERT), broken)
    assert isinstance(result.error, KeyError)
    assert result.attempts == 1
    assert rows(where) == []


@pytest.mark.parametrize("driver", ON_SERVER, ids=lambda driver: driver.name)
@pytest.mark.parametrize("statement", [DEADLOCK, SERIALIZATION], ids=["40P01", "40001"])
def test_deadlocks_and_serialization_failures_repeat_the_whole_transaction(
    driver, where, statement
):
    result = driver.run(where, always(INSERT), once(statement))
    assert (result.value, result.attempts) == (2, 2)
    assert rows(where) == [1]


@pytest.mark.parametrize("driver", ON_SERVER, ids=lambda driver: driver.name)
def test_a_transaction_that_the_server_would_roll_back_is_no_success(driver, where):
    """PostgreSQL answers COMMIT after a caught error with ROLLBACK, and without an error."""
    result = driver.run(where, always(INSERT), caught=INSERT)
    assert (result.stop_reason, result.attempts) == (StopReason.PERMANENT, 1)
    assert rows(where) == []


@pytest.mark.parametrize(
    "driver",
    [driver for driver in DRIVERS if not driver.server],
    ids=lambda driver: driver.name,
)
def test_on_a_file_a_caught_error_undoes_only_its_statement(driver, where):
    assert driver.run(where, always(INSERT), caught=INSERT).ok
    assert rows(where) == [1]


def test_a_function_that_ends_the_transaction_itself_is_refused(tmp_path):
    path = str(tmp_path / "things.db")
    create(path)
    result = with_database_transaction_sync(
        lambda: sqlite3.connect(path),
        lambda connection: connection.rollback(),
        "work",
        service=RetryService(clock=VirtualClock()),
    )
    assert "was ended inside the function" in str(result.error)


@pytest.mark.parametrize("driver", BLOCKING, ids=lambda driver: driver.name)
def test_a_transaction_inside_a_guarded_call_is_left_to_the_outer_one(driver, where):
    service = RetryService(clock=VirtualClock())
    seen = []

    def unlucky(number):
        raise ConnectionResetError("connection reset by peer")

    def outer():
        seen.append(driver.run(where, unlucky, service=service).attempts)
        raise ConnectionResetError("connection reset by peer")

    service.execute_sync(outer, RetryPolicy(max_attempts=2), "outer")
    assert seen == [1, 1]


# -- transactions that meet on PostgreSQL -------------------------------------------------------


def test_two_transactions_in_a_deadlock_both_succeed_in_the_end(things):
    both_hold_one = threading.Barrier(2)
    results = []

    def transfer(first, second):
        attempts = []

        def work(connection):
            attempts.append(connection)
            connection.execute(f"UPDATE things SET n = n + 1 WHERE id = {first}")
            if len(attempts) == 1:
                both_hold_one.wait(60)
            connection.execute(f"UPDATE things SET n = n + 1 WHERE id = {second}")

        service = RetryService()
        results.append(
            with_database_transaction_sync(
                lambda: psycopg.connect(things), work, "transfer", service=service
            )
        )

    threads = [threading.Thread(target=transfer, args=pair) for pair in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.ok for result in results] == [True, True]
    assert sorted(result.attempts for result in results) == [1, 2]
    (deadlock,) = [attempt.error for result in results for attempt in result.history]
    assert isinstance(deadlock, psycopg.errors.DeadlockDetected)
    assert rows(things, "SELECT n FROM things") == [2, 2]


def test_of_two_transactions_that_cannot_be_put_in_order_one_is_repeated(things):
    async def scenario():
        both_have_read = asyncio.Barrier(2)

        async def add(name):
            attempts = []

            async def work(connection):
                attempts.append(connection)
                await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                n = await connection.fetchval("SELECT n FROM things WHERE id = 1")
                if len(attempts) == 1:
                    await both_have_read.wait()
                await connection.execute("UPDATE things SET n = $1 WHERE id = 1", n + 1)

            return await with_database_transaction(
                lambda: asyncpg.connect(things), work, name, service=RetryService()
            )

        return await asyncio.gather(add("one"), add("two"))

    results = asyncio.run(scenario())
    assert sorted(result.attempts for result in results) == [1, 2]
    (failure,) = [attempt.error for result in results for attempt in result.history]
    assert isinstance(failure, asyncpg.SerializationError)
    assert rows(things, "SELECT n FROM things WHERE id = 1") == [2]


def test_a_busy_file_repeats_the_transaction(tmp_path):
    path = tmp_path / "things.db"
    create(str(path))
    writer, attempts = sqlite3.connect(path), []
    writer.execute("BEGIN IMMEDIATE")

    def connect():
        attempts.append(1)
        if len(attempts) == 3:
            writer.rollback()
        return sqlite3.connect(path, timeout=0)

    result = with_database_transaction_sync(
        connect,
        lambda connection: connection.execute(INSERT).rowcount,
        "busy",
        service=RetryService(clock=VirtualClock()),
    )
    writer.close()
    assert (result.value, result.attempts) == (1, 3)
    assert rows(str(path)) == [1]


# -- single operations --------------------------------------------------------------------------


def test_the_policy_is_the_matrixs_row_for_databases():
    clock = VirtualClock()
    service = RetryService(clock=clock)

    def down():
        raise ConnectionRefusedError("refused")

    result = with_database_retry_sync(down, "find-user", service=service)
    assert (result.attempts, result.stop_reason) == (5, StopReason.ATTEMPTS)
    for slept, delay in zip(clock.sleeps, (0.5, 1, 2, 4), strict=True):
        assert 0.7 * delay <= slept <= min(1.3 * delay, 4)
    assert service.names() == ["db:find-user"]
    assert presets.DATABASE.attempt_timeout == 10
    refused = [with_database_retry_sync(down, "find-user", service=service) for _ in range(2)]
    assert [result.attempts for result in refused] == [5, 0]
    assert refused[1].breaker_triggered
    circuit = service.circuit_state("db:find-user")
    assert circuit.next_attempt_at == pytest.approx(clock.wall() + 30)


@pytest.mark.parametrize(
    ("message", "attempts"),
    [
        ("Deadlock", 5),
        ("lock timeout", 5),
        ("connection lost", 5),
        ("unique constraint", 1),
        ("foreign key constraint", 1),
    ],
)
def test_errors_without_a_type_are_judged_by_their_words(message, attempts):
    async def operation():
        raise Exception(message)

    clock = VirtualClock()
    work = with_database_retry(operation, "words", service=RetryService(clock=clock))
    assert clock.run(work).attempts == attempts


def test_calls_without_a_service_share_one():
    async def operation():
        return 1

    asyncio.run(with_database_retry(operation, "shared"))
    assert with_database_retry_sync(lambda: 2, "shared").value == 2


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_call_needs_a_name(name):
    with pytest.raises((TypeError, ValueError), match="name"):
        with_database_retry_sync(lambda: 1, name)


def test_a_thousand_concurrent_operations_of_which_a_tenth_fail(postgres_url):
    """The load test of the retry architecture, with real operations and real errors."""
    chance = random.Random(4)

    async def scenario():
        async with asyncpg.create_pool(postgres_url, min_size=4, max_size=8) as pool:

            async def operation():
                async with pool.acquire() as connection:
                    if chance.random() < 0.1:
                        await connection.execute(DEADLOCK)
                    return await connection.fetchval("SELECT 1")

            service = RetryService()
            return await asyncio.gather(
                *(with_database_retry(operation, "load-test", service=service) for _ in range(1000))
            )

    results = asyncio.run(scenario())
    succeeded = sum(result.ok for result in results)
    retried = sum(result.attempts > 1 for result in results)
    assert succeeded / len(results) > 0.995
    assert retried > 50
