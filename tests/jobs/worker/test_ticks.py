"""A worker whose store processes ticks in parallel: ticks are sent while handlers run."""

import asyncio
from contextlib import suppress

import pytest
from tests.support.waiting import until
from tests.support.workers import SOON, NotedBeats, rig

from holdfast import RetryLater
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.job_events import StoreLost
from holdfast.jobs.store_port import StoreError, StoreUnavailable
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy

JOBS = ("a", "b", "c", "d")


class Elsewhere:
    """A store wrapper that records ticks and can delay their answers.

    `noted` has a pair per tick: the number of reports, and the number of jobs requested.
    """

    def __init__(self, store, *, apart=True):
        self._store = store
        self.ticks_apart = apart
        self.noted = []
        self.requests = []
        self.on_tick = {}
        self.lost = set()
        self.broken = set()
        self._kept = {}

    def __getattr__(self, name):
        return getattr(self._store, name)

    def keep(self, *numbers):
        """Delay the answers to the ticks with these numbers, from 1."""
        self._kept.update((number, asyncio.Event()) for number in numbers)

    def let_go(self, number):
        self._kept[number].set()

    async def tick(self, worker_id, finished=(), claim=None, **rest):
        self.noted.append((len(finished), 0 if claim is None else claim.limit))
        self.requests.append(claim)
        number = len(self.noted)
        self.on_tick.get(number, lambda: None)()
        answer = None
        if number not in self.broken:
            answer = await self._store.tick(worker_id, finished, claim, **rest)
        if number in self._kept:
            await self._kept[number].wait()
        if number in self.broken:
            raise StoreError("broken")
        if number in self.lost:
            raise StoreUnavailable("its answer is lost")
        return answer

    async def until(self, ticks):
        """Wait until so many ticks were sent, and every task that could send another has run."""
        async with asyncio.timeout(SOON):
            while len(self.noted) < ticks:
                await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)


def in_front(it, **how):
    """Wrap the store of a rig's worker."""
    store = Elsewhere(it.store, **how)
    it.store = store
    it.worker = it.another(it.options)
    return store


@pytest.mark.parametrize("apart, ticks_before_the_first_job", [(True, 2), (False, 1)])
def test_a_tick_that_another_process_works_on_is_sent_before_what_was_claimed_starts(
    tmp_path, apart, ticks_before_the_first_job
):
    app, ticks = App("a"), []

    @app.job()
    async def note(ctx):
        ticks.append(len(store.noted))

    async def go():
        nonlocal store
        async with rig(tmp_path, app, concurrency=4, batch=2, maintenance=None) as it:
            await it.enqueue(note, *JOBS)
            store = in_front(it, apart=apart)
            await it.run()
            assert ticks[0] == ticks_before_the_first_job
            assert len(ticks) == len(JOBS)
            assert {await it.status(job) for job in JOBS} == {"complete"}

    store = None
    asyncio.run(go())


def test_a_cancelled_worker_releases_claimed_jobs_that_did_not_start(tmp_path):
    app, noted = App("a"), []

    @app.job()
    async def note(ctx):
        noted.append("job")

    async def go():
        async with rig(tmp_path, app, concurrency=4, batch=2, maintenance=None) as it:
            await it.enqueue(note, *JOBS)
            store = in_front(it)
            task = asyncio.create_task(it.worker.run())
            store.on_tick[2] = task.cancel
            async with asyncio.timeout(SOON):
                with suppress(asyncio.CancelledError):
                    await task
            assert not noted
            assert {await it.status(job) for job in JOBS} == {"queued"}
            assert [await it.outcomes(job) for job in JOBS] == [["released"]] * len(JOBS)

    asyncio.run(go())


@pytest.mark.parametrize(
    "apart, sent",
    [
        # The third reports the first batch and asks for the next while the second is on its way;
        # more than two are never on their way, so the rest waits.
        (True, [(0, 2), (0, 2), (2, 2)]),
        (False, [(0, 2), (0, 2)]),
    ],
)
def test_a_whole_batch_is_sent_while_another_is_on_its_way_and_no_third(tmp_path, apart, sent):
    app = App("a")

    @app.job()
    async def nothing(ctx):
        pass

    async def go():
        async with rig(tmp_path, app, concurrency=8, batch=2, maintenance=None) as it:
            jobs = [f"j{number}" for number in range(8)]
            await it.enqueue(nothing, *jobs)
            store = in_front(it, apart=apart)
            store.keep(2, 3)
            async with it.running():
                await store.until(len(sent))
                assert store.noted == sent
                store.let_go(3)
                store.let_go(2)
                for job in jobs:
                    await it.until(job, "complete")

    asyncio.run(go())


GATEWAY = Downstream("gw", breaker=BreakerPolicy(consecutive_failures=99))


