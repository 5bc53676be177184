"""A claim costs what it takes: not more with many lanes, owners, jobs, or old index entries."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg
import pytest
from tests.store.postgres.conftest import jobs

from holdfast.jobs.client.downstream_control import DownstreamControl
from holdfast.jobs.control_port import PauseScope
from holdfast.jobs.downstreams.record import DownstreamSettings
from holdfast.jobs.model import Completed, Finished, NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.resilience.policy import BreakerPolicy, RateLimit
from holdfast.store.postgres.connection import Database
from holdfast.store.postgres.lanes import Lanes
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.postgres.tick import Ticker
from holdfast.testing import VirtualClock

# Index scans and the entries they read, on all tables of ours, since the transaction began.
READ = """
SELECT CAST(sum(
    pg_stat_get_xact_numscans(indexes.indexrelid)
    + pg_stat_get_xact_tuples_returned(indexes.indexrelid)
) AS bigint)
FROM pg_index AS indexes
JOIN pg_class AS tables ON tables.oid = indexes.indrelid
WHERE tables.relnamespace = 'holdfast'::regnamespace
"""
REQUEST = ClaimRequest(10, ("default",), {"work": None})


class Counted:
    """Ticks of one worker in one transaction, which counts what they read.

    Its clock stands still, so lanes are not looked through again because time has passed.
    """

    def __init__(self, url):
        self._database = Database(url, connections=1, timeout=60.0)
        self._ticker = Ticker(self._database, Lanes(self._database), VirtualClock())

    async def __aenter__(self):
        await self._database.open()
        return self

    async def __aexit__(self, *_):
        await self._database.close()

    async def read(self, request, *, ahead, claims=1):
        """Return how many entries a claim reads, on average of `claims` after `ahead` others."""
        database = self._database
        async with database.connection() as connection, connection.transaction():

            @asynccontextmanager
            async def the_same():
                yield connection

            database.connection = the_same
            finished, begin = [], 0
            for number in range(ahead + claims):
                if number == ahead:
                    begin = await connection.fetchval(READ)
                result = await self._ticker.tick("w", finished, request, None)
                assert len(result.claims) == request.limit
                finished = [Finished(claim.lease, Completed()) for claim in result.claims]
            del database.connection
            return (await connection.fetchval(READ) - begin) / claims


def cost(url, prepare, request=REQUEST, claims=5):
    """Return what a claim costs on a store that `prepare` has filled."""

    async def scenario():
        async with PostgresStore(url) as store:
            await prepare(store)
        async with Counted(url) as counted:
            return await counted.read(request, ahead=1, claims=claims)

    return asyncio.run(scenario())


def with_lanes(number, *, held=0, **settings):
    """Return what creates `number` lanes of 12 jobs each, and `held` ones."""

    async def prepare(store):
        names = [f"host:{n}" for n in range(number + held)]
        await store.declare_downstreams([DownstreamSettings(name, **settings) for name in names])
        await store.enqueue(
            [NewJob(f"{name}-{n}", "work", downstream=name) for name in names for n in range(12)]
        )
        for name in names[number:]:
            await DownstreamControl(store).hold(name)

    return prepare


@pytest.fixture
def fresh_url(postgres_server, postgres_url):
    """Return a function that makes further migrated databases."""
    names = []

    def make():
        names.append(postgres_server.create_database())
        url = postgres_server.url(names[-1])
        asyncio.run(PostgresStore(url).migrate())
        return url

    yield make
    for name in names:
        postgres_server.drop_database(name)


@pytest.mark.parametrize("settings", [{}, {"concurrency": 4}, {"breaker": BreakerPolicy()}])
def test_a_claim_costs_no_more_with_hundreds_of_lanes(fresh_url, settings):
    few = cost(fresh_url(), with_lanes(20, **settings))
    assert cost(fresh_url(), with_lanes(400, **settings)) < 1.5 * few


def test_a_claim_costs_no_more_with_hundreds_of_held_lanes(fresh_url):
    breaker = BreakerPolicy()
    few = cost(fresh_url(), with_lanes(20, breaker=breaker))
    assert cost(fresh_url(), with_lanes(20, held=300, breaker=breaker)) < 1.5 * few


def test_a_claim_costs_no_more_with_thousands_of_paused_jobs(fresh_url):
    def paused(number):
        async def prepare(store):
            await store.enqueue([NewJob(f"job-{n}", "work") for n in range(100)])
            await store.enqueue([NewJob(f"paused-{n}", "other", priority=9) for n in range(number)])
            await store.enqueue([NewJob(f"queued-{n}", "work", "quiet") for n in range(number)])
            await store.pause(PauseScope.KIND, ["other"])
            await store.pause(PauseScope.QUEUE, ["quiet"])

        return prepare

    request = replace(REQUEST, queues=("default", "quiet"), kinds={"work": None, "other": None})
    few = cost(fresh_url(), paused(20), request)
    assert cost(fresh_url(), paused(4000), request) < 1.5 * few


def test_a_claim_costs_no_more_behind_a_flood_of_another_owner(fresh_url):
    async def alone(store):
        await store.enqueue(jobs(100, owner="bob"))

    def flooded(number):
        async def prepare(store):
            await store.enqueue(jobs(number, prefix="flood", owner="ann"))
            await store.enqueue(jobs(100, owner="bob"))

        return prepare

    few = cost(fresh_url(), flooded(200))
    assert cost(fresh_url(), flooded(4000)) < 1.5 * few
    assert few < 5 * cost(fresh_url(), alone)


def test_a_claim_costs_no_more_with_hundreds_of_owners(fresh_url):
    def owned(number):
        async def prepare(store):
            names = [f"owner-{owner:03}" for owner in range(number)]
            for kind in ("work", "other"):
                for name in names:
                    await store.enqueue(jobs(40, kind, f"{kind}-{name}", owner=name))

        return prepare

    request = replace(REQUEST, limit=100, kinds={"work": None, "other": None})
    # The second claim serves other owners than the first, so neither reads old index entries.
    few = cost(fresh_url(), owned(20), request, claims=1)
    assert cost(fresh_url(), owned(120), request, claims=1) < 1.1 * few


def test_a_claim_does_not_read_dead_rows_kept_by_an_open_transaction(bench):
    """The index entries of claimed jobs stay, and the claim begins after them."""
    large = ClaimRequest(500, ("default",), {"work": None})

    async def scenario():
        async with PostgresStore(bench.url) as store:
            await store.enqueue(jobs(6000))
        other = await asyncpg.connect(bench.url)
        async with Counted(bench.url) as counted, other.transaction(isolation="repeatable_read"):
            await other.fetchval("SELECT count(*) FROM holdfast.lanes")
            few = await counted.read(large, ahead=1)
            many = await counted.read(large, ahead=8)
        await other.close()
        return few, many

    few, many = asyncio.run(scenario())
    assert many < 1.5 * few


@pytest.mark.parametrize("settings", [{"concurrency": 1}, {"rate": RateLimit(per_minute=1)}])
def test_a_claim_past_hundreds_of_full_downstreams_takes_few_statements(play, settings):
    statements = []

    async def scenario(store):
        names = [f"host:{n}" for n in range(300)]
        await store.declare_downstreams([DownstreamSettings(name, **settings) for name in names])
        await store.enqueue(
            [job for name in names for job in jobs(2, prefix=name, downstream=name)]
        )
        request = replace(REQUEST, limit=300)
        assert len((await store.tick("w", claim=request)).claims) == 300
        await store.enqueue(jobs(1, prefix="last", downstream="last"))
        await store.declare_downstreams([DownstreamSettings("last", **settings)])
        async with store._database.connection() as connection:
            connection.add_query_logger(statements.append)
        for claimed in (["last-00000"], []):
            statements.clear()
            claims = (await store.tick("w", claim=replace(REQUEST, limit=1))).claims
            assert [claim.job_id for claim in claims] == claimed
            assert 0 < len(statements) < 60

    play(scenario, connections=1)


def test_a_claim_of_a_kind_with_a_limit_reports_nothing_before_it_claims(play):
    statements = []

    async def scenario(store):
        await store.enqueue(jobs(2))
        request = replace(REQUEST, limit=1, kinds={"work": 5})
        await store.tick("w", claim=request)  # now the store knows that limits are to be checked
        async with store._database.connection() as connection:
            connection.add_query_logger(lambda query: statements.append(query.query))
        assert len((await store.tick("w", claim=request)).claims) == 1

    play(scenario, connections=1)
    assert not [query for query in statements if "report_and_claim" in query]
    assert len(statements) <= 10
