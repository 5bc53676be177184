"""A handler's transaction, driver by driver: its rows and its job's completion, or neither."""

import asyncio
import contextlib
import inspect
import threading
from contextlib import AsyncExitStack

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker
from tests.support.waiting import SOON

from holdfast.jobs.exceptions import ContextError, LostLease
from holdfast.jobs.model import Completed, Finished, JobStatus, NewJob
from holdfast.jobs.store_port import ClaimRequest, Refusal
from holdfast.store.joining import NoTransaction
from holdfast.store.postgres.store import PostgresStore

INSERT = "INSERT INTO own_rows VALUES (1)"


@contextlib.asynccontextmanager
async def sync_engine(url, **options):
    engine = sqlalchemy.create_engine(url.replace("://", "+psycopg://", 1), **options)
    try:
        yield engine
    finally:
        engine.dispose()


@contextlib.asynccontextmanager
async def async_engine(url, driver="asyncpg", **options):
    engine = create_async_engine(url.replace("://", f"+{driver}://", 1), **options)
    try:
        yield engine
    finally:
        await engine.dispose()


# What a handler may give to ctx.transaction(): connections and sessions, and functions that open
# one. Each function below yields one such source.


@contextlib.asynccontextmanager
async def asyncpg_connection(url):
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def asyncpg_connect(url):
    yield lambda: asyncpg.connect(url)


@contextlib.asynccontextmanager
async def asyncpg_pool(url):
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
        yield pool.acquire


@contextlib.asynccontextmanager
async def psycopg_connection(url):
    with psycopg.connect(url) as connection:
        yield connection


@contextlib.asynccontextmanager
async def psycopg_autocommit(url):
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@contextlib.asynccontextmanager
async def psycopg_connect(url):
    yield lambda: psycopg.connect(url)


@contextlib.asynccontextmanager
async def psycopg_async_connection(url):
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@contextlib.asynccontextmanager
async def psycopg_async_connect(url):
    yield lambda: psycopg.AsyncConnection.connect(url)


@contextlib.asynccontextmanager
async def sqlalchemy_connection(url):
    async with sync_engine(url) as engine:
        with engine.connect() as connection:
            yield connection


@contextlib.asynccontextmanager
async def sqlalchemy_engine_connect(url):
    async with sync_engine(url) as engine:
        yield engine.connect


@contextlib.asynccontextmanager
async def sqlalchemy_session(url):
    async with sync_engine(url) as engine:
        with sessionmaker(engine)() as session:
            yield session


@contextlib.asynccontextmanager
async def sqlalchemy_sessionmaker(url):
    async with sync_engine(url) as engine:
        yield sessionmaker(engine)


@contextlib.asynccontextmanager
async def sqlalchemy_async_connection(url):
    async with async_engine(url) as engine, engine.connect() as connection:
        yield connection


@contextlib.asynccontextmanager
async def sqlalchemy_async_engine_connect(url):
    async with async_engine(url, "psycopg") as engine:
        yield engine.connect


@contextlib.asynccontextmanager
async def sqlalchemy_async_session(url):
    async with async_engine(url) as engine, async_sessionmaker(engine)() as session:
        yield session


@contextlib.asynccontextmanager
async def sqlalchemy_async_sessionmaker(url):
    async with async_engine(url) as engine:
        yield async_sessionmaker(engine)


@contextlib.asynccontextmanager
async def none(url):
    """The store's own connection."""
    yield None


BLOCKING = [
    psycopg_connection, psycopg_autocommit, psycopg_connect, sqlalchemy_connection,
    sqlalchemy_engine_connect, sqlalchemy_session, sqlalchemy_sessionmaker,
]  # fmt: skip
AWAITED = [
    none, asyncpg_connection, asyncpg_connect, asyncpg_pool, psycopg_async_connection,
    psycopg_async_connect, sqlalchemy_async_connection, sqlalchemy_async_engine_connect,
    sqlalchemy_async_session, sqlalchemy_async_sessionmaker,
]  # fmt: skip
each = pytest.mark.parametrize("source", BLOCKING + AWAITED, ids=lambda made: made.__name__)


