"""Connecting to the database: the error for each failure is helpful and contains no secrets."""

import asyncio
import secrets
import time
import traceback

import asyncpg
import pytest
from tests.support.waiting import until

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import (
    ConstraintViolated,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnusable,
)
from holdfast.store.postgres.connection import Database, describe, store_error
from holdfast.store.postgres.session import SETTINGS
from holdfast.store.postgres.store import PostgresStore

SECRET = "s3cr3t/w@rd"


def refusal(url: str, kind: type[StoreError]) -> str:
    """Open a store at `url`; return the text of its error and of all its causes."""
    with pytest.raises(kind) as caught:
        asyncio.run(PostgresStore(url).open())
    return "".join(traceback.format_exception(caught.value))


def with_password(url: str, password: str) -> str:
    account, _, rest = url.partition("@")
    return f"{account.rpartition(':')[0]}:{password}@{rest}"


def test_the_address_of_a_store_has_no_account_and_no_password():
    store = PostgresStore("postgresql://ann:s3cret@db.example.org:5433/jobs?sslmode=require")
    assert store.address == "PostgreSQL at db.example.org:5433/jobs"


def test_the_error_for_a_wrong_password_has_advice_and_does_not_repeat_it(postgres_url):
    told = refusal(with_password(postgres_url, "wr0ng-w0rd"), StoreUnusable)
    assert "check the account, its password" in told
    assert "wr0ng-w0rd" not in told


def test_an_unknown_database_is_named(postgres_url):
    told = refusal(f"{postgres_url}_nobody", StoreUnusable)
    assert "_nobody" in told
    assert "name of the database" in told


def test_an_address_without_a_server_is_an_outage_not_a_mistake():
    told = refusal(f"postgresql://holdfast:{SECRET[:6]}@127.0.0.1:1/db", StoreUnavailable)
    assert "127.0.0.1:1/db: cannot be reached" in told
    assert SECRET[:6] not in told


def test_a_host_that_does_not_exist_is_an_outage_too():
    told = refusal("postgresql://holdfast@no-such-host.invalid/db", StoreUnavailable)
    assert "cannot be reached" in told
    assert "check the host's name in the address" in told


@pytest.mark.parametrize("option", ["nonsense=1", "work_mem=abc", "server_version=9"])
def test_an_option_that_the_server_refuses_is_named(postgres_url, option):
    told = refusal(f"{postgres_url}?{option}", StoreUnusable)
    assert "options after the '?' of the address" in told
    assert f'"{option.partition("=")[0]}"' in told
    assert "holdfast migrate" not in told


@pytest.mark.parametrize("port", [99999, -5])
def test_an_impossible_port_is_named(port):
    told = refusal(f"postgresql://holdfast:{SECRET[:6]}@127.0.0.1:{port}/db", StoreUnusable)
    assert "a port of at most 65535" in told
    assert SECRET[:6] not in told


@pytest.mark.parametrize("password", ["s3cr3t@", "s3c@r3t"])
def test_the_error_for_an_at_sign_in_the_password_has_advice(password):
    told = refusal(f"postgresql://holdfast:{password}@127.0.0.1:1/db", StoreUnusable)
    assert "written %40" in told
    assert password not in told


@pytest.mark.parametrize(
    "url, words",
    [
        ("postgresq://localhost/db", "begins with postgresql://, not with postgresq://"),
        ("localhost/db", "begins with postgresql://"),
        ("postgresql+asyncpg://localhost/db", "not with postgresql+asyncpg://"),
    ],
)
def test_a_mistyped_scheme_is_named(url, words):
    assert words in refusal(url, StoreUnusable)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://holdfast:{SECRET}@localhost:5432/db",
        f"postgresql://holdfast:{SECRET}@localhost:x/db",
        "postgresql://holdfast:s3cr3t@localhost:54x2/db",
        "postgresql://holdfast:s3cr3t@localhost/db?sslmode=sometimes",
    ],
)
def test_an_address_that_cannot_be_read_does_not_betray_its_password(url):
    told = refusal(url, StoreUnusable)
    assert "postgresql://user:password@host:5432/database" in told
    assert "s3cr3t" not in told
    assert "w@rd" not in told


