"""Jobs claimed beyond the free slots: how many, that they wait for a slot, and not for long."""

import asyncio
from dataclasses import replace

import pytest
from tests.support.waiting import until
from tests.support.workers import QUICK, claim, rig

from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.model import AttemptOutcome, Released
from holdfast.jobs.store_port import ClaimRequest, StoreUnavailable
from holdfast.jobs.worker.claim_ahead import ClaimAhead
from holdfast.jobs.worker.run import Run
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import RetryPolicy
from holdfast.testing import VirtualClock

MANY = 500


def app_with(**options):
    app = App("ahead")

    @app.job(**options)
    async def work(ctx):
        pass

    return app


def learned(seconds, **options):
    ahead = ClaimAhead(app_with(**options).kinds)
    for _ in range(MANY):
        ahead.note(seconds)
    return ahead


def test_nothing_is_claimed_ahead_before_attempts_have_ended():
    assert ClaimAhead(app_with().kinds).jobs(10) == 0


@pytest.mark.parametrize(
    "seconds, jobs",
    [(0.0, 90), (0.001, 90), (0.01, 50), (0.025, 20), (0.05, 10), (1.0, 0), (60.0, 0)],
)
def test_what_is_claimed_ahead_would_start_within_50_ms(seconds, jobs):
    assert learned(seconds).jobs(10) == pytest.approx(jobs, abs=1)


def test_a_few_long_attempts_end_it():
    ahead = learned(0.001)
    for _ in range(5):
        ahead.note(60.0)
    assert ahead.jobs(10) == 0


@pytest.mark.parametrize("free", [0, -1])
def test_nothing_is_claimed_ahead_without_a_free_slot(free):
    assert learned(0.0).jobs(free) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 5},
        {"downstream": Downstream("gateway")},
        {"retry": RetryPolicy(max_attempts=1)},
        {"retry": RetryPolicy(max_attempts=2)},
    ],
)
def test_nothing_is_claimed_ahead_where_a_claim_counts_against_a_limit(options):
    assert learned(0.0, **options).jobs(10) == 0


class Busy:
    """Handlers that run at once, counted; those of jobs named `long` wait to be let go."""

    def __init__(self):
        self.app = App("ahead")
        self.now, self.most = 0, 0
        self.let_go = asyncio.Event()
        self.work = self.app.job(timeout=30)(self._work)

    async def _work(self, ctx):
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if ctx.job_id.startswith("long"):
                await self.let_go.wait()
            else:
                await asyncio.sleep(0)
        finally:
            self.now -= 1


def noted_limits(it):
    """Return a list that each claim of the rig's worker adds its limit to."""
    limits, tick = [], it.store.tick

    async def noting(worker_id, finished=(), claim=None, **rest):
        if claim is not None:
            limits.append(claim.limit)
        return await tick(worker_id, finished, claim, **rest)

    it.store.tick = noting
    return limits


def test_short_jobs_are_claimed_ahead_and_no_more_run_at_once_than_there_are_slots(tmp_path):
    async def scenario():
        busy = Busy()
        async with rig(tmp_path, busy.app, replace(QUICK, concurrency=4)) as it:
            limits = noted_limits(it)
            await it.enqueue(busy.work, *(f"j{number}" for number in range(2 * MANY)))
            await it.run()
            assert busy.most == 4
            assert limits[0] == 4
            assert max(limits) > 4
            lanes = (await it.store.stats()).lanes
            assert sum(lane.complete for lane in lanes) == 2 * MANY

    asyncio.run(scenario())


def test_a_job_that_finds_no_free_slot_is_released_and_runs_elsewhere(tmp_path):
    async def scenario():
        busy = Busy()
        async with rig(tmp_path, busy.app, replace(QUICK, concurrency=4)) as it:
            await it.enqueue(busy.work, *(f"j{number}" for number in range(2 * MANY)))
            async with it.running():
                await until(lambda: finished(it, 2 * MANY))
                # Taken for short as well, so that more are claimed than there are slots.
                waiting = [f"long{number}" for number in range(12)]
                await it.enqueue(busy.work, *waiting)
                await until(lambda: any_released(it, waiting))
                assert busy.most == 4
                async with it.running(it.another(replace(QUICK, concurrency=12))):
                    await until(lambda: busy.now == 12)
                    busy.let_go.set()
                    await until(lambda: finished(it, 2 * MANY + 12))
            for job in waiting:
                attempts = await it.store.attempts(job)
                assert attempts[-1].outcome is AttemptOutcome.COMPLETE
                assert attempts[-1].number == 1  # being released uses up no attempt

    asyncio.run(scenario())


class Counted:
    """Handlers that note how many leases their worker holds when they start."""

    def __init__(self):
        self.app = App("ahead")
        self.it = None
        self.leases = {}
        self.work = self.app.job()(self._work)

    async def _work(self, ctx):
        if self.it is not None:
            leases = await self.it.store.leases(self.it.worker.worker_id)
            self.leases[ctx.job_id] = len(leases)

    async def lose_a_worker(self, it, names):
        """Enqueue jobs, and let them be claimed by a worker that then dies."""
        await it.enqueue(self.work, *names)
        request = ClaimRequest(len(names), ("default",), {self.work.kind.name: None}, 1e-9)
        assert len((await it.store.tick("dead", (), request)).claims) == len(names)

    async def rescue(self, it, names):
        self.it = it
        await until(lambda: rescued(it, names))