async def execute(connection, statement):
    """Execute a statement as a handler does with this driver."""
    if type(connection).__module__.startswith("sqlalchemy"):
        statement = sqlalchemy.text(statement)
    answer = connection.execute(statement)
    if inspect.isawaitable(answer):
        await answer


class World:
    """A store with one claimed job, and a table of the handler's own."""

    def __init__(self, store, url, source):
        self.store = store
        self.url = url
        self.source = source

    async def claim(self):
        request = ClaimRequest(1, ("default",), {"work": None}, 60.0)
        (claim,) = (await self.store.tick("worker", (), request)).claims
        return claim.lease

    async def rows(self):
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetchval("SELECT count(*) FROM own_rows")
        finally:
            await connection.close()

    async def status(self):
        return (await self.store.get("job")).status

    def transaction(self, lease):
        return self.store.transaction(lease, self.source)


@contextlib.asynccontextmanager
async def world(url, source):
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE own_rows (value integer)")
    await connection.close()
    async with PostgresStore(url) as store, source(url) as made:
        await store.enqueue([NewJob("job", "work")])
        yield World(store, url, made)


@each
def test_rows_completion_and_jobs_are_one_commit(source, postgres_url):
    async def go():
        async with world(postgres_url, source) as it:
            lease = await it.claim()
            transaction = it.transaction(lease)
            await execute(await transaction.begin(), INSERT)
            assert (await it.rows(), await it.status()) == (0, JobStatus.PROCESSING)
            report = Finished(lease, Completed('"x"'), jobs=(NewJob("child", "work"),))
            result = await transaction.complete(report)
            await transaction.rollback()
            assert result.refused == ()
            assert (await it.rows(), await it.status()) == (1, JobStatus.COMPLETE)
            assert (await it.claim()).job_id == "child"

    asyncio.run(go())


@each
def test_a_lease_that_is_lost_in_between_rolls_back(source, postgres_url):
    async def go():
        async with world(postgres_url, source) as it:
            lease = await it.claim()
            transaction = it.transaction(lease)
            await execute(await transaction.begin(), INSERT)
            now = await it.store.ping()
            await it.store.rescue(now=now + 61)
            heir = await it.claim()
            report = Finished(lease, Completed('"zombie"'), jobs=(NewJob("child", "work"),))
            result = await transaction.complete(report)
            await transaction.rollback()
            assert [each.reason for each in result.refused] == [Refusal.STALE]
            assert (await it.rows(), await it.status()) == (0, JobStatus.PROCESSING)
            assert await it.store.get("child") is None
            assert (await it.store.get("job")).token == heir.token

    asyncio.run(go())


@each
def test_a_rollback_leaves_nothing_and_a_given_connection_usable(source, postgres_url):
    async def go():
        async with world(postgres_url, source) as it:
            lease = await it.claim()
            transaction = it.transaction(lease)
            connection = await transaction.begin()
            await execute(connection, INSERT)
            await transaction.rollback()
            assert (await it.rows(), await it.status()) == (0, JobStatus.PROCESSING)
            if connection is it.source:
                await execute(connection, "SELECT 1")

    asyncio.run(go())


@pytest.mark.parametrize("source", BLOCKING, ids=lambda made: made.__name__)
def test_a_blocking_handler_can_use_a_driver_that_blocks(source, postgres_url):
    async def go():
        async with world(postgres_url, source) as it:
            lease = await it.claim()
            transaction = it.transaction(lease)
            await execute(await transaction.begin(blocking=True), INSERT)
            await transaction.complete(Finished(lease, Completed()))
            await transaction.rollback()
            assert (await it.rows(), await it.status()) == (1, JobStatus.COMPLETE)

    asyncio.run(go())


@pytest.mark.parametrize(
    "source",
    [none, asyncpg_connection, psycopg_async_connection, sqlalchemy_async_sessionmaker],
    ids=lambda made: made.__name__,
)
def test_a_blocking_handler_cannot_use_a_driver_that_is_awaited(source, postgres_url):
    async def go():
        async with world(postgres_url, source) as it:
            transaction = it.transaction(await it.claim())
            with pytest.raises(ContextError, match="psycopg connection"):
                await transaction.begin(blocking=True)
            await transaction.rollback()

    asyncio.run(go())