@pytest.mark.parametrize(
    "url, words",
    [
        ("postgresql://u:p@db.example:6000/jobs", "PostgreSQL at db.example:6000/jobs"),
        ("postgresql:///jobs", "PostgreSQL at localhost/jobs"),
        ("postgresql://h", "PostgreSQL at h"),
        (f"postgresql://u:{SECRET}@h:5432/db", "PostgreSQL"),
        ("postgresql://[::1/db", "PostgreSQL"),
        ("postgresql://ann:12345?word@h/db", "PostgreSQL"),
        ("postgresql://ann:12345#word@h/db", "PostgreSQL"),
    ],
)
def test_an_address_is_described_without_account_and_password(url, words):
    assert describe(url) == words


@pytest.mark.parametrize(
    "error, kind",
    [
        (asyncpg.InvalidPasswordError("no"), StoreUnusable),
        (asyncpg.InsufficientPrivilegeError("no"), StoreUnusable),
        (asyncpg.UndefinedTableError("no"), StoreUnusable),
        (asyncpg.DiskFullError("no"), StoreFull),
        (asyncpg.DeadlockDetectedError("no"), StoreBusy),
        (asyncpg.LockNotAvailableError("no"), StoreBusy),
        (asyncpg.QueryCanceledError("no"), StoreUnavailable),
        (TimeoutError(), StoreUnavailable),
        (ConnectionResetError(), StoreUnavailable),
        (asyncpg.AdminShutdownError("no"), StoreUnavailable),
        (asyncpg.CannotConnectNowError("no"), StoreUnavailable),
        (asyncpg.ConnectionDoesNotExistError("no"), StoreUnavailable),
        (asyncpg.TooManyConnectionsError("no"), StoreUnavailable),
        (asyncpg.InterfaceError("no"), StoreUnavailable),
        (asyncpg.InternalClientError("no"), StoreUnavailable),
        (asyncpg.CheckViolationError("no"), ConstraintViolated),
        (asyncpg.DivisionByZeroError("no"), StoreError),
    ],
)
def test_an_error_of_the_driver_becomes_one_of_the_store(error, kind):
    assert type(store_error(error, "here")) is kind


def test_an_error_of_the_store_is_not_translated_again():
    error = StoreFull("full")
    assert store_error(error, "here") is error


def test_a_store_that_is_not_open_has_a_clear_error(postgres_url):
    async def scenario():
        store = PostgresStore(postgres_url)
        with pytest.raises(StoreClosed, match="not open"):
            await store.ping()
        async with store:
            assert abs(await store.ping() - time.time()) < 60
        with pytest.raises(StoreClosed, match="is closed"):
            await store.ping()
        await store.close()

    asyncio.run(scenario())


def test_a_store_can_be_opened_again(postgres_url):
    async def scenario():
        store = PostgresStore(postgres_url)
        for _ in range(2):
            async with store:
                assert await store.schema_version() >= 1

    asyncio.run(scenario())


def test_a_store_can_be_opened_again_on_another_event_loop(postgres_url):
    store = PostgresStore(postgres_url)

    async def scenario():
        async with store:
            mark = (await store.tick("w")).mark
            waiting = asyncio.create_task(store.wait_for_work(mark, 20))
            await asyncio.sleep(0)
            await store.enqueue([NewJob(secrets.token_hex(8), "work")])
            assert await waiting
            assert all(not task.done() for task in store._notifier._tasks)

    asyncio.run(scenario())
    asyncio.run(scenario())


def test_a_store_that_was_never_closed_can_be_opened_after_the_end_of_its_loop(postgres_url):
    store = PostgresStore(postgres_url)

    async def forget():
        await store.open()
        store._database._pool.terminate()  # what the end of the process would do

    async def scenario():
        async with store:
            assert await store.schema_version() >= 1

    asyncio.run(forget())
    asyncio.run(scenario())


def test_a_second_opening_is_refused_and_the_first_goes_on(postgres_url):
    async def scenario():
        async with PostgresStore(postgres_url) as store:
            for again in (store.open, store.migrate):
                with pytest.raises(StoreUnusable, match=r"PostgreSQL at .* is open already"):
                    await again()
                assert await store.schema_version() >= 1

    asyncio.run(scenario())


def test_of_two_openings_at_once_one_is_refused(postgres_url):
    async def scenario():
        store = PostgresStore(postgres_url)
        first, second = await asyncio.gather(store.open(), store.open(), return_exceptions=True)
        assert first is None
        assert isinstance(second, StoreUnusable)
        assert await store.schema_version() >= 1
        await store.close()

    asyncio.run(scenario())


