"""The runs of a worker: slots, leases, timers, and runs that do not stop."""

import asyncio

from tests.support.workers import EventLog, claim

from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import CancelReason
from holdfast.jobs.job_events import AttemptAbandoned, LeaseLost
from holdfast.jobs.model import Completed, Finished
from holdfast.jobs.worker.heartbeat import LeaseChanges
from holdfast.jobs.worker.run import Run
from holdfast.jobs.worker.slots import Slots
from holdfast.testing import VirtualClock


class Blocking:
    """A handler outside the event loop."""

    def __init__(self):
        self.asked = []

    def request_stop(self, reason):
        self.asked.append(reason)

    def kill(self):
        raise AssertionError("the executor strikes")


class Scene:
    def __init__(self):
        self.clock = VirtualClock()
        self.told = EventLog()
        self.woken = 0
        self.given_up = []
        self.runs = Slots(
            "w", 10, clock=self.clock, cleanup_seconds=2.0, listeners=[self.told],
            abandon=self._abandon, wake=self._wake,
        )  # fmt: skip

    def _wake(self):
        self.woken += 1

    def _abandon(self, run):
        run.abandoned = True
        run.ends_at = None
        if not run.lost:
            run.report = Finished(run.claim.lease, Completed())
        self.given_up.append((self.clock.monotonic(), run))

    def add(self, *, timeout=None, **fields):
        app = App("a")

        @app.job(timeout=timeout)
        def work(ctx): ...

        run = Run(claim(**fields), work.kind, None, self.clock, 300.0)
        run.call = Blocking()
        self.runs.add(run)
        return run


def test_a_run_takes_a_slot_until_it_ends_and_a_lease_until_it_is_reported():
    scene = Scene()
    run = scene.add()
    assert scene.runs.find(run.context) is run
    run.report = Finished(run.claim.lease, Completed())
    scene.runs.ended(run)
    assert (scene.runs.running, scene.runs.done) == (set(), [run])
    assert scene.runs.busy
    assert scene.runs.held
    assert scene.woken == 1
    scene.runs.reported(scene.runs.take_done())
    assert not scene.runs.busy
    assert scene.runs.find(run.context) is None


def test_runs_are_reported_in_the_order_in_which_they_ended():
    scene = Scene()
    first, second, third = (scene.add(job_id=name) for name in "abc")
    for run, seconds in ((first, 1.0), (second, 3.0), (third, 2.0)):
        run.report = Finished(run.claim.lease, Completed(), duration=seconds)
    scene.runs.ended(second)
    scene.runs.ended(third)
    scene.runs.unreported([first])
    assert scene.runs.take_done() == [first, third, second]


def test_time_is_up_in_the_order_of_the_clock_and_then_time_to_clean_up_too():
    scene = Scene()

    async def go():
        late, soon = scene.add(timeout=9.0, job_id="l"), scene.add(timeout=5.0, job_id="s")
        await asyncio.sleep(5.5)
        assert (soon.stop_reason, late.stop_reason) == (CancelReason.TIMEOUT, None)
        assert soon.call.asked == [CancelReason.TIMEOUT]
        await asyncio.sleep(60)
        assert scene.given_up == [(7.0, soon), (11.0, late)]
        assert scene.runs.running == {late, soon}
        assert scene.runs.done == [soon, late]
        assert len(scene.told.of(AttemptAbandoned)) == 2
        scene.runs.abandon(soon)
        assert len(scene.given_up) == 2
        scene.runs.ended(soon)
        assert scene.runs.done == [soon, late]
        scene.runs.close()

    scene.clock.run(go())


def test_the_time_of_a_run_that_waits_for_its_child_begins_with_the_child():
    scene = Scene()

    async def go():
        run = scene.add(timeout=5.0)
        run.waits = True
        await asyncio.sleep(12)
        assert run.stop_reason is None
        run.waits = False
        run.count_from(12.0)
        await asyncio.sleep(4.9)
        assert run.stop_reason is None
        await asyncio.sleep(0.2)
        assert run.stop_reason is CancelReason.TIMEOUT
        scene.runs.close()

    scene.clock.run(go())


def test_the_first_reason_to_stop_stays():
    scene = Scene()

    async def go():
        run = scene.add()
        scene.runs.stop(run, CancelReason.REQUESTED)
        scene.runs.stop_all(CancelReason.SHUTDOWN)
        assert run.stop_reason is CancelReason.REQUESTED
        assert run.context.cancel_reason is CancelReason.REQUESTED
        scene.runs.close()

    scene.clock.run(go())


def test_lost_leases_and_cancellations_from_a_heartbeat_reach_the_runs():
    scene = Scene()

    async def go():
        lost, doubtful, asked = (scene.add(job_id=job) for job in "lda")
        scene.runs.apply(LeaseChanges(lost=(lost,), doubtful=(doubtful,), cancelled=(asked,)))
        assert (lost.lost, doubtful.lost) == (True, False)
        assert [run.stop_reason for run in (lost, doubtful, asked)] == [
            CancelReason.LEASE_LOST, CancelReason.LEASE_LOST, CancelReason.REQUESTED,
        ]  # fmt: skip
        assert set(scene.runs.held) == {"d", "a"}
        assert scene.runs.find(lost.context) is None
        assert scene.runs.find(doubtful.context) is doubtful
        assert [event.certain for event in scene.told.of(LeaseLost)] == [True, False]
        scene.runs.apply(LeaseChanges(lost=(lost,), doubtful=(doubtful,)))
        assert len(scene.told.of(LeaseLost)) == 2
        await asyncio.sleep(60)
        assert set(scene.runs.done) == {doubtful, asked}
        scene.runs.close()

    scene.clock.run(go())


def test_a_lease_that_its_own_report_may_have_ended_is_not_called_lost(caplog):
    async def go():
        scene = Scene()
        run = scene.add()
        run.report = Finished(run.claim.lease, Completed())
        scene.runs.ended(run)
        scene.runs.apply(LeaseChanges(lost=(run,)))
        assert not scene.told.of(LeaseLost)
        assert not run.lost
        assert not caplog.records
        scene.runs.reported(scene.runs.take_done())
        assert not scene.runs.busy

    asyncio.run(go())


def test_a_job_claimed_again_by_its_own_worker_ends_the_run_that_lost_it():
    scene = Scene()

    async def go():
        old = scene.add(token=1)
        new = scene.add(token=2)
        assert (old.lost, old.stop_reason) == (True, CancelReason.LEASE_LOST)
        assert (new.lost, new.stop_reason) == (False, None)
        assert scene.runs.held == {"j1": new}
        scene.runs.ended(old)
        assert scene.runs.held == {"j1": new}
        scene.runs.close()

    scene.clock.run(go())
