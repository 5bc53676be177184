"""Joining a caller's transaction, driver by driver: enqueued with its commit, or never."""

import asyncio
import contextlib
from dataclasses import dataclass

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from tests.store.postgres.conftest import ANY
from tests.support.waiting import until

from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.model import Completed, Finished, NewJob
from holdfast.store.joining import NoTransaction, join, numbered, pyformat
from holdfast.store.postgres.store import PostgresStore


class Undo(Exception):
    """Raised to leave a transaction without committing it."""


@contextlib.asynccontextmanager
async def asyncpg_connection(url):
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def asyncpg_pool(url):
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


@contextlib.asynccontextmanager
async def asyncpg_own_int8(url):
    """A caller may read and write bigint as another type."""
    async with asyncpg_connection(url) as connection:
        await connection.set_type_codec(
            "int8", schema="pg_catalog", encoder=lambda value: value.text, decoder=Bigint
        )
        yield connection


@dataclass(frozen=True)
class Bigint:
    text: str


@contextlib.asynccontextmanager
async def psycopg_sync(url):
    with psycopg.connect(url) as connection:
        yield connection


@contextlib.asynccontextmanager
async def psycopg_sync_autocommit(url):
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        yield connection


@contextlib.asynccontextmanager
async def psycopg_async(url):
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@contextlib.asynccontextmanager
async def psycopg_raw_cursor(url):
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as connection:
        yield connection


@contextlib.asynccontextmanager
async def psycopg_async_raw_cursor(url):
    async with await psycopg.AsyncConnection.connect(
        url, cursor_factory=psycopg.AsyncRawCursor
    ) as connection:
        yield connection


@contextlib.asynccontextmanager
async def psycopg_pipeline(url):
    with psycopg.connect(url) as connection, connection.pipeline():
        connection.execute("SELECT 1")
        yield connection


@contextlib.asynccontextmanager
async def psycopg_pipeline_autocommit(url):
    with (
        psycopg.connect(url, autocommit=True) as connection,
        connection.pipeline(),
        connection.transaction(),
    ):
        connection.execute("SELECT 1")
        yield connection


@contextlib.asynccontextmanager
async def psycopg_async_pipeline(url):
    async with (
        await psycopg.AsyncConnection.connect(url) as connection,
        connection.pipeline(),
    ):
        await connection.execute("SELECT 1")
        yield connection


@contextlib.asynccontextmanager
async def sqlalchemy_connection(url):
    engine = sqlalchemy.create_engine(url.replace("://", "+psycopg://", 1))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextlib.asynccontextmanager
async def sqlalchemy_session(url):
    engine = sqlalchemy.create_engine(url.replace("://", "+psycopg://", 1))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@contextlib.asynccontextmanager
async def sqlalchemy_async_connection(url):
    engine = create_async_engine(url.replace("://", "+asyncpg://", 1))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@contextlib.asynccontextmanager
async def sqlalchemy_async_session(url):
    engine = create_async_engine(url.replace("://", "+asyncpg://", 1))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


@contextlib.asynccontextmanager
async def sqlalchemy_async_psycopg(url):
    engine = create_async_engine(url.replace("://", "+psycopg://", 1))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


DRIVERS = [
    asyncpg_connection,
    asyncpg_pool,
    asyncpg_own_int8,
    psycopg_sync,
    psycopg_sync_autocommit,
    psycopg_async,
    psycopg_raw_cursor,
    psycopg_async_raw_cursor,
    psycopg_pipeline,
    psycopg_pipeline_autocommit,
    psycopg_async_pipeline,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_async_connection,
    sqlalchemy_async_session,
    sqlalchemy_async_psycopg,
]
BATCH = [
    NewJob(
        "full",
        "work",
        arguments='{"n": 1}',
        downstream="gateway",
        priority=3,
        max_attempts=7,
        run_at=9e9,
        deadline_at=9.5e9,
        dedup_key="k",
        owner="ann",
        meta='{"size": 100}',
    ),
    NewJob("plain", "work"),
    NewJob("twin", "work", dedup_key="k"),
]


