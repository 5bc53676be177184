"""The SQLite store as a whole: processes, crashes, time."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from dataclasses import replace

import apsw
import pytest

from holdfast.jobs.downstreams.record import DownstreamSettings
from holdfast.jobs.model import Completed, Finished, JobStatus, NewJob
from holdfast.jobs.store_port import ClaimRequest, Store, StoreClosed, StoreUnusable
from holdfast.resilience.breaker.transitions import Cause, move
from holdfast.resilience.policy import BreakerPolicy
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.store.sqlite.tick import tick
from holdfast.testing import VirtualClock

_ENQUEUE_UNTIL_KILLED = """
import asyncio, sys
from holdfast.jobs.model import NewJob
from holdfast.store.sqlite.store import SQLiteStore
async def main():
    async with SQLiteStore(sys.argv[1], busy_timeout=30) as store:
        number = 0
        while True:
            name = f"{sys.argv[2]}-{number}"
            await store.enqueue([NewJob(name, "work")])
            print(name, flush=True)
            number += 1
asyncio.run(main())
"""
_DRAIN = """
import asyncio, sys
from holdfast.jobs.model import Completed, Finished
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.sqlite.store import SQLiteStore
async def main():
    async with SQLiteStore(sys.argv[1], busy_timeout=60) as store:
        finished = []
        while True:
            request = ClaimRequest(5, ("default",), {"work": None})
            result = await store.tick(sys.argv[2], finished, request)
            assert not result.refused
            if not result.claims:
                return
            for claim in result.claims:
                print(claim.job_id, flush=True)
            finished = [Finished(claim.lease, Completed()) for claim in result.claims]
asyncio.run(main())
"""


def start(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run(path, scenario, **options):
    async def main():
        async with SQLiteStore(path, **options) as store:
            return await scenario(store)

    return asyncio.run(main())


def test_it_is_a_store(tmp_path):
    store: Store = SQLiteStore(tmp_path / "a.db")
    assert store is not None


def test_acknowledged_jobs_survive_sigkill(tmp_path):
    path = tmp_path / "a.db"
    for name in ("first", "second"):
        child = start(_ENQUEUE_UNTIL_KILLED, path, name)
        assert child.stdout is not None
        acknowledged = [child.stdout.readline().strip() for _ in range(25)]
        child.send_signal(signal.SIGKILL)
        acknowledged += child.stdout.read().split()
        child.wait(30)
        child.stdout.close()

        async def all_there(store, names=tuple(acknowledged)):
            return [await store.get(job_id) is not None for job_id in names]

        assert all(run(path, all_there))


def test_processes_share_the_jobs_without_overlap(tmp_path):
    path = tmp_path / "a.db"
    names = sorted(f"job-{number:03d}" for number in range(150))

    async def enqueue(store):
        await store.enqueue([NewJob(name, "work") for name in names])

    run(path, enqueue)
    workers = [start(_DRAIN, path, f"worker-{number}") for number in range(3)]
    claimed = []
    for worker in workers:
        out, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0
        claimed += out.split()
    assert sorted(claimed) == names

    async def complete(store):
        return (await store.stats()).lanes[0].complete

    assert run(path, complete) == len(names)


def test_it_uses_the_clock_that_it_was_given(tmp_path):
    clock = VirtualClock()

    async def scenario(store):
        await store.enqueue([NewJob("a", "work", run_at=clock.wall() + 10)])
        request = ClaimRequest(1, ("default",), {"work": None})
        assert (await store.tick("w", (), request)).claims == ()
        clock.advance(10)
        (claim,) = (await store.tick("w", (), request)).claims
        assert claim.started_at == clock.wall()
        assert await store.ping() == clock.wall()

    run(tmp_path / "a.db", scenario, clock=clock)


def test_a_wait_ends_with_its_timeout_or_with_a_change(tmp_path):
    async def scenario(store):
        result = await store.tick("w")
        assert not await store.wait_for_work(result.mark, 0.01)
        sequence = await store.last_sequence()
        waiting = asyncio.create_task(store.wait_for_changes(sequence, 30))
        await asyncio.sleep(0)
        await store.enqueue([NewJob("a", "work")])
        assert await waiting

    run(tmp_path / "a.db", scenario)


def test_after_closing_everything_is_refused(tmp_path):
    async def scenario():
        store = SQLiteStore(tmp_path / "a.db")
        await store.open()
        heartbeats = store.heartbeats()
        await store.close()
        await store.close()
        with pytest.raises(StoreClosed):
            await store.enqueue([NewJob("a", "work")])
        with pytest.raises(StoreClosed):
            await store.get("a")
        with pytest.raises(StoreClosed):
            await heartbeats.extend([], 1.0)
        with pytest.raises(StoreClosed):
            await store.wait_for_work(0, 600)
        db = apsw.Connection(str(store.path))
        with contextlib.closing(db), db, pytest.raises(StoreClosed):
            await store.enqueue_on(db, [NewJob("a", "work")])

    asyncio.run(scenario())


def test_a_store_can_be_opened_again(tmp_path):
    store = SQLiteStore(tmp_path / "a.db")

    async def scenario(name):
        async with store:
            mark = (await store.tick("w")).mark
            waiting = asyncio.create_task(store.wait_for_work(mark, 20))
            await store.enqueue([NewJob(name, "work")])
            assert await waiting
            assert await store.get(name) is not None

    asyncio.run(scenario("a"))
    asyncio.run(scenario("b"))


def test_a_second_opening_is_refused_and_the_first_goes_on(tmp_path):
    async def scenario(store):
        with pytest.raises(StoreUnusable, match=r"a\.db: the store is open already"):
            await store.open()
        await store.enqueue([NewJob("a", "work")])
        assert await store.get("a") is not None

    run(tmp_path / "a.db", scenario)


def test_an_opening_that_failed_can_be_tried_again(tmp_path):
    async def scenario():
        store = SQLiteStore(tmp_path / "later" / "a.db")
        with pytest.raises(StoreUnusable):
            await store.open()
        store.path.parent.mkdir()
        async with store:
            await store.enqueue([NewJob("a", "work")])

    asyncio.run(scenario())


def test_an_opening_that_is_cancelled_leaves_nothing_behind(tmp_path):
    async def scenario():
        store = SQLiteStore(tmp_path / "a.db")
        opening = asyncio.create_task(store.open())
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        writer = store._writer
        async with store:
            await store.enqueue([NewJob("a", "work")])
        await asyncio.to_thread(writer._thread.join, 20)
        assert not writer._thread.is_alive()

    asyncio.run(scenario())


def test_closing_leaves_one_file(tmp_path):
    async def scenario(store):
        await store.enqueue([NewJob("a", "work")])
        assert await store.get("a") is not None

    run(tmp_path / "a.db", scenario)
    assert [file.name for file in tmp_path.iterdir()] == ["a.db"]


def test_an_empty_tick_writes_nothing(tmp_path):
    async def scenario(store):
        await store.enqueue([NewJob("a", "work")])
        request = ClaimRequest(5, ("default",), {"other": None})
        await store.tick("w", (), request)  # the first claim on a file records the clocks
        before = (tmp_path / "a.db-wal").stat()
        for _ in range(5):
            result = await store.tick("w", (), request)
            assert result.claims == ()
        after = (tmp_path / "a.db-wal").stat()
        assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)

    run(tmp_path / "a.db", scenario)


async def steps_of_a_claim(store):
    """Return how many steps of SQLite's virtual machine a claim of ten among twenty takes."""
    await store.enqueue([NewJob(f"fresh-{number}", "work") for number in range(20)])
    counted = []

    def measured(tx):
        counted.append(0)

        def count():
            counted[-1] += 1
            return False

        tx.db.set_progress_handler(count, 10)
        try:
            return tick(tx, "w", (), ClaimRequest(10, ("default",), {"work": None}), store._turns)
        finally:
            tx.db.set_progress_handler(None)

    claims = []
    for _ in range(2):
        claims += (await store._write(measured)).claims
    assert len(claims) == 20
    await store.tick("w", [Finished(claim.lease, Completed()) for claim in claims])
    return max(counted)


