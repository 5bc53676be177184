"""A handler's transaction on PostgreSQL, beside other writes to its job."""

import asyncio

import asyncpg
import pytest
from tests.store.postgres.conftest import ANY, a_session_waits
from tests.support.waiting import SOON

from holdfast import App, Category, Engine, JobContext, WorkerOptions, categorize
from holdfast.bootstrap import migrate
from holdfast.jobs.model import Completed, Finished, JobStatus, NewJob, Released
from holdfast.jobs.store_port import Refusal


def test_a_report_waits_for_a_commit_in_flight_and_is_refused_after_it(play, bench):
    """So a worker that lost the answer to a commit may report that the attempt has failed."""

    async def scenario(store):
        await store.enqueue([NewJob("job", "work")])
        (claim,) = (await store.tick("worker", (), ANY)).claims
        transaction = store.transaction(claim.lease)
        await transaction.begin()
        lent, is_written, may_commit = transaction._lent, asyncio.Event(), asyncio.Event()
        commit = lent.commit

        async def late_commit():
            is_written.set()
            await may_commit.wait()
            await commit()

        lent.commit = late_commit
        completing = asyncio.create_task(transaction.complete(Finished(claim.lease, Completed())))
        watching = await asyncpg.connect(bench.url)
        await is_written.wait()
        reporting = asyncio.create_task(store.tick("worker", [Finished(claim.lease, Released())]))
        await a_session_waits(watching)
        may_commit.set()
        (refused,) = (await reporting).refused
        assert refused.reason is Refusal.STALE
        assert (await completing).refused == ()
        await transaction.rollback()
        assert (await store.get("job")).status is JobStatus.COMPLETE
        await watching.close()

    play(scenario)


def test_a_connection_that_dies_before_the_commit_leaves_the_job_to_its_lease(play, bench):
    async def scenario(store):
        await store.enqueue([NewJob("job", "work")])
        (claim,) = (await store.tick("worker", (), ANY)).claims
        transaction = store.transaction(claim.lease)
        connection = await transaction.begin()
        await connection.execute("CREATE TABLE own_rows (value integer)")
        connection.terminate()
        with pytest.raises(asyncpg.InterfaceError, match="connection is closed") as raised:
            await transaction.complete(Finished(claim.lease, Completed()))
        assert categorize(raised.value) is Category.TRANSIENT
        await transaction.rollback()
        assert (await store.get("job")).status is JobStatus.PROCESSING
        result = await store.tick("worker", [Finished(claim.lease, Released())])
        assert result.refused == ()

    play(scenario)


def test_a_committed_transaction_is_followed_by_a_claim_at_once(postgres_url):
    """Its job took the only place of its kind; nothing else tells the worker that it is free."""
    app = App("bank")

    @app.job(concurrency=1)
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction():
            pass

    async def scenario():
        async with Engine(postgres_url, apps=[app]) as engine:
            for _ in range(3):
                await engine.enqueue(pay)
            # A poll would come in ten minutes.
            async with asyncio.timeout(SOON):
                await engine.work(until_idle=True, options=WorkerOptions(poll_interval=600))
            assert (await engine.stats()).lanes[0].complete == 3

    asyncio.run(migrate(postgres_url))
    asyncio.run(scenario())
