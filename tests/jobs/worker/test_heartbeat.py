"""Heartbeats: all leases in one statement, from their own thread."""

import asyncio
import time
from dataclasses import replace

import pytest
from tests.support.workers import QUICK, SOON, EventLog, NotedBeats, claim, rig

from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import CancelReason
from holdfast.jobs.heartbeat_port import WorkerRequests
from holdfast.jobs.job_events import JobClaimed, LeaseLost, StoreBack, StoreLost
from holdfast.jobs.store_outage import Outage
from holdfast.jobs.store_port import Extended, StoreUnavailable
from holdfast.jobs.worker.heartbeat import Heartbeat, LeaseChanges
from holdfast.jobs.worker.run import Run
from holdfast.testing import VirtualClock


class Scripted:
    """The store's part of a heartbeat, with scripted answers."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []
        self.closed = False
        self.registrations = []
        self.asked = WorkerRequests()

    async def register(self, worker_id):
        answer = self.registrations.pop(0) if self.registrations else None
        if answer is not None:
            raise answer

    async def requests(self, worker_id):
        return self.asked

    async def extend(self, leases, lease_seconds, *, now=None):
        self.calls.append((list(leases), lease_seconds))
        answer = self.answers.pop(0) if self.answers else Extended()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self):
        self.closed = True


def a_run(clock, held_until=10.0, **fields):
    app = App("a")

    @app.job()
    async def work(ctx): ...

    return Run(claim(**fields), work.kind, None, clock, held_until)


def beating(store, runs, clock, told=None, extend_every=3.0):
    changes = []
    listeners = [] if told is None else [told]
    heartbeat = Heartbeat(
        "w", lambda: store, dict(enumerate(runs)), lease_seconds=10.0,
        extend_every=extend_every, clock=clock,
        outage=Outage("w", clock, listeners), on_change=changes.append,
    )  # fmt: skip
    return heartbeat, changes


def test_all_leases_are_extended_in_one_statement():
    clock = VirtualClock()
    store, runs = Scripted(), {a_run(clock, job_id="a"), a_run(clock, job_id="b")}
    heartbeat, changes = beating(store, runs, clock)
    clock.advance(4)
    assert clock.run(heartbeat.beat()) == LeaseChanges()
    ((leases, seconds),) = store.calls
    assert ({lease.job_id for lease in leases}, seconds) == ({"a", "b"}, 10.0)
    assert {run.held_until for run in runs} == {14.0}
    assert changes == []


def test_without_leases_the_store_is_left_alone():
    clock, store = VirtualClock(), Scripted()
    heartbeat, _ = beating(store, (), clock)
    clock.run(heartbeat.beat())
    assert store.calls == []


def test_an_outage_does_not_outlast_the_leases_that_showed_it():
    clock, told = VirtualClock(), EventLog()
    store = Scripted(StoreUnavailable("gone"))
    held, outage = {"j1": a_run(clock)}, Outage("w", clock, [told])
    heartbeat = Heartbeat(
        "w", lambda: store, held, lease_seconds=10.0, extend_every=3.0, clock=clock, outage=outage,
        on_change=lambda changes: None,
    )  # fmt: skip
    clock.run(heartbeat.beat())
    assert outage.lasts
    held.clear()
    clock.run(heartbeat.beat())
    assert not outage.lasts
    assert told.events[1:] == [StoreBack("w", 0.0)]
    assert heartbeat.wait_seconds() == 3.0


def test_a_heartbeat_without_leases_does_not_end_an_outage_of_ticks():
    clock = VirtualClock()
    outage = Outage("w", clock, [])
    outage.lost("tick", OSError("gone"))
    heartbeat = Heartbeat(
        "w", Scripted, {}, lease_seconds=10.0, extend_every=3.0, clock=clock, outage=outage,
        on_change=lambda changes: None,
    )  # fmt: skip
    clock.run(heartbeat.beat())
    assert outage.lasts


def test_a_worker_is_reachable_again_once_its_jobs_are_reported(tmp_path):
    app = App("a")
    let_go = asyncio.Event()

    @app.job()
    async def work(ctx):
        await let_go.wait()

    class Faint:
        """Heartbeats that always fail, on a store that works."""

        async def register(self, worker_id): ...

        async def requests(self, worker_id):
            return WorkerRequests()

        async def extend(self, leases, lease_seconds, *, now=None):
            raise StoreUnavailable("gone")

        async def close(self): ...

    async def go():
        async with rig(tmp_path, app, lease_seconds=60, extend_every=0.05) as it:
            it.store.heartbeats = lambda kinds: Faint()
            worker = it.another(replace(QUICK, lease_seconds=60, extend_every=0.05))
            await it.enqueue(work, "w")
            async with it.running(worker):
                await it.told.wait(StoreLost)
                assert not worker.reachable
                let_go.set()
                await it.told.wait(StoreBack)
                assert worker.reachable
            assert await it.status("w") == "complete"

    asyncio.run(go())


def test_lost_leases_and_cancel_requests_are_passed_on_and_signalled():
    clock = VirtualClock()
    lost, asked, fine = (a_run(clock, job_id=job) for job in ("lost", "asked", "fine"))
    store = Scripted(Extended(lost=(lost.claim.lease,), cancel_requested=("asked",)))
    heartbeat, changes = beating(store, {lost, asked, fine}, clock)
    clock.run(heartbeat.beat())
    assert changes == [LeaseChanges(lost=(lost,), cancelled=(asked,))]
    assert lost.context.cancel_reason is CancelReason.LEASE_LOST
    assert asked.context.cancel_reason is CancelReason.REQUESTED
    assert fine.context.cancel_reason is None


def test_only_the_lease_with_the_lost_token_is_lost():
    clock = VirtualClock()
    old, new = a_run(clock, token=1), a_run(clock, token=2)
    store = Scripted(Extended(lost=(old.claim.lease,)))
    heartbeat, changes = beating(store, {old, new}, clock)
    clock.run(heartbeat.beat())
    assert changes == [LeaseChanges(lost=(old,))]


@pytest.mark.parametrize("failure", [StoreUnavailable("gone"), ValueError("a bug")])
def test_a_lease_that_expired_during_an_outage_of_the_store_is_uncertain(failure):
    clock, told = VirtualClock(), EventLog()
    run = a_run(clock, held_until=5.0)
    store = Scripted(failure, failure, Extended())
    heartbeat, changes = beating(store, {run}, clock, told)
    clock.run(heartbeat.beat())
    assert changes == []
    clock.advance(5)
    clock.run(heartbeat.beat())
    assert changes == [LeaseChanges(doubtful=(run,))]
    assert run.context.cancel_reason is CancelReason.LEASE_LOST
    assert len(told.of(StoreLost)) == 1
    clock.run(heartbeat.beat())
    assert len(told.of(StoreBack)) == 1


def test_a_store_that_hangs_counts_as_unavailable():
    clock = VirtualClock()
    run = a_run(clock, held_until=1.0)

    class Hanging(Scripted):
        async def extend(self, leases, lease_seconds, *, now=None):
            await asyncio.sleep(3600)

    heartbeat, changes = beating(Hanging(), {run}, clock)
    clock.run(heartbeat.beat())
    assert changes == [LeaseChanges(doubtful=(run,))]
    assert clock.monotonic() < 4


def test_after_a_failure_it_tries_again_sooner_and_then_slows_down():
    clock = VirtualClock()
    store = Scripted(*(StoreUnavailable("gone") for _ in range(6)))
    heartbeat, _ = beating(store, {a_run(clock)}, clock, extend_every=2.0)
    waits = []
    for _ in range(7):
        waits.append(heartbeat.wait_seconds())
        clock.run(heartbeat.beat())
    assert waits == [2.0, 0.25, 0.5, 1.0, 2.0, 2.0, 2.0]
    assert heartbeat.wait_seconds() == 2.0


def test_a_worker_is_registered_before_its_first_beat_and_again_after_a_failure():
    clock, told = VirtualClock(), EventLog()
    store = Scripted()
    store.registrations = [None, StoreUnavailable("gone"), StoreUnavailable("gone"), None, None]
    heartbeat, heard = beating(store, (), clock, told)
    states = []
    for _ in range(5):
        states.append(heartbeat.registered)
        clock.run(heartbeat.check())
    assert states == [False, True, False, False, True]
    assert heard == [LeaseChanges(registered=True)] * 2
    assert [type(event) for event in told.events] == [StoreLost, StoreBack]


def test_a_request_to_cancel_is_found_between_two_beats():
    clock = VirtualClock()
    asked, fine = a_run(clock, job_id="asked"), a_run(clock, job_id="fine")
    store = Scripted()
    heartbeat, heard = beating(store, {asked, fine}, clock)
    clock.run(heartbeat.check())
    store.asked = WorkerRequests(cancel=("asked", "unknown"))
    clock.run(heartbeat.check())
    assert heard == [LeaseChanges(registered=True), LeaseChanges(cancelled=(asked,))]
    assert asked.context.cancel_reason is CancelReason.REQUESTED
    assert store.calls == []


def test_the_thread_beats_and_ends_when_asked():
    store, runs = Scripted(), {a_run(SYSTEM_CLOCK)}
    heartbeat, _ = beating(store, runs, SYSTEM_CLOCK, extend_every=0.01)
    heartbeat.start()
    deadline = time.monotonic() + SOON
    while len(store.calls) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    heartbeat.stop()
    assert heartbeat.join(SOON)
    assert len(store.calls) >= 3
    assert store.closed
    heartbeat.stop()


def test_one_that_never_started_can_be_stopped():
    heartbeat, _ = beating(Scripted(), (), SYSTEM_CLOCK)
    heartbeat.stop()
    assert heartbeat.join(0)


def test_a_connection_that_does_not_close_does_not_keep_the_thread():
    class Clinging(Scripted):
        async def close(self):
            raise OSError("no")

    store, runs = Clinging(), {a_run(SYSTEM_CLOCK)}
    heartbeat, _ = beating(store, runs, SYSTEM_CLOCK, extend_every=0.01)
    heartbeat.start()
    while not store.calls:
        time.sleep(0.005)
    heartbeat.stop()
    assert heartbeat.join(SOON)


def test_a_blocked_event_loop_keeps_its_leases(tmp_path):
    app = App("a")

    @app.job()
    async def rude(ctx) -> str:
        beats.wait(5, leases=1)  # blocking the loop is the point
        return "mine all along"

    async def go():
        nonlocal beats
        async with rig(tmp_path, app, extend_every=0.1) as it:
            beats = NotedBeats(it)
            await it.enqueue(rude, "r")
            await it.run()
            job = await it.store.get("r")
            assert (job.result, job.attempt_count) == ('"mine all along"', 1)
            assert (await it.store.rescue()).requeued == ()

    beats = None
    asyncio.run(go())


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_run_whose_lease_was_taken_is_stopped_and_reports_nothing(tmp_path, concurrency):
    app = App("a")
    stopped = []

    @app.job()
    async def work(ctx):
        try:
            await asyncio.sleep(600)
        finally:
            stopped.append(ctx.cancel_reason)

    async def go():
        changes = {"lease_seconds": 60, "extend_every": 0.1, "maintenance": None}
        async with rig(tmp_path, app, concurrency=concurrency, **changes) as it:
            await it.enqueue(work, "w")
            async with it.running():
                await it.told.wait(JobClaimed)
                # Time passes only for the store: the lease expires and is taken.
                await it.store.rescue(now=await it.store.ping() + 3600)
                lost = await it.told.wait(LeaseLost)
                assert lost.certain
                await it.told.wait(JobClaimed, lambda event: event.attempt == 2)
                assert stopped == ["lease_lost"]
                it.worker.stop()
            assert await it.outcomes("w") == ["lease_lost", "released"]

    asyncio.run(go())


def test_a_hundred_leases_cost_next_to_no_processor_time():
    runs = {a_run(SYSTEM_CLOCK, job_id=f"j{n}") for n in range(100)}
    heartbeat, _ = beating(Scripted(), runs, SYSTEM_CLOCK, extend_every=0.05)
    before = time.process_time()

    async def beats():
        for _ in range(100):
            await heartbeat.beat()

    asyncio.run(beats())
    each = (time.process_time() - before) / 100
    assert each / QUICK.extend_every < 0.001