@pytest.mark.parametrize("begin", DRIVERS)
def test_a_committed_bulk_is_enqueued_completely(postgres_url, begin):
    async def scenario():
        async with PostgresStore(postgres_url) as store:
            async with begin(postgres_url) as connection:
                answers = await store.enqueue_on(connection, BATCH)
                assert await store.get("plain") is None
            assert [(answer.id, answer.created) for answer in answers] == [
                ("full", True),
                ("plain", True),
                ("full", False),
            ]
            job = await store.get("full")
            assert (job.arguments, job.priority, job.max_attempts) == ('{"n": 1}', 3, 7)
            assert (job.ready_at, job.deadline_at, job.owner) == (9e9, 9.5e9, "ann")
            assert (job.downstream, job.dedup_key, job.meta) == (
                "gateway",
                "k",
                '{"size": 100}',
            )
            assert len(await store.events("plain")) == 1
            claims = (await store.tick("w", claim=ANY)).claims
            assert [claim.job_id for claim in claims] == ["plain"]
            assert claims[0].arguments == "null"

    asyncio.run(scenario())


@pytest.mark.parametrize("begin", DRIVERS)
def test_a_rolled_back_bulk_is_not_enqueued(postgres_url, begin):
    async def scenario():
        async with PostgresStore(postgres_url) as store:
            start = await store.last_sequence()
            with contextlib.suppress(Undo):
                async with begin(postgres_url) as connection:
                    await store.enqueue_on(connection, BATCH)
                    raise Undo
            assert await store.get("full") is None
            assert (await store.list_jobs()).jobs == ()
            assert await store.changes_since(start) == ()
            assert all(
                (lane.ready, lane.scheduled) == (0, 0) for lane in (await store.stats()).lanes
            )
            (again,) = await store.enqueue([NewJob("other", "work", dedup_key="k")])
            assert again.created

    asyncio.run(scenario())


@pytest.mark.parametrize("begin", DRIVERS)
def test_a_twin_that_exists_is_found(postgres_url, begin):
    async def scenario():
        async with PostgresStore(postgres_url) as store:
            await store.enqueue([NewJob("old", "work", dedup_key="k")])
            async with begin(postgres_url) as connection:
                first = await store.enqueue_on(connection, [NewJob("new", "work", dedup_key="k")])
                second = await store.enqueue_on(connection, [NewJob("old", "work")])
            assert [(answer.id, answer.created) for answer in first + second] == [
                ("old", False),
                ("old", False),
            ]

    asyncio.run(scenario())


@pytest.mark.parametrize("begin", DRIVERS)
def test_a_key_is_taken_over_with_the_commit(postgres_url, begin):
    """From a complete job, where only unfinished twins count."""

    def job(name):
        return NewJob(name, "work", dedup_key="k", dedup_rule=DedupRule(unfinished=True))

    async def scenario():
        async with PostgresStore(postgres_url) as store:
            await store.enqueue([job("done")])
            (claim,) = (await store.tick("w", claim=ANY)).claims
            await store.tick("w", [Finished(claim.lease, Completed())])
            with contextlib.suppress(Undo):
                async with begin(postgres_url) as connection:
                    (lost,) = await store.enqueue_on(connection, [job("lost")])
                    assert lost.created
                    raise Undo
            assert (await store.get("done")).dedup_key == "k"
            async with begin(postgres_url) as connection:
                (new,) = await store.enqueue_on(connection, [job("new")])
                (twin,) = await store.enqueue_on(connection, [job("twin")])
            assert (new.created, twin.id) == (True, "new")
            assert (await store.get("done")).dedup_key is None

    asyncio.run(scenario())