def test_an_opening_that_failed_can_be_tried_again(postgres_url):
    async def scenario():
        store = PostgresStore(with_password(postgres_url, "wr0ng-w0rd"))
        for _ in range(2):
            with pytest.raises(StoreUnusable, match="password"):
                await store.open()

    asyncio.run(scenario())


def test_another_event_loop_is_pointed_to_the_ways_there_are(postgres_url):
    async def scenario():
        async with PostgresStore(postgres_url) as store:

            def elsewhere():
                asyncio.run(store.enqueue([NewJob("a", "work")]))

            with pytest.raises(StoreUnusable, match=r"engine\.blocking\(\).*engine per loop"):
                await asyncio.to_thread(elsewhere)
            assert await store.get("a") is None
            await store.enqueue([NewJob("b", "work")])

    asyncio.run(scenario())


def test_connections_have_the_planner_settings(postgres_url):
    async def scenario():
        database = Database(postgres_url, connections=1, timeout=5)
        await database.open()
        async with database.connection() as connection:
            for name in ("enable_seqscan", "enable_bitmapscan", "jit", "plan_cache_mode"):
                assert await connection.fetchval(f"SHOW {name}") == SETTINGS[name]
            limit = await connection.fetchval("SHOW idle_in_transaction_session_timeout")
            assert limit == "1min"
        await database.close()

    asyncio.run(scenario())


def test_a_statement_without_an_answer_is_an_outage(postgres_url):
    async def scenario():
        database = Database(postgres_url, connections=1, timeout=1)
        await database.open()
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            async with database.connection() as connection:
                await connection.execute("SELECT pg_sleep(30)")
        assert time.monotonic() - began < 10
        await database.close()

    asyncio.run(scenario())


def test_a_deadlock_is_retried_and_raised_if_it_lasts(postgres_url):
    async def scenario():
        database = Database(postgres_url, connections=2, timeout=5)
        await database.open()
        tries = []

        async def lose(times, connection):
            tries.append(1)
            if len(tries) <= times:
                await connection.execute(
                    "DO $$ BEGIN RAISE EXCEPTION 'ring' USING ERRCODE = '40P01'; END $$"
                )
            return "won"

        assert await database.transaction(lambda connection: lose(3, connection)) == "won"
        assert len(tries) == 4
        tries.clear()
        with pytest.raises(StoreBusy):
            await database.transaction(lambda connection: lose(99, connection))
        assert len(tries) == 5
        await database.close()

    asyncio.run(scenario())


def test_an_error_of_another_kind_is_not_retried(postgres_url):
    async def scenario():
        database = Database(postgres_url, connections=1, timeout=5)
        await database.open()
        tries = []

        async def fail(connection):
            tries.append(1)
            await connection.execute("SELECT 1/0")

        with pytest.raises(StoreError, match="division by zero"):
            await database.transaction(fail)
        assert len(tries) == 1
        await database.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", [asyncpg.CannotConnectNowError, asyncpg.DataError])
def test_an_error_with_details_is_one_line(kind):
    message = "not yet accepting connections\nDETAIL:  Consistent recovery state is not reached."
    told = str(store_error(kind(message), "PostgreSQL at db"))
    assert "connections DETAIL: Consistent recovery state" in told
    assert "\n" not in told


@pytest.fixture
def breaks(postgres_url):
    """Return a function that ends a connection as a server does that is restarted."""

    async def end(connection):
        other = await asyncpg.connect(postgres_url)
        try:
            await other.execute("SELECT pg_terminate_backend($1)", connection.get_server_pid())
            await until(connection.is_closed)
        finally:
            await other.close()

    return end


def test_a_cancellation_is_not_mistaken_for_an_outage(postgres_url, breaks):
    async def cancelled(connection):
        await breaks(connection)  # so the driver's own rollback fails
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    async def scenario():
        database = Database(postgres_url, connections=1, timeout=60)
        await database.open()
        with pytest.raises(asyncio.CancelledError):
            await database.transaction(cancelled)
        await database.close()

    asyncio.run(scenario())


def test_an_outage_that_a_cancelled_task_meets_while_it_cleans_up_is_an_outage(
    postgres_url, breaks
):
    async def fail(connection):
        await breaks(connection)
        await connection.execute("SELECT 1")

    async def scenario():
        database = Database(postgres_url, connections=1, timeout=60)
        await database.open()
        asyncio.current_task().cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            with pytest.raises(StoreUnavailable):
                await database.transaction(fail)
        await database.close()

    asyncio.run(scenario())