@pytest.mark.parametrize(
    "source", [asyncpg_pool, sqlalchemy_async_sessionmaker, sqlalchemy_sessionmaker]
)
def test_a_connection_that_was_closed_in_the_handler_is_refused(source, postgres_url):
    """Its rows are gone: to complete the job in a new transaction would lose them."""

    async def go():
        async with world(postgres_url, source) as it:
            lease = await it.claim()
            opened = it.source()
            async with AsyncExitStack() as stack:
                if hasattr(opened, "__aenter__"):
                    connection = await stack.enter_async_context(opened)
                else:
                    connection = stack.enter_context(opened)
                transaction = it.store.transaction(lease, connection)
                await execute(await transaction.begin(), INSERT)
            with pytest.raises(ContextError, match="the function that opens it"):
                await transaction.complete(Finished(lease, Completed()))
            await transaction.rollback()
            assert (await it.rows(), await it.status()) == (0, JobStatus.PROCESSING)

    asyncio.run(go())


def test_a_transaction_that_the_handler_ended_is_refused(postgres_url):
    """Even if it has begun another one since."""

    async def go():
        async with world(postgres_url, none) as it:
            lease = await it.claim()
            transaction = it.transaction(lease)
            connection = await transaction.begin()
            await connection.execute(INSERT)
            await connection.execute("ROLLBACK")
            await connection.execute("BEGIN")
            with pytest.raises(ContextError, match="was ended before the handler returned"):
                await transaction.complete(Finished(lease, Completed()))
            await transaction.rollback()
            assert await it.status() is JobStatus.PROCESSING

    asyncio.run(go())


def test_psycopg_keeps_the_handler_from_committing(postgres_url):
    async def go():
        async with world(postgres_url, psycopg_connection) as it:
            transaction = it.transaction(await it.claim())
            connection = await transaction.begin()
            with pytest.raises(psycopg.ProgrammingError, match="commit"):
                connection.commit()
            await transaction.rollback()

    asyncio.run(go())


@pytest.mark.parametrize(
    "begin",
    [
        (asyncpg_connection, lambda connection: connection.execute("BEGIN")),
        (psycopg_connection, lambda connection: connection.execute("SELECT 1")),
        (sqlalchemy_connection, lambda connection: connection.begin()),
        (sqlalchemy_session, lambda session: session.begin()),
        (sqlalchemy_async_session, lambda session: session.begin()),
    ],
    ids=lambda pair: pair[0].__name__,
)
def test_a_connection_with_an_open_transaction_is_refused(begin, postgres_url):
    source, start = begin

    async def go():
        async with world(postgres_url, source) as it:
            started = start(it.source)
            if inspect.isawaitable(started):
                await started
            transaction = it.transaction(await it.claim())
            with pytest.raises(ContextError, match="has an open transaction"):
                await transaction.begin()
            await transaction.rollback()

    asyncio.run(go())


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_snapshot_that_a_heartbeat_would_make_useless_is_refused(level, postgres_url):
    @contextlib.asynccontextmanager
    async def snapshot(url):
        async with async_engine(url, isolation_level=level.upper()) as engine:
            yield engine.connect

    async def go():
        async with world(postgres_url, snapshot) as it:
            transaction = it.transaction(await it.claim())
            with pytest.raises(ContextError, match=f"is {level}, but .* needs read committed"):
                await transaction.begin()
            await transaction.rollback()
            assert await it.status() is JobStatus.PROCESSING

    asyncio.run(go())


def test_autocommit_of_sqlalchemy_is_refused(postgres_url):
    @contextlib.asynccontextmanager
    async def autocommit(url):
        async with sync_engine(url, isolation_level="AUTOCOMMIT") as engine:
            yield engine.connect

    async def go():
        async with world(postgres_url, autocommit) as it:
            transaction = it.transaction(await it.claim())
            with pytest.raises(NoTransaction, match="AUTOCOMMIT"):
                await transaction.begin()
            await transaction.rollback()

    asyncio.run(go())


