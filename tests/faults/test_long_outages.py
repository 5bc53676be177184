"""A downstream that stays away for long: how often its jobs are tried, and how they go on."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from tests.support.workers import SOON

from holdfast import App, Downstream, Engine
from holdfast.errors import ErrorCode
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
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


def test_an_outage_of_many_cooldowns_tries_no_job_more_often_than_its_attempts(url):
    app, calls, down = App("shop"), Counter(), True
    breaker = BreakerPolicy(consecutive_failures=4, open_for=0.05, trial_calls=2)

    @app.job(retry=AT_ONCE, downstream=Downstream("gateway", breaker=breaker, ramp_seconds=0))
    async def order(ctx):
        calls[ctx.job_id] += 1
        if down:
            raise ConnectionError("refused")

    async def go():
        nonlocal down
        async with Engine(url, apps=[app]) as engine:
            early = [await engine.enqueue(order) for _ in range(6)]
            working = asyncio.create_task(engine.work(options=OPTIONS))
            for job in early:
                ended = await engine.wait(job, timeout=2 * SOON)
                assert (ended.status, ended.attempt_count) == (JobStatus.FAILED, 3)
            assert set(calls.values()) == {3}
            late = [await engine.enqueue(order) for _ in range(3)]
            down = False
            for job in late:
                assert (await engine.wait(job, timeout=SOON)).status is JobStatus.COMPLETE
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    asyncio.run(go())


def test_jobs_that_served_as_trials_go_on_when_the_breaker_closes(url):
    app, calls, down = App("shop"), [], True
    breaker = BreakerPolicy(consecutive_failures=1, open_for=3600, trial_calls=1)
    gateway = Downstream(
        "gateway", breaker=breaker, ramp_seconds=0, probe=lambda: True, probe_every=0.05
    )
    often = MaintenanceOptions(lead_seconds=3, probes_every=0.02)

    @app.job(retry=replace(AT_ONCE, max_attempts=9), downstream=gateway)
    async def order(ctx):
        calls.append(ctx.job_id)
        if down:
            raise ConnectionError("refused")

    async def go():
        nonlocal down
        async with Engine(url, apps=[app]) as engine:
            jobs = [await engine.enqueue(order) for _ in range(5)]
            options = replace(OPTIONS, concurrency=1, maintenance=often)
            working = asyncio.create_task(engine.work(options=options))
            await until(lambda: len(calls) >= 4)
            assert len(set(calls)) == 4
            down = False
            # By their own retries they would wait for more than an hour.
            for job in jobs:
                assert (await engine.wait(job, timeout=SOON)).status is JobStatus.COMPLETE
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    asyncio.run(go())


def test_failing_fast_records_the_last_error_of_the_downstream(url):
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
def test_a_job_that_fails_every_call_uses_up_its_attempts_once_its_downstream_works(
    url, trial_calls
):
    app, calls = App("shop"), []
    breaker = BreakerPolicy(consecutive_failures=2, open_for=0.05, trial_calls=trial_calls)

    @app.job(retry=AT_ONCE, downstream=Downstream("gateway", breaker=breaker, ramp_seconds=0))
    async def order(ctx, args: bool):
        calls.append(args)
        if len(calls) <= 11 or not args:  # it works from the twelfth call on
            raise ConnectionError("refused")

    async def go():
        async with Engine(url, apps=[app]) as engine:
            poison = await engine.enqueue(order, False, priority=9)
            working = asyncio.create_task(engine.work(options=OPTIONS))
            good = [await engine.enqueue(order, True) for _ in range(20)]
            ended = await engine.wait(poison, timeout=2 * SOON)
            assert (ended.status, ended.attempt_count) == (JobStatus.FAILED, 3)
            for job in good:
                assert (await engine.wait(job, timeout=SOON)).status is JobStatus.COMPLETE
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    asyncio.run(go())
