"""Shared fixtures of the PostgreSQL store's tests."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import pytest

from holdfast.errors import ErrorCode
from holdfast.jobs.model import Completed, Finished, JobError, NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.postgres.store import PostgresStore

BROKEN = JobError(ErrorCode.GW_5XX, "the gateway answered 502")
ANY = ClaimRequest(10, ("default",), {"work": None})


class Bench:
    """Stores on one database, with helpers for common steps."""

    def __init__(self, url, server):
        self.url = url
        self.server = server

    @asynccontextmanager
    async def stores(self, number, **options):
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(PostgresStore(self.url, **options))
                for _ in range(number)
            ]

    async def execute(self, sql):
        """Run statements on a new connection; return the rows, if any."""
        connection = await asyncpg.connect(self.url)
        try:
            if sql.count(";") > 1:
                return await connection.execute(sql)
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    async def drain(self, store, worker, request=ANY, *, claimed=None):
        """Claim and complete until no job is left; return the ids in order."""
        ids = [] if claimed is None else claimed
        finished = []
        while True:
            result = await store.tick(worker, finished, request)
            assert result.refused == ()
            if not result.claims:
                return ids
            ids += [claim.job_id for claim in result.claims]
            finished = [Finished(claim.lease, Completed()) for claim in result.claims]


@pytest.fixture
def bench(postgres_url, postgres_server):
    return Bench(postgres_url, postgres_server)


@pytest.fixture
def play(bench):
    """Run a scenario with one open store."""

    def run(scenario, **options):
        async def main():
            async with PostgresStore(bench.url, **options) as store:
                return await scenario(store)

        return asyncio.run(main())

    return run


async def a_session_waits(connection, sessions=1):
    """Return once so many sessions on the database of `connection` wait for a lock."""
    async with asyncio.timeout(20):
        while sessions > await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ):
            # Outside a transaction, in which the answer would not change.
            await connection.execute("SELECT pg_stat_clear_snapshot()")
            await asyncio.sleep(0.01)


def jobs(number, kind="work", prefix="job", **fields):
    return [NewJob(f"{prefix}-{n:05d}", kind, **fields) for n in range(number)]