def test_what_is_no_connection_or_of_another_database_is_refused(postgres_url, postgres_server):
    async def go():
        async with world(postgres_url, none) as it:
            lease = await it.claim()
            for source in (object(), lambda: contextlib.nullcontext(7)):
                transaction = it.store.transaction(lease, source)
                with pytest.raises(TypeError, match="it takes an asyncpg connection"):
                    await transaction.begin()
                await transaction.rollback()
            other = await asyncpg.connect(postgres_server.url("postgres"))
            transaction = it.store.transaction(lease, other)
            with pytest.raises(TypeError, match="another database"):
                await transaction.begin()
            await transaction.rollback()
            await other.close()
            # No pool: it would close the connection in this thread, which is not the one it is of.
            sqlite = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.pool.NullPool)
            transaction = it.store.transaction(lease, sqlite.connect)
            with pytest.raises(TypeError, match="one to sqlite"):
                await transaction.begin()
            await transaction.rollback()
            sqlite.dispose()
            assert await it.status() is JobStatus.PROCESSING

    asyncio.run(go())


def test_the_connections_of_handlers_are_reset_and_used_again(postgres_url):
    async def go():
        async with world(postgres_url, none) as it:
            lease, seen = await it.claim(), []
            for _ in range(2):
                transaction = it.transaction(lease)
                connection = await transaction.begin()
                seen.append(
                    await connection.fetchrow(
                        "SELECT pg_backend_pid() AS pid, current_setting('work_mem') AS memory, "
                        "current_setting('enable_seqscan') AS seqscan"
                    )
                )
                await connection.execute("SET work_mem = '123MB'")
                await transaction.complete(Finished(lease, Completed('"no"'), duration=1.0))
                await transaction.rollback()
                await it.store.enqueue([NewJob(f"job-{len(seen)}", "work")])
                lease = await it.claim()
            assert seen[0] == seen[1]
            assert seen[0]["seqscan"] == "on"

    asyncio.run(go())


def test_a_zombie_is_told_when_it_begins(postgres_url):
    async def go():
        async with world(postgres_url, psycopg_connect) as it:
            lease = await it.claim()
            await it.store.rescue(now=await it.store.ping() + 61)
            transaction = it.transaction(lease)
            with pytest.raises(LostLease, match="another worker may run the job"):
                await transaction.begin(blocking=True)
            await transaction.rollback()

    asyncio.run(go())


def test_a_heartbeat_extends_the_lease_while_a_transaction_is_open(postgres_url):
    async def go():
        async with world(postgres_url, none) as it:
            lease = await it.claim()
            transaction = it.transaction(lease)
            await execute(await transaction.begin(), INSERT)
            heartbeats = it.store.heartbeats()
            async with asyncio.timeout(SOON):
                assert (await heartbeats.extend([lease], 60.0)).lost == ()
            await heartbeats.close()
            assert (await transaction.complete(Finished(lease, Completed()))).refused == ()
            await transaction.rollback()

    asyncio.run(go())


# -- cancelled while it opens or begins ------------------------------------------------------------


class Gate:
    """Holds a call of a driver in the middle until it is opened."""

    def __init__(self):
        self.reached = threading.Event()
        self.opened = threading.Event()

    def hold(self):
        self.reached.set()
        assert self.opened.wait(SOON)

    async def hold_async(self):
        self.reached.set()
        async with asyncio.timeout(SOON):
            while not self.opened.is_set():
                await asyncio.sleep(0.01)

    async def cancel_at(self, begin):
        """Cancel `begin` in the middle, then open the gate, as TransactionBlock does roll back."""
        task = asyncio.ensure_future(begin)
        async with asyncio.timeout(SOON):
            while not self.reached.is_set():
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def held_psycopg(gate):
    class Transaction(psycopg.Transaction):
        def __enter__(self):
            entered = super().__enter__()
            gate.hold()
            return entered

    class Connection(psycopg.Connection):
        def transaction(self):
            return Transaction(self)

    @contextlib.asynccontextmanager
    async def source(url):
        with Connection.connect(url) as connection:
            yield connection

    return source, lambda connection: connection.info.transaction_status.name == "IDLE"


