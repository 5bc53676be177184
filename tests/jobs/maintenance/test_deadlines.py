"""Deadlines: waiting and running jobs past them fail with TIMEOUT."""

import asyncio

from tests.support.workers import rig

from holdfast.jobs.declare.app import App
from holdfast.jobs.job_events import JobsTimedOut
from holdfast.jobs.maintenance.deadlines import Deadlines

app = App("a")


@app.job()
async def work(ctx): ...


def test_jobs_past_their_deadline_are_failed_batch_by_batch(tmp_path, caplog):
    async def go():
        async with rig(tmp_path, app) as it:
            now = await it.store.ping()
            past = [f"p{n}" for n in range(5)]
            await it.enqueue(work, *past, deadline_at=now + 0.001, run_at=now + 600)
            await it.enqueue(work, "open", deadline_at=now + 600)
            await asyncio.sleep(0.01)
            service = Deadlines(it.store, interval=60.0, batch=2, listeners=[it.told])
            assert await service.round() == 5
            assert await service.round() == 0
            ids = sorted(sum((event.job_ids for event in it.told.of(JobsTimedOut)), ()))
            assert ids == past
            job = await it.store.get("p0")
            assert (job.status, job.error.code, job.dead_letter) == (
                "failed", "TIMEOUT", "deadline",
            )  # fmt: skip
            assert await it.status("open") == "queued"
            assert (
                "job p0 (a.work) is a dead letter without an attempt (deadline): TIMEOUT: "
                in caplog.text
            )

    asyncio.run(go())