@pytest.mark.parametrize(
    "downstream, failing, ticks",
    # The third reports the first batch. Sent beside it, the fourth could be stored before it.
    [(None, (0, 9), 4), (GATEWAY, (), 4), (GATEWAY, (0,), 3)],
)
def test_no_tick_is_sent_beside_one_that_reports_a_failed_call(
    tmp_path, downstream, failing, ticks
):
    app = App("a")
    failing = [f"j{number}" for number in failing]

    @app.job(downstream=downstream, retry=RetryPolicy(max_attempts=1))
    async def call(ctx):
        if ctx.job_id in failing:
            raise ConnectionError("refused")

    async def go():
        async with rig(tmp_path, app, concurrency=8, batch=2, maintenance=None) as it:
            jobs = [f"j{number}" for number in range(8)]
            await it.enqueue(call, *jobs)
            store = in_front(it)
            store.keep(3, 4)
            async with it.running():
                await store.until(ticks)
                assert store.noted[:3] == [(0, 2), (0, 2), (2, 2)]
                assert len(store.noted) == ticks
                store.let_go(3)
                store.let_go(4)
                for job in jobs:
                    await it.until(job, "failed" if job in failing else "complete")

    asyncio.run(go())


def test_a_failed_call_is_not_reported_beside_another_tick(tmp_path):
    app, begun = App("a"), []
    go_on = asyncio.Event()

    @app.job(downstream=GATEWAY, retry=RetryPolicy(max_attempts=1))
    async def call(ctx):
        begun.append(ctx.job_id)
        if ctx.job_id > "j1":
            await go_on.wait()
            raise ConnectionError("refused")

    async def go():
        async with rig(tmp_path, app, concurrency=4, batch=2, maintenance=None) as it:
            await it.enqueue(call, "j0", "j1", "j2", "j3")
            store = in_front(it)
            store.keep(3)
            async with it.running():
                await store.until(3)
                assert store.noted[2][0] == 2
                await until(lambda: len(begun) == 4)
                go_on.set()
                await store.until(3)
                assert len(store.noted) == 3
                store.let_go(3)
                await it.until("j3", "failed")

    asyncio.run(go())


def test_less_than_a_batch_waits_for_the_tick_that_is_on_its_way(tmp_path):
    app = App("a")
    go_on = asyncio.Event()

    @app.job()
    async def quick(ctx):
        pass

    @app.job()
    async def slow(ctx):
        await go_on.wait()

    async def go():
        async with rig(tmp_path, app, concurrency=4, batch=2, maintenance=None) as it:
            await it.enqueue(quick, "quick", priority=1)
            await it.enqueue(slow, "slow")
            store = in_front(it)
            store.keep(2)
            async with it.running():
                await store.until(2)
                assert store.noted == [(0, 2), (0, 2)]
                store.let_go(2)
                await it.until("quick", "complete")
                go_on.set()

    asyncio.run(go())


def test_reports_whose_answer_is_lost_are_sent_again_beside_the_tick_that_got_through(tmp_path):
    app, runs = App("a"), []

    @app.job()
    async def note(ctx):
        runs.append(ctx.job_id)

    async def go():
        async with rig(tmp_path, app, concurrency=4, batch=2, maintenance=None) as it:
            await it.enqueue(note, *JOBS)
            store = in_front(it)
            store.keep(2, 3)
            store.lost.add(3)
            task = asyncio.create_task(it.run())
            await store.until(3)
            store.let_go(3)
            await it.told.wait(StoreLost)
            store.let_go(2)
            await task
            assert sorted(runs) == list(JOBS)
            assert {await it.status(job) for job in JOBS} == {"complete"}

    asyncio.run(go())


def test_a_job_requeued_during_a_tick_that_finds_none_is_run_before_the_worker_is_idle(tmp_path):
    app, runs = App("a"), []

    @app.job()
    async def again(ctx):
        runs.append(ctx.job_id)
        if ctx.attempt == 1:
            raise RetryLater(0)

    async def go():
        async with rig(tmp_path, app, concurrency=4, batch=2, maintenance=None) as it:
            await it.enqueue(again, "a", "b")
            store = in_front(it)
            store.keep(2)
            task = asyncio.create_task(it.run())
            # The second finds no job, because the third, which reports, requeues the claimed one.
            await store.until(3)
            store.let_go(2)
            await task
            assert sorted(runs) == ["a", "a", "b", "b"]
            assert {await it.status(job) for job in ("a", "b")} == {"complete"}

    asyncio.run(go())


@pytest.mark.parametrize("apart", [True, False])
def test_of_many_short_jobs_the_first_are_over_before_the_last_start_and_all_are_reported_at_once(
    tmp_path, apart
):
    app, most = App("a"), 0

    @app.job()
    async def note(ctx):
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))

    async def go():
        nonlocal it
        options = {"concurrency": 200, "batch": 200, "maintenance": None}
        async with rig(tmp_path, app, **options) as it:
            await it.enqueue(note, *(f"j{number}" for number in range(200)))
            store = in_front(it, apart=apart)
            await it.run()
            assert store.noted[:2] == [(0, 200), (200, 200)]
            assert most <= 100

    it = None
    asyncio.run(go())