def held_sqlalchemy(gate):
    @contextlib.asynccontextmanager
    async def source(url):
        async with sqlalchemy_connection(url) as connection:
            sqlalchemy.event.listen(connection, "begin", lambda connection: gate.hold())
            yield connection

    return source, lambda connection: not connection.in_transaction()


def held_asyncpg(gate):
    class Transaction(asyncpg.transaction.Transaction):
        async def start(self):
            await super().start()
            await gate.hold_async()

    class Connection(asyncpg.Connection):
        def transaction(self):
            return Transaction(self, None, readonly=False, deferrable=False)

    @contextlib.asynccontextmanager
    async def source(url):
        connection = await asyncpg.connect(url, connection_class=Connection)
        try:
            yield connection
        finally:
            await connection.close()

    return source, lambda connection: not connection.is_in_transaction()


@pytest.mark.parametrize("held", [held_psycopg, held_sqlalchemy, held_asyncpg])
def test_a_cancel_while_it_begins_leaves_the_given_connection_without_a_transaction(
    held, postgres_url
):
    gate = Gate()
    source, is_idle = held(gate)

    async def go():
        async with world(postgres_url, source) as it:
            transaction = it.transaction(await it.claim())
            await gate.cancel_at(transaction.begin())
            closing = asyncio.ensure_future(transaction.rollback())
            gate.opened.set()
            await closing
            assert is_idle(it.source)

    asyncio.run(go())


@pytest.mark.parametrize("is_blocking", [False, True])
def test_a_cancel_while_a_source_connects_closes_the_connection(is_blocking, postgres_url):
    gate, made = Gate(), []

    def connect():
        made.append(psycopg.connect(postgres_url))
        gate.hold()
        return made[0]

    async def go():
        async with world(postgres_url, none) as it:
            transaction = it.store.transaction(await it.claim(), connect)
            await gate.cancel_at(transaction.begin(blocking=is_blocking))
            closing = asyncio.ensure_future(transaction.rollback())
            gate.opened.set()
            await closing
            assert made[0].closed

    asyncio.run(go())


def test_a_cancelled_rollback_still_closes_the_connection(postgres_url):
    """The connection is closed once, after the call that was cancelled has ended on its thread."""
    gate, made = Gate(), []

    def connect():
        made.append(psycopg.connect(postgres_url))
        gate.hold()
        return made[0]

    async def go():
        async with world(postgres_url, none) as it:
            transaction = it.store.transaction(await it.claim(), connect)
            await gate.cancel_at(transaction.begin())
            closing = asyncio.ensure_future(transaction.rollback())
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            gate.opened.set()
            await transaction.rollback()
            assert made[0].closed

    asyncio.run(go())


def test_the_event_loop_runs_while_a_source_that_blocks_connects(postgres_url):
    gate = Gate()

    def connect():
        gate.hold()
        return psycopg.connect(postgres_url)

    async def go():
        async with world(postgres_url, none) as it:
            transaction = it.store.transaction(await it.claim(), connect)
            beginning = asyncio.ensure_future(transaction.begin())
            async with asyncio.timeout(SOON):
                while not gate.reached.is_set():
                    await asyncio.sleep(0.01)
            gate.opened.set()  # by this event loop, which a call of the source would hold up
            await execute(await beginning, INSERT)
            await transaction.rollback()

    asyncio.run(go())


def test_a_source_that_is_declared_async_is_called_on_the_event_loop(postgres_url):
    loops = []

    async def connect():
        return await asyncpg.connect(postgres_url)

    @contextlib.asynccontextmanager
    async def connected():
        loops.append(asyncio.get_running_loop())
        connection = await connect()
        try:
            yield connection
        finally:
            await connection.close()

    async def go():
        async with world(postgres_url, none) as it:
            lease = await it.claim()
            for source in (connect, connected):
                transaction = it.store.transaction(lease, source)
                await execute(await transaction.begin(), INSERT)
                await transaction.rollback()
            assert loops == [asyncio.get_running_loop()]

    asyncio.run(go())
