"""Workers of different apps or releases on one database: each kind is maintained."""

import asyncio
from contextlib import asynccontextmanager, suppress

from tests.support.waiting import SOON, until

from holdfast import App, BreakerPolicy, Downstream, Engine, Retention, RetryPolicy
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.worker.options import WorkerOptions

OFTEN = MaintenanceOptions(
    lead_seconds=3, rescue_every=0.1, deadlines_every=0.1, retention_every=0.1, probes_every=0.1
)
OPTIONS = WorkerOptions(concurrency=4, poll_interval=0.05, maintenance=OFTEN)
AT_ONCE = Retention(complete_for=0.0)


@asynccontextmanager
async def working(url, app):
    """Run a worker of `app` in an engine of its own."""
    async with Engine(url, apps=[app]) as engine:
        task = asyncio.create_task(engine.work(options=OPTIONS))
        try:
            yield engine
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def ran_and_deleted(engine, job_type):
    """Run a job, and wait until retention has deleted it."""
    job = await engine.enqueue(job_type)

    async def gone():
        return await engine.get(job) is None

    await until(gone)


def test_retention_and_probes_reach_the_kinds_of_every_app(url):
    first, second, probed = App("first"), App("second"), asyncio.Event()

    async def probe():
        probed.set()
        return False

    gateway = Downstream(
        "gateway", breaker=BreakerPolicy(1, open_for=3600), probe=probe, probe_every=0.1
    )

    @first.job(retention=AT_ONCE)
    async def leading(ctx): ...

    @second.job(retention=AT_ONCE)
    async def following(ctx): ...

    @second.job(downstream=gateway, retry=RetryPolicy(max_attempts=1))
    async def failing(ctx):
        raise ConnectionError("refused")

    async def go():
        async with working(url, first) as leader:
            await ran_and_deleted(leader, leading)
            async with working(url, second) as follower:
                await ran_and_deleted(follower, following)
                await follower.enqueue(failing)
                async with asyncio.timeout(SOON):
                    await probed.wait()
                await ran_and_deleted(leader, leading)

    asyncio.run(go())


def test_a_kind_that_only_the_new_release_of_an_app_knows_is_maintained_while_the_old_one_runs(url):
    old, new = App("shop"), App("shop")

    @old.job(name="order", retention=AT_ONCE)
    async def old_order(ctx): ...

    @new.job(name="order", retention=AT_ONCE)
    async def new_order(ctx): ...

    @new.job(name="refund", retention=AT_ONCE)
    async def refund(ctx): ...

    async def go():
        async with working(url, old) as before:
            await ran_and_deleted(before, old_order)
            async with working(url, new) as after:
                await ran_and_deleted(after, refund)
            await ran_and_deleted(before, old_order)

    asyncio.run(go())