def test_the_steps_of_a_claim_do_not_grow_with_the_jobs_of_another_owner(tmp_path):
    async def claim_behind(store, number):
        flood = [NewJob(f"flood-{number}-{n}", "work", owner="ann") for n in range(number)]
        await store.enqueue(flood)
        return await steps_of_a_claim(store)

    async def scenario(store):
        few = await claim_behind(store, 100)
        assert await claim_behind(store, 5000) <= few * 1.3

    run(tmp_path / "a.db", scenario)


def test_the_steps_of_a_claim_do_not_grow_with_held_or_waiting_jobs(tmp_path):
    async def scenario(store):
        policy = BreakerPolicy()
        names = ["gateway", *(f"host-{number}" for number in range(200))]
        await store.declare_downstreams([DownstreamSettings(name, policy) for name in names])
        for record in await store.downstreams():
            held = replace(record, circuit=move(record.circuit, Cause.HOLD, policy, 0.0))
            await store.write_downstream(held)
        empty = await steps_of_a_claim(store)
        many = range(3000)
        await store.enqueue([NewJob(name, "work", downstream=name) for name in names])
        await store.enqueue([NewJob(f"h{n}", "work", downstream="gateway") for n in many])
        await store.enqueue([NewJob(f"f{n}", "work", run_at=9e9) for n in many])
        await store.enqueue([NewJob(f"q{n}", "work", queue="slow") for n in many])
        await store.enqueue([NewJob(f"l{n}", "work", priority=-1) for n in many])
        assert await steps_of_a_claim(store) <= empty * 1.3
        job = await store.get("h0")
        assert (job.status, job.held) == (JobStatus.QUEUED, True)

    run(tmp_path / "a.db", scenario)