def test_the_callers_row_and_the_job_share_their_fate(postgres_url):
    async def scenario():
        async with PostgresStore(postgres_url) as store:
            connection = await asyncpg.connect(postgres_url)
            await connection.execute("CREATE TABLE orders (id int)")
            for number, fails in ((1, False), (2, True)):
                with contextlib.suppress(Undo):
                    async with connection.transaction():
                        await connection.execute("INSERT INTO orders VALUES ($1)", number)
                        await store.enqueue_on(connection, [NewJob(f"order-{number}", "work")])
                        if fails:
                            raise Undo
            assert await connection.fetchval("SELECT array_agg(id) FROM orders") == [1]
            await connection.close()
            assert [job.id for job in (await store.list_jobs()).jobs] == ["order-1"]

    asyncio.run(scenario())


def test_two_transactions_that_want_the_same_twin_agree(postgres_url):
    """The second waits for the first, and then gets its job."""

    async def scenario():
        async with PostgresStore(postgres_url) as store:
            one, two = [await asyncpg.connect(postgres_url) for _ in range(2)]
            first = one.transaction()
            await first.start()
            await store.enqueue_on(one, [NewJob("one", "work", dedup_key="k")])

            async def second():
                async with two.transaction():
                    return await store.enqueue_on(two, [NewJob("two", "work", dedup_key="k")])

            waiting = asyncio.create_task(second())
            pid, blockers = two.get_server_pid(), "SELECT pg_blocking_pids($1)"
            await until(lambda: one.fetchval(blockers, pid))
            await first.commit()
            (answer,) = await waiting
            assert (answer.id, answer.created) == ("one", False)
            for connection in (one, two):
                await connection.close()

    asyncio.run(scenario())


def test_a_transaction_that_cannot_see_others_fails_rather_than_create_a_twin(postgres_url):
    async def scenario():
        async with PostgresStore(postgres_url) as store:
            connection = await asyncpg.connect(postgres_url)
            transaction = connection.transaction(isolation="repeatable_read")
            await transaction.start()
            await connection.fetch("SELECT 1")
            await store.enqueue([NewJob("old", "work", dedup_key="k")])
            with pytest.raises(asyncpg.PostgresError):
                await store.enqueue_on(connection, [NewJob("new", "work", dedup_key="k")])
            await transaction.rollback()
            await connection.close()
            assert [job.id for job in (await store.list_jobs()).jobs] == ["old"]

    asyncio.run(scenario())


def test_a_pipeline_without_a_transaction_is_refused(postgres_url):
    """Before its statements are answered a pipeline does not say whether it is in one."""

    async def scenario():
        async with PostgresStore(postgres_url) as store:
            with (
                psycopg.connect(postgres_url, autocommit=True) as connection,
                connection.pipeline(),
            ):
                connection.execute("SELECT 1")
                await _refused(store, connection, "autocommit")
            async with (
                await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection,
                connection.pipeline(),
            ):
                await connection.execute("SELECT 1")
                await _refused(store, connection, "autocommit")

    asyncio.run(scenario())


async def _refused(store, connection, words):
    with pytest.raises(NoTransaction, match=words):
        await store.enqueue_on(connection, [NewJob("a", "work")])
    assert await store.get("a") is None


def test_a_connection_without_a_transaction_is_refused(postgres_url):
    async def scenario():
        async with PostgresStore(postgres_url) as store:
            bare = await asyncpg.connect(postgres_url)
            await _refused(store, bare, "async with connection.transaction")
            await bare.close()
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                await _refused(store, connection, "autocommit")
            async with await psycopg.AsyncConnection.connect(
                postgres_url, autocommit=True
            ) as connection:
                await _refused(store, connection, "autocommit")
            engine = sqlalchemy.create_engine(
                postgres_url.replace("://", "+psycopg://", 1), isolation_level="AUTOCOMMIT"
            )
            with engine.connect() as connection:
                await _refused(
                    store, connection.execution_options(isolation_level="AUTOCOMMIT"), "AUTOCOMMIT"
                )
            engine.dispose()
            engine = create_async_engine(postgres_url.replace("://", "+asyncpg://", 1))
            async with engine.connect() as connection:
                careless = await connection.execution_options(isolation_level="AUTOCOMMIT")
                await _refused(store, careless, "AUTOCOMMIT")
            await engine.dispose()

    asyncio.run(scenario())


