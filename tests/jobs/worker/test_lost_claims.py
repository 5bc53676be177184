"""Jobs claimed by a tick whose answer was lost are released, and no others."""

import asyncio

import pytest
from tests.jobs.worker.test_ticks import JOBS, in_front
from tests.support.waiting import Calls, until
from tests.support.workers import SOON, rig

from holdfast.jobs.declare.app import App
from holdfast.jobs.job_events import StoreLost
from holdfast.jobs.model import Released
from holdfast.jobs.store_port import StoreUnavailable


@pytest.mark.parametrize("apart", [True, False])
def test_the_claims_of_a_tick_whose_answer_was_lost_run_at_once(tmp_path, apart):
    app, runs = App("a"), []

    @app.job()
    async def work(ctx):
        runs.append((ctx.job_id, ctx.attempt))

    async def go():
        async with rig(tmp_path, app, concurrency=4, maintenance=None) as it:
            await it.enqueue(work, *JOBS)
            store = in_front(it, apart=apart)
            store.lost = {1}
            await it.run()
            assert sorted(runs) == [(name, 1) for name in JOBS]
            assert {await it.status(name) for name in JOBS} == {"complete"}
            assert await it.outcomes("a") == ["released", "complete"]

    asyncio.run(go())


def test_a_claim_whose_answer_is_still_to_come_is_not_released(tmp_path):
    """Two ticks are in flight: the answer to one is lost, that to the other comes late."""
    app, runs = App("a"), []
    jobs = (*JOBS, "e", "f")

    @app.job()
    async def work(ctx):
        runs.append((ctx.job_id, ctx.attempt))

    async def go():
        async with rig(tmp_path, app, concurrency=4, batch=2, maintenance=None) as it:
            await it.enqueue(work, *jobs)
            store = in_front(it)
            store.lost = {2}
            store.keep(2, 3)
            looks = Calls(store, "leases")
            async with it.running():
                await store.until(3)
                assert store.noted == [(0, 2), (0, 2), (2, 2)]
                store.let_go(2)
                await it.told.wait(StoreLost)
                assert looks.count == 0
                store.let_go(3)
                await until(lambda: len(runs) == len(jobs))
            assert sorted(runs) == [(name, 1) for name in jobs]
            outcomes = [await it.outcomes(name) for name in jobs]
            once, twice = ["complete"], ["released", "complete"]
            assert outcomes == [once, once, twice, twice, once, once]

    asyncio.run(go())


def test_a_claim_that_was_committed_after_the_first_check_is_found_by_the_second(tmp_path):
    app, runs = App("a"), []

    @app.job()
    async def work(ctx):
        runs.append(ctx.attempt)

    async def go():
        async with rig(tmp_path, app, concurrency=2, extend_every=0.3, maintenance=None) as it:
            store = in_front(it)
            store.lost = {1}
            looks, leases = [], store.leases

            async def look(worker_id):
                found = await leases(worker_id)
                looks.append(found)
                if len(looks) == 1:  # the server commits the lost tick only now
                    await it.enqueue(work, "late")
                    request = store.requests[0]
                    await store._store.tick(worker_id, (), request)
                return found

            store.leases = look
            async with it.running():
                await until(lambda: runs)
            assert [len(found) for found in looks] == [0, 1]
            assert await it.outcomes("late") == ["released", "complete"]

    asyncio.run(go())


def test_a_check_that_the_store_does_not_answer_is_repeated(tmp_path):
    app = App("a")

    @app.job()
    async def work(ctx): ...

    async def go():
        async with rig(tmp_path, app, maintenance=None) as it:
            await it.enqueue(work, "w")
            store = in_front(it)
            store.lost = {1}
            leases, failures = store.leases, [StoreUnavailable("gone"), StoreUnavailable("gone")]

            async def look(worker_id):
                if failures:
                    raise failures.pop()
                return await leases(worker_id)

            store.leases = look
            async with asyncio.timeout(SOON):
                await it.worker.run(until_idle=True)
            assert await it.outcomes("w") == ["released", "complete"]

    asyncio.run(go())


def test_a_running_job_is_never_released(tmp_path):
    app, released, started, let_go = App("a"), [], [], asyncio.Event()

    @app.job()
    async def work(ctx):
        started.append(ctx.job_id)
        await let_go.wait()

    async def go():
        async with rig(tmp_path, app, concurrency=4, batch=1, maintenance=None) as it:
            await it.enqueue(work, *JOBS)
            store = in_front(it)
            tick = store.tick

            async def note(worker_id, finished=(), claim=None, **rest):
                released.extend(item for item in finished if isinstance(item.outcome, Released))
                return await tick(worker_id, finished, claim, **rest)

            store.tick = note
            store.lost = {2}
            async with it.running():
                await until(lambda: len(started) == 4)
                let_go.set()
                for name in JOBS:
                    await it.until(name, "complete")
            assert len(released) == 1
            assert {await it.status(name) for name in JOBS} == {"complete"}

    asyncio.run(go())


def test_a_worker_stops_while_the_store_does_not_answer_a_check(tmp_path):
    app = App("a")

    @app.job()
    async def work(ctx): ...

    async def go():
        async with rig(tmp_path, app, maintenance=None) as it:
            await it.enqueue(work, "w")
            store = in_front(it)
            store.lost = {1}
            asked = asyncio.Event()

            async def look(worker_id):
                asked.set()
                await asyncio.Event().wait()

            store.leases = look
            async with asyncio.timeout(SOON):
                running = asyncio.create_task(it.worker.run())
                await asked.wait()
                it.worker.stop()
                await running

    asyncio.run(go())
