"""Logical replication: a publication hinders nothing, and a subscriber holds the jobs."""

import asyncio

import pytest
from tests.store.postgres.conftest import ANY, Bench, jobs
from tests.store.postgres.test_dump import go_on, restore_plain, run, stored
from tests.support.postgres import obtain
from tests.support.waiting import until

from holdfast.jobs.model import Completed, Finished, NewJob
from holdfast.store.postgres.counters import FAILED_FOLDS
from holdfast.store.postgres.store import PostgresStore

WITHOUT_IDENTITY = """
SELECT relname
FROM pg_class
WHERE relnamespace = 'holdfast'::regnamespace
    AND relkind IN ('r', 'p')
    AND relreplident <> 'f'
    AND NOT EXISTS (
        SELECT FROM pg_index
        WHERE indrelid = pg_class.oid
            AND CASE relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident END
    )
"""

TABLES = """
SELECT relname FROM pg_class
WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r'
"""


@pytest.fixture(scope="module")
def publisher():
    server = obtain(fsync=False, settings={"wal_level": "logical"})
    yield server
    server.close()


@pytest.fixture
def published(publisher):
    """A migrated database all of whose tables are published."""
    if not publisher.private:
        pytest.skip("needs a server of its own, with wal_level = logical")
    name = publisher.create_database()
    asyncio.run(PostgresStore(publisher.url(name)).migrate())
    publisher.execute("CREATE PUBLICATION everything FOR ALL TABLES", name)
    yield Bench(publisher.url(name), publisher)
    publisher.drop_database(name)


def test_every_table_has_a_replica_identity(bench):
    assert asyncio.run(bench.execute(WITHOUT_IDENTITY)) == []


def test_jobs_run_and_counters_fold_while_all_tables_are_published(published):
    async def scenario():
        async with published.stores(1) as (store,):
            await store.enqueue([NewJob(f"job-{n}", "work") for n in range(20)])
            assert len(await published.drain(store, "w", ANY)) == 20
            await store.rescue()
            assert await published.execute("SELECT count(*) FROM holdfast.counter_deltas") == [(0,)]
            stats = await store.stats()
            assert FAILED_FOLDS not in stats.totals
            assert stats.lanes[0].complete == 20

    asyncio.run(scenario())


@pytest.fixture
def subscriber(published):
    """A database on another server with the schema and a subscription to all of `published`."""
    server = obtain(fsync=False)
    name = server.create_database()
    restore_plain(
        server.url(name), run("pg_dump", "--schema-only", "--no-publications", published.url)
    )
    server.execute(
        f"CREATE SUBSCRIPTION copy CONNECTION '{published.url}' PUBLICATION everything", name
    )
    yield Bench(server.url(name), server)
    server.close()


def test_a_subscriber_holds_the_jobs_and_can_take_over(published, subscriber):
    async def move():
        """Change jobs before and after the subscriber has copied the tables."""
        async with published.stores(1) as (store,):
            await store.enqueue([NewJob("odd", "work", dedup_key="k", run_at=9e9), *jobs(30)])
            await until(lambda: caught_up(subscriber, 31))
            claims = (await store.tick("w", claim=ANY)).claims
            await store.tick("w", [Finished(claim.lease, Completed()) for claim in claims[:5]])
            await store.cancel("job-00029")
            await store.enqueue([NewJob("last", "other")])
            await store.rescue()  # folds the counters, which deletes rows
        await until(lambda: caught_up(subscriber, 32, published))

    async def caught_up(bench, count, source=None):
        found = await bench.execute("SELECT count(*) FROM holdfast.jobs")
        if source is None:
            return found == [(count,)]
        every = "SELECT * FROM holdfast.{} AS each ORDER BY each::text"
        return all(
            [
                await bench.execute(every.format(table))
                == await source.execute(every.format(table))
                for (table,) in await source.execute(TABLES)
            ]
        )

    asyncio.run(move())
    before = asyncio.run(stored(published.url))
    subscriber.server.execute("DROP SUBSCRIPTION copy", subscriber.url.rpartition("/")[2])
    asyncio.run(subscriber.execute("SELECT holdfast.advance_sequences()"))
    after = asyncio.run(stored(subscriber.url))
    assert after[:3] == before[:3]
    asyncio.run(go_on(subscriber.url))
