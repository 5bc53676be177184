"""A downstream that stays away for long: what waits for it is neither worn out nor mislabelled."""

import asyncio

import pytest
from tests.support.workers import SOON

from holdfast import App, Downstream, Engine
from holdfast.errors import ErrorCode
from holdfast.jobs.model import JobStatus
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy

AT_ONCE = RetryPolicy(max_attempts=3, backoff=Exponential(base=0.0, jitter=0.0))
OPTIONS = WorkerOptions(concurrency=4, poll_interval=0.02, maintenance=None)


async def until(check):
    async with asyncio.timeout(2 * SOON):
        while not check():
            await asyncio.sleep(0.01)


def test_an_outage_of_many_cooldowns_fails_no_job_that_waits_for_its_end(url):
    app, calls, down = App("shop"), [], True
    breaker = BreakerPolicy(consecutive_failures=4, open_for=0.05, trial_calls=2)

    @app.job(retry=AT_ONCE, downstream=Downstream("gateway", breaker=breaker, ramp_seconds=0))
    async def order(ctx):
        calls.append(ctx.attempt)
        if down:
            raise ConnectionError("refused")

    async def go():
        nonlocal down
        async with Engine(url, apps=[app]) as engine:
            jobs = [await engine.enqueue(order) for _ in range(6)]
            working = asyncio.create_task(engine.work(options=OPTIONS))
            # Far more calls than the attempts of all jobs together: each of these was a trial.
            await until(lambda: len(calls) > 40)
            found = [await engine.get(job) for job in jobs]
            assert {job.status for job in found} <= {JobStatus.QUEUED, JobStatus.PROCESSING}
            down = False
            for job in jobs:
                finished = await engine.wait(job, timeout=SOON)
                assert finished.status is JobStatus.COMPLETE
                outcomes = [attempt.outcome for attempt in await engine.attempts(job)]
                assert set(outcomes[:-1]) <= {"retry"}
                assert finished.attempt_count <= 3
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        assert max(calls) <= 3

    asyncio.run(go())


def test_failing_fast_records_the_error_that_the_downstream_met_last(url):
    app, calls = App("shop"), []
    breaker = BreakerPolicy(consecutive_failures=1, open_for=600)

    @app.job(
        retry=RetryPolicy(max_attempts=1),
        downstream=Downstream("gateway", breaker=breaker, mode="fail_fast"),
    )
    async def order(ctx):
        calls.append(ctx.job_id)
        raise ConnectionError("refused")

    async def go():
        async with Engine(url, apps=[app]) as engine:
            jobs = [await engine.enqueue(order) for _ in range(3)]
            async with asyncio.timeout(SOON):
                await engine.work(until_idle=True, concurrency=1)
            found = [await engine.get(job) for job in jobs]
            assert len(calls) == 1
            assert {job.error.code for job in found} == {ErrorCode.GW_UNAVAILABLE}
            reasons = sorted(job.dead_letter for job in found)
            assert reasons == ["attempts_exhausted", "refused", "refused"]

    asyncio.run(go())


@pytest.mark.parametrize("trial_calls", [1, 3])
def test_a_job_that_fails_every_call_is_worn_out_once_its_downstream_is_well(url, trial_calls):
    app, calls, down = App("shop"), [], True
    breaker = BreakerPolicy(consecutive_failures=2, open_for=0.05, trial_calls=trial_calls)

    @app.job(retry=AT_ONCE, downstream=Downstream("gateway", breaker=breaker, ramp_seconds=0))
    async def order(ctx, args: bool):
        calls.append(args)
        if down or not args:
            raise ConnectionError("refused")

    async def go():
        nonlocal down
        async with Engine(url, apps=[app]) as engine:
            poison = await engine.enqueue(order, False, priority=9)
            working = asyncio.create_task(engine.work(options=OPTIONS))
            good = [await engine.enqueue(order, True) for _ in range(20)]
            await until(lambda: len(calls) > 10)
            down = False
            ended = await engine.wait(poison, timeout=2 * SOON)
            assert (ended.status, ended.attempt_count) == (JobStatus.FAILED, 3)
            for job in good:
                assert (await engine.wait(job, timeout=SOON)).status is JobStatus.COMPLETE
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    asyncio.run(go())
