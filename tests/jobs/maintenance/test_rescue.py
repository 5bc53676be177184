"""Rescue: jobs of dead workers are requeued, batch by batch."""

import asyncio

from tests.support.workers import rig

from holdfast.jobs.declare.app import App
from holdfast.jobs.job_events import JobsRescued
from holdfast.jobs.maintenance.rescue import Rescue
from holdfast.jobs.store_port import ClaimRequest
from holdfast.resilience.policy import RetryPolicy

app = App("a")


@app.job()
async def work(ctx): ...


@app.job(retry=RetryPolicy(max_attempts=1))
async def once(ctx): ...


def test_jobs_with_expired_leases_are_requeued_failed_or_cancelled(tmp_path, caplog):
    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(work, *(f"w{n}" for n in range(5)))
            await it.enqueue(once, "once")
            await it.enqueue(work, "cancelled")
            long_ago = await it.store.ping() - 3600
            request = ClaimRequest(100, ("default",), {"a.work": None, "a.once": None}, 300.0)
            claimed = await it.store.tick("dead", (), request, now=long_ago + 7200)
            assert len(claimed.claims) == 7
            await it.store.cancel("cancelled")

            class Late:
                async def rescue(self, *, limit):
                    return await it.store.rescue(limit=limit, now=long_ago + 20_000)

            rescue = Rescue(Late(), interval=1.0, batch=3, listeners=[it.told])
            assert await rescue.round() == 7
            assert await rescue.round() == 0
            rescued = it.told.of(JobsRescued)
            assert len(rescued) == 3
            assert sorted(sum((event.requeued for event in rescued), ())) == [
                f"w{n}" for n in range(5)
            ]  # fmt: skip
            assert sum((event.dead for event in rescued), ()) == ("once",)
            assert sum((event.cancelled for event in rescued), ()) == ("cancelled",)
            dead = (
                "job once (a.once) is a dead letter after attempt 1 of 1 (lease_lost): "
                "LEASE_LOST: The worker lost touch"
            )
            assert dead in caplog.text
            assert caplog.text.count("it is queued again") == 5
            assert "job w0 (a.work) failed attempt 1 of 3: LEASE_LOST: " in caplog.text

    asyncio.run(go())
