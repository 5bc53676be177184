"""At default settings a worker enqueues a slot's job about when the slot is due, and runs it."""

import asyncio
import statistics

from tests.support.waiting import until

from holdfast import App, Engine, JobContext
from holdfast.jobs.model import JobStatus

PROMISED = 1.0
"""Seconds between a slot and the creation of its job."""
app = App("timed")


@app.periodic(every=0.5)
async def measure(ctx: JobContext) -> float:
    return ctx.slot.timestamp()


def test_a_slots_job_is_created_within_a_second_and_knows_its_slot(url):
    async def go():
        async with Engine(url, apps=[app]) as engine:
            worker = engine.worker()
            running = asyncio.create_task(worker.run())

            async def complete():
                jobs = (await engine.list()).jobs
                done = [job for job in jobs if job.status is JobStatus.COMPLETE]
                return done if len(done) >= 5 else None

            jobs = await until(complete)
            worker.stop()
            await running
            slots = [await engine.result(job) for job in jobs]
        delays = [job.created_at - slot for job, slot in zip(jobs, slots, strict=True)]
        assert min(delays) >= 0
        assert statistics.median(delays) < PROMISED

    asyncio.run(go())