@contextlib.asynccontextmanager
async def sqlalchemy_way(url, way):
    """Yield a connection or session of an engine that is AUTOCOMMIT as a whole."""
    if "async" in way:
        engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
        async with engine.connect() if way == "async connection" else AsyncSession(engine) as own:
            yield own
        await engine.dispose()
    else:
        engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() if way == "connection" else Session(engine) as own:
            yield own
        engine.dispose()


@pytest.mark.parametrize(
    "driver, way",
    [
        ("psycopg", "connection"),
        ("psycopg", "session"),
        ("psycopg", "async connection"),
        ("asyncpg", "async connection"),
        ("asyncpg", "async session"),
    ],
)
def test_an_engine_that_commits_every_statement_is_refused(postgres_url, driver, way):
    async def scenario():
        url = postgres_url.replace("://", f"+{driver}://", 1)
        async with PostgresStore(postgres_url) as store, sqlalchemy_way(url, way) as connection:
            await _refused(store, connection, "AUTOCOMMIT")

    asyncio.run(scenario())


def test_a_connection_to_another_kind_of_database_is_refused(postgres_url):
    async def scenario():
        async with PostgresStore(postgres_url) as store:
            engine = sqlalchemy.create_engine("sqlite://")
            refused = pytest.raises(TypeError, match="to sqlite, but the store is on PostgreSQL")
            with engine.connect() as connection, refused:
                await store.enqueue_on(connection, [NewJob("a", "work")])
            engine.dispose()

    asyncio.run(scenario())


@pytest.mark.parametrize("connection", [object(), "postgresql://h/db", None, 7])
def test_the_error_for_an_unknown_connection_names_the_accepted_ones(connection):
    with pytest.raises(TypeError, match=r"does not take builtins\.\w+; it takes an asyncpg"):
        join(connection)


@pytest.mark.parametrize(
    "job, words",
    [
        (NewJob("a", "work", arguments='"\x00"'), "arguments holds a NUL"),
        (NewJob("a", "work", owner="\ud800"), "owner holds a NUL character or a lone surrogate"),
    ],
)
def test_a_job_that_cannot_be_stored_does_not_cost_the_caller_the_transaction(
    postgres_url, job, words
):
    async def scenario():
        async with PostgresStore(postgres_url) as store:
            async with asyncpg_connection(postgres_url) as connection:
                with pytest.raises(ValueError, match=words):
                    await store.enqueue_on(connection, [NewJob("b", "work"), job])
                await store.enqueue_on(connection, [NewJob("c", "work")])
                assert await store.enqueue_on(connection, []) == ()
            assert [job.id for job in (await store.list_jobs()).jobs] == ["c"]

    asyncio.run(scenario())


class TestStatements:
    """The statements and parameters that an adapter runs."""

    def test_an_sqlalchemy_connection_names_its_database(self):
        engine = sqlalchemy.create_engine("sqlite://")
        with engine.begin() as connection:
            joined = join(connection)
            assert joined.database == "sqlite"
            assert asyncio.run(joined.execute("SELECT :a", {"a": "x"})) == [("x",)]
        engine.dispose()

    def test_statements_without_rows_return_none(self, postgres_url):
        async def scenario():
            for begin in (psycopg_sync, psycopg_async, asyncpg_connection):
                async with begin(postgres_url) as connection:
                    joined = join(connection)
                    assert await joined.execute("SELECT 7 % 4, '%'", {}) == [(3, "%")]

        asyncio.run(scenario())

    def test_parameters_are_numbered_in_order_of_appearance(self):
        assert numbered("SELECT :b, :a, :b::text, a::int, ':x'") == (
            "SELECT $1, $2, $1::text, a::int, '$3'",
            ("b", "a", "x"),
        )

    def test_percent_signs_survive(self):
        assert pyformat("SELECT :a % 2 LIKE '%'") == "SELECT %(a)s %% 2 LIKE '%%'"