async def rescued(it, names):
    await it.store.rescue()
    return all([(await it.store.attempts(name))[0].outcome for name in names])


ALONE = replace(QUICK, concurrency=4, maintenance=None)


def test_a_job_that_has_lost_a_worker_starts_beside_no_job_that_waits(tmp_path):
    """Neither beside others that have lost one nor beside new jobs; all of them are run."""

    async def scenario():
        counted, lost = Counted(), [f"lost{number}" for number in range(30)]
        async with rig(tmp_path, counted.app, ALONE) as it:
            await counted.lose_a_worker(it, lost)
            await it.enqueue(counted.work, *(f"j{number}" for number in range(2 * MANY)))
            async with it.running():
                await until(lambda: finished(it, 2 * MANY))
                await it.enqueue(counted.work, *(f"new{number}" for number in range(MANY)))
                await counted.rescue(it, lost)
                await until(lambda: finished(it, 3 * MANY + len(lost)))
            assert counted.leases.keys() > set(lost)
            assert max(counted.leases[name] for name in lost) <= 4
            for name in lost:
                ends = await it.store.attempts(name)
                assert (ends[-1].outcome, ends[-1].number) == (AttemptOutcome.COMPLETE, 2)

    asyncio.run(scenario())


def test_jobs_that_failed_without_losing_a_worker_are_claimed_ahead(tmp_path):
    async def scenario():
        app, failed = App("ahead"), set()

        @app.job(retry=RetryPolicy(max_attempts=3, backoff=Exponential(base=0.0, jitter=0.0)))
        async def work(ctx):
            if ctx.attempt == 1 and ctx.job_id.startswith("twice"):
                failed.add(ctx.job_id)
                raise ConnectionError("once")

        async with rig(tmp_path, app, ALONE) as it:
            await it.enqueue(work, *(f"j{number}" for number in range(2 * MANY)))
            await it.run()
            limits = noted_limits(it)
            it.worker = it.another(ALONE)
            await it.enqueue(work, *(f"twice{number}" for number in range(2 * MANY)))
            await it.run()
            assert len(failed) == 2 * MANY
            assert max(limits) > 4
            assert await finished(it, 4 * MANY)

    asyncio.run(scenario())


def test_a_suspect_is_released_with_the_others_where_no_release_is_stored(tmp_path):
    """While the store is down nothing starts, and nothing waits for ever."""

    async def scenario():
        counted, lost = Counted(), [f"lost{number}" for number in range(10)]
        async with rig(tmp_path, counted.app, ALONE) as it:
            await counted.lose_a_worker(it, lost)
            await it.enqueue(counted.work, *(f"j{number}" for number in range(2 * MANY)))
            tick, failures = it.store.tick, []

            async def failing(worker_id, finished=(), claim=None, **rest):
                released = [end for end in finished if isinstance(end.outcome, Released)]
                if released and len(failures) < 5:
                    failures.append(len(released))
                    raise StoreUnavailable("away")
                return await tick(worker_id, finished, claim, **rest)

            it.store.tick = failing
            async with it.running():
                await until(lambda: finished(it, 2 * MANY))
                await counted.rescue(it, lost)
                await until(lambda: finished(it, 2 * MANY + len(lost)))
            assert failures
            assert max(counted.leases[name] for name in lost) <= 4

    asyncio.run(scenario())


async def finished(it, count):
    return sum(lane.complete for lane in (await it.store.stats()).lanes) == count


async def any_released(it, jobs):
    found = [await it.store.attempts(job) for job in jobs]
    return any(
        attempt.outcome is AttemptOutcome.RELEASED for attempts in found for attempt in attempts
    )


def test_a_worker_that_stops_releases_what_it_claimed_ahead(tmp_path):
    async def scenario():
        busy = Busy()
        async with rig(tmp_path, busy.app, replace(QUICK, concurrency=4)) as it:
            await it.enqueue(busy.work, *(f"j{number}" for number in range(2 * MANY)))
            async with it.running():
                await until(lambda: finished(it, 2 * MANY))
                waiting = [f"long{number}" for number in range(12)]
                await it.enqueue(busy.work, *waiting)
                await until(lambda: busy.now == 4)
                it.worker.stop()
                busy.let_go.set()
                await until(lambda: busy.now == 0)
            statuses = [await it.status(job) for job in waiting]
            assert sorted(set(statuses)) == ["complete", "queued"]
            assert statuses.count("complete") == 4

    asyncio.run(scenario())


def test_the_time_that_is_left_counts_from_the_start_not_from_the_claim():
    clock, app = VirtualClock(), app_with(timeout=30)
    run = Run(claim(), app.kinds[0], None, clock, held_until=300.0)
    clock.advance(20)
    run.begin(clock.monotonic())
    assert run.context.remaining() == 30