def test_claimed_jobs_that_did_not_start_are_released_too(tmp_path):
    app, runs = App("a"), []
    jobs = [f"j{number}" for number in range(200)]

    @app.job()
    async def note(ctx):
        runs.append(ctx.job_id)
        it.worker.stop()

    async def go():
        nonlocal it
        options = {"concurrency": 200, "batch": 200, "maintenance": None}
        async with rig(tmp_path, app, **options) as it:
            await it.enqueue(note, *jobs)
            in_front(it)
            async with asyncio.timeout(SOON):
                await it.worker.run()
            outcomes = {job: await it.outcomes(job) for job in jobs}
            assert 0 < len(runs) < 200
            assert outcomes == {job: ["complete" if job in runs else "released"] for job in jobs}

    it = None
    asyncio.run(go())


def test_ticks_that_are_not_answered_are_given_up_and_their_reports_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.jobs.worker.drain.LAST_REPORTS", 0.05)
    app = App("a")

    @app.job()
    async def nothing(ctx):
        pass

    async def go():
        async with rig(tmp_path, app, concurrency=4, batch=2, maintenance=None) as it:
            await it.enqueue(nothing, *JOBS)
            store = in_front(it)
            store.keep(2, 3)
            async with it.running():
                await store.until(3)
                it.worker.stop()
            assert {await it.status(job) for job in ("a", "b")} == {"complete"}
            assert store.noted[3] == (2, 0)

    asyncio.run(go())


@pytest.mark.parametrize("apart", [True, False])
def test_slots_that_a_full_claim_left_free_are_filled_at_once(tmp_path, apart):
    app, begun = App("a"), []
    go_on = asyncio.Event()

    @app.job()
    async def long(ctx):
        begun.append(ctx.job_id)
        await go_on.wait()

    async def go():
        async with rig(tmp_path, app, concurrency=6, batch=4, maintenance=None) as it:
            await it.enqueue(long, *(f"j{number}" for number in range(8)))
            in_front(it, apart=apart)
            async with it.running():
                async with asyncio.timeout(SOON):
                    while len(begun) < 6:
                        await asyncio.sleep(0.01)
                go_on.set()
                await it.until("j7", "complete")

    asyncio.run(go())


@pytest.mark.parametrize("apart", [True, False])
def test_what_ends_while_a_full_claim_is_on_its_way_is_reported_with_its_answer(tmp_path, apart):
    app = App("a")
    short, long = asyncio.Event(), asyncio.Event()

    @app.job()
    async def until_told(ctx, args: str):
        await {"short": short, "long": long}[args].wait()

    async def go():
        async with rig(tmp_path, app, concurrency=2, maintenance=None) as it:
            await it.enqueue(until_told, "a", arguments='"short"')
            store = in_front(it, apart=apart)
            async with it.running():
                await it.until("a", "processing")
                ticks = len(store.noted)
                store.keep(ticks + 1)
                await it.enqueue(until_told, "b", arguments='"long"')
                await store.until(ticks + 1)
                short.set()
                await asyncio.sleep(0)
                store.let_go(ticks + 1)
                await it.until("a", "complete")
                assert await it.status("b") == "processing"
                long.set()

    asyncio.run(go())


def test_jobs_are_released_even_if_two_ticks_fail_for_good(tmp_path):
    app = App("a")
    long_ones = [f"long{number}" for number in range(4)]
    short_ones = [f"short{number:02}" for number in range(12)]

    @app.job()
    async def long(ctx):
        await asyncio.Event().wait()

    @app.job()
    async def short(ctx):
        pass

    async def go():
        async with rig(tmp_path, app, concurrency=16, batch=4, maintenance=None) as it:
            await it.enqueue(long, *long_ones, priority=1)
            await it.enqueue(short, *short_ones)
            store = in_front(it)
            store.keep(3, 4)
            store.broken.update((3, 4))
            task = asyncio.create_task(it.worker.run())
            await store.until(4)
            assert store.noted[2:] == [(0, 4), (4, 4)]
            store.let_go(3)
            store.let_go(4)
            async with asyncio.timeout(SOON):
                with pytest.raises(StoreError, match="broken"):
                    await task
            assert not it.worker.running
            statuses = [await it.status(job) for job in (*long_ones, *short_ones)]
            assert statuses == ["queued"] * 4 + ["complete"] * 4 + ["queued"] * 8

    asyncio.run(go())


def test_leases_of_what_waits_for_its_turn_are_kept_while_the_loop_is_blocked(tmp_path):
    app, runs, rescued = App("a"), [], []

    @app.job()
    async def work(ctx):
        runs.append(ctx.job_id)
        if len(runs) == 1:
            beats.wait(5, leases=60)  # blocking the loop is what a bad handler does
            rescued.append(await it.store.rescue())

    async def go():
        nonlocal it, beats
        options = {"concurrency": 60, "batch": 60, "extend_every": 0.1}
        async with rig(tmp_path, app, maintenance=None, **options) as it:
            beats = NotedBeats(it)
            jobs = [f"j{number}" for number in range(60)]
            await it.enqueue(work, *jobs)
            await it.run()
            assert rescued[0].requeued == ()
            assert sorted(runs) == sorted(jobs)

    it = beats = None
    asyncio.run(go())
