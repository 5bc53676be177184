"""The store works through PgBouncer in transaction mode, and says what is lost."""

import asyncio
from itertools import chain

import pytest
from tests.store.postgres.conftest import ANY, Bench, jobs
from tests.store.test_conformance_postgres import check
from tests.support.missing import do_without
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres_server import PostgresMissing

from holdfast.jobs.model import NewJob
from holdfast.store.postgres.session import SETTINGS
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.conformance import FACTS, Fact

# A few, each of another part of the store: the whole suite takes minutes.
CHECKED = {
    "a_fetch_outside_a_transaction_changes_nothing",
    "a_kind_runs_no_more_jobs_at_once_than_its_limit",
    "changes_are_streamed_in_order_without_gaps",
    "enqueueing_by_another_handle_wakes_a_waiting_worker",
    "every_report_of_a_zombie_is_refused",
    "heartbeats_work_from_a_thread_with_its_own_loop",
    "one_holder_leads_until_its_lease_expires",
    "rows_and_jobs_are_committed_together",
    "waiting_for_changes_ends_with_a_change",
}

PLANNER = {name: SETTINGS[name] for name in ("enable_seqscan", "plan_cache_mode", "jit")}


@pytest.fixture(scope="module")
def pooler(postgres_server):
    running = PgBouncer(postgres_server)
    try:
        running.start()
    except PostgresMissing as error:
        do_without(error)
    yield running
    running.close()


@pytest.fixture
def pooled(pooler, postgres_server, postgres_url):
    """Stores that reach the database of `postgres_url` through the pooler."""
    return Bench(pooler.url(postgres_url.rpartition("/")[2]), postgres_server)


@pytest.mark.parametrize(
    "fact", [fact for fact in FACTS if fact.__name__ in CHECKED], ids=lambda fact: fact.__name__
)
def test_the_store_keeps(fact: Fact, pooled, postgres_url):
    asyncio.run(check(fact, pooled.url, postgres_url))


def test_every_fact_that_is_checked_exists():
    assert {fact.__name__ for fact in FACTS} >= CHECKED


def test_opening_says_once_what_is_lost(pooled, caplog):
    async def scenario():
        store = PostgresStore(pooled.url)
        for _ in range(2):
            async with store:
                await store.ping()

    asyncio.run(scenario())
    (record,) = caplog.records
    assert record.name == "holdfast.store"
    assert "without LISTEN" in record.getMessage()
    assert "dead worker" in record.getMessage()


def test_a_direct_connection_is_not_taken_for_a_pooled_one(play, caplog):
    async def scenario(store):
        assert not store._database.pooled

    play(scenario)
    assert caplog.records == []


def test_every_transaction_has_the_settings(pooled):
    async def read(connection):
        return {name: (await connection.fetch(f"SHOW {name}"))[0][0] for name in PLANNER}

    async def scenario():
        async with pooled.stores(1) as (store,):
            async with store._database.connection() as connection:
                assert await read(connection) == PLANNER
            assert await store._database.transaction(read) == PLANNER

    asyncio.run(scenario())


def test_a_transaction_on_a_session_of_its_own_does_not_set_them_again(play):
    statements = []

    async def scenario(store):
        async with store._database.connection() as connection:
            connection.add_query_logger(lambda query: statements.append(query.query))
        await store._database.transaction(lambda connection: connection.fetchval("SELECT 1"))

    play(scenario)
    assert not [query for query in statements if "SET LOCAL" in query]
    assert [query for query in statements if query == "SELECT 1"]


def test_the_schema_is_migrated_through_the_pooler(pooler, postgres_server):
    name = postgres_server.create_database()

    async def scenario():
        async with PostgresStore(pooler.url(name), migrate=True) as store:
            await store.enqueue([NewJob("a", "work")])
            assert (await store.get("a")) is not None

    asyncio.run(scenario())
    postgres_server.drop_database(name)


def test_workers_on_many_connections_complete_every_job_once(pooled):
    async def scenario():
        async with pooled.stores(3) as stores:
            await stores[0].enqueue(jobs(300))
            done = await asyncio.gather(
                *(pooled.drain(store, f"w{n}-{m}") for n, store in enumerate(stores) for m in "ab")
            )
            assert sorted(chain.from_iterable(done)) == [job.id for job in jobs(300)]
            assert not (await stores[0].tick("w", claim=ANY)).claims

    asyncio.run(scenario())


def test_a_worker_behind_the_pooler_is_not_watched_by_its_session(pooled, postgres_url):
    """Its session is shared: a free lock would not say that the worker is dead."""

    async def scenario():
        async with pooled.stores(1) as (store,):
            heartbeats = store.heartbeats()
            await heartbeats.register("w")
            assert await Bench(postgres_url, None).execute("SELECT id FROM holdfast.workers") == []
            await heartbeats.close()

    asyncio.run(scenario())
