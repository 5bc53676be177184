"""At default settings a killed worker is noticed in seconds, and so is a request to cancel."""

import asyncio
import os
import signal
import sys
import time

from tests.faults import jobs as faults
from tests.faults.jobs import ledger
from tests.faults.test_guarantees import finished, new
from tests.support.processes import pause
from tests.support.waiting import until

from holdfast.jobs.model import AttemptOutcome, JobStatus

PROMISED = 5.0
"""Seconds within which a dead worker is noticed."""
BUSY = 15.0
"""Seconds more that a busy machine may take; a lease lasts 300 s, a leadership 30 s."""


def starts(fleet, job_id):
    """Return the process ids of the attempts of a job that have started."""
    lines = [line for line in ledger(fleet.ledger) if line[0] == job_id]
    return [int(line[3].removeprefix("start ")) for line in lines if line[3].startswith("start ")]


async def started(fleet, job_id, attempts=1):
    await until(lambda: len(starts(fleet, job_id)) >= attempts)
    return starts(fleet, job_id)[attempts - 1]


async def kill_runner(fleet, job_id):
    """Kill the worker that runs a job; return the seconds until another worker runs it."""
    pid = await started(fleet, job_id)
    (worker,) = [worker for worker in fleet.workers if worker.pid == pid]
    begin = time.monotonic()
    fleet.kill(worker)
    await started(fleet, job_id, 2)
    return time.monotonic() - begin


def test_a_killed_workers_job_runs_elsewhere_in_seconds(fleet):
    """Whether or not the killed worker was the leader: both are killed, one after the other."""

    async def go():
        async with fleet.open() as store:
            for _ in range(3):
                fleet.start(defaults=True)
            seconds = []
            for name in ("first", "second"):
                await store.enqueue(new(faults.long, name, arguments=3600.0))
                seconds.append(await kill_runner(fleet, name))
            sys.stdout.write(f"\nseconds: {seconds}\n")
            assert max(seconds) < PROMISED + BUSY
            for name in ("first", "second"):
                *lost, running = await store.attempts(name)
                assert {attempt.outcome for attempt in lost} == {AttemptOutcome.LEASE_LOST}
                assert running.outcome is None

    asyncio.run(go())


def test_a_restart_under_the_same_name_does_not_hide_that_a_worker_was_killed(fleet):
    async def go():
        async with fleet.open() as store:
            options = {"worker_id": "steady", "lease_seconds": 300.0, "extend_every": 30.0}
            killed = fleet.start(**options)
            await store.enqueue(new(faults.long, "job", arguments=3600.0))
            await started(fleet, "job")
            fleet.kill(killed)
            restarted = fleet.start(**options)
            assert await started(fleet, "job", 2) == restarted.pid

    asyncio.run(go())


def test_a_stopped_worker_keeps_its_jobs_until_its_lease_expires(fleet):
    async def go():
        async with fleet.open() as store:
            fleet.start(lease_seconds=8.0, extend_every=1.0)
            await store.enqueue(new(faults.long, "job", arguments=3600.0))
            pid = await started(fleet, "job")
            (stopped,) = [worker for worker in fleet.workers if worker.pid == pid]
            fleet.start(lease_seconds=8.0, extend_every=1.0)
            begin = time.monotonic()
            pause(stopped.pid, fleet.folder / "work.db")
            try:
                await started(fleet, "job", 2)
                assert time.monotonic() - begin > 8.0 - 1.0 - 0.5
            finally:
                os.kill(stopped.pid, signal.SIGCONT)

    asyncio.run(go())


def test_a_cancel_reaches_an_attempt_in_another_process_in_a_second(fleet):
    async def go():
        async with fleet.open() as store:
            fleet.start(defaults=True)
            await store.enqueue(new(faults.long, "job", arguments=3600.0))
            await started(fleet, "job")
            begin = time.monotonic()
            await store.cancel("job")
            await until(lambda: [line for line in ledger(fleet.ledger) if line[3] == "cancelled"])
            seconds = time.monotonic() - begin
            sys.stdout.write(f"\nseconds: {seconds}\n")
            job = await until(lambda: finished(store, "job"))
            assert job.status is JobStatus.CANCELLED
            assert seconds < 1.0 + BUSY / 2  # a heartbeat follows after 30 s only

    asyncio.run(go())
