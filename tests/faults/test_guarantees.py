"""The guarantees under kills, pauses and outages of workers, on every store."""

import asyncio
import json
import random
import signal
from collections import Counter
from dataclasses import replace

import pytest
from tests.faults import jobs as faults
from tests.faults.jobs import ledger
from tests.support.processes import pause
from tests.support.waiting import SOON, until

from holdfast.jobs.model import AttemptOutcome, EventName, JobStatus, NewJob
from holdfast.jobs.views import JobFilter
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.worker import Worker


def new(job, *job_ids, arguments=None, **fields):
    kind = job.kind
    return [
        NewJob(
            id=job_id,
            kind=kind.name,
            queue=kind.queue,
            arguments=json.dumps(arguments),
            max_attempts=kind.policy.max_attempts,
            downstream=None if kind.downstream is None else kind.downstream.name,
            **fields,
        )
        for job_id in job_ids
    ]


async def count(store, status):
    return sum(getattr(lane, status) for lane in (await store.stats()).lanes)


async def workers_with_jobs(fleet, store):
    """Return the workers that hold leases: the process id is part of a worker's name."""
    jobs = (await store.list_jobs(JobFilter(statuses=(JobStatus.PROCESSING,)))).jobs
    pids = {int(job.worker_id.split(":")[1]) for job in jobs}
    return [worker for worker in fleet.workers if worker.pid in pids]


async def finished(store, job_id):
    job = await store.get(job_id)
    return job if job.status in {"complete", "failed", "cancelled"} else None


def test_killed_workers_lose_no_job_and_complete_none_twice(fleet):
    total, chance = 200, random.Random(7)
    job_ids = [f"j{n}" for n in range(total)]

    async def go():
        async with fleet.open() as store:
            for _ in range(4):
                fleet.start()
            for first in range(0, total, 25):
                part = job_ids[first : first + 25]
                await store.enqueue(new(faults.effect, *part, arguments=0.3))
                busy = await until(lambda: workers_with_jobs(fleet, store))
                fleet.kill(chance.choice(busy))
                fleet.start()

            async def all_complete():
                return await count(store, "complete") == total

            await until(all_complete)
            again = 0
            for job_id in job_ids:
                attempts = await store.attempts(job_id)
                outcomes = [attempt.outcome for attempt in attempts]
                assert outcomes.count(AttemptOutcome.COMPLETE) == 1
                assert set(outcomes[:-1]) <= {AttemptOutcome.LEASE_LOST}
                assert [attempt.number for attempt in attempts] == [
                    *range(1, len(attempts) + 1)
                ]  # fmt: skip
                events = [event.name for event in await store.events(job_id)]
                assert events.count(EventName.COMPLETE) == 1
                # The recorded attempt is one that really ended.
                job = await store.get(job_id)
                assert [job_id, len(attempts), int(job.result), "end"] in ledger(fleet.ledger)
                again += len(attempts) > 1
            assert again > 0

    asyncio.run(go())


@pytest.mark.parametrize(
    "write, refusal",
    [
        ("completion", "WriteRefused"),
        ("retry", "WriteRefused"),
        ("failure", "WriteRefused"),
        ("progress", "LeaseLost"),
        ("heartbeat", "LeaseLost"),
    ],
)
def test_a_worker_that_was_stopped_beyond_its_lease_can_write_nothing(fleet, write, refusal):
    async def go():
        async with fleet.open() as store:
            args = {"gates": str(fleet.folder), "write": write}
            await store.enqueue(new(faults.freeze, "f", arguments=args))
            # Its heartbeat would notice the loss first, so it is disabled unless it is the writer.
            sleeper = fleet.start(maintains=False, believes=write != "heartbeat")

            async def recorded(*words):
                return list(words) in ledger(fleet.ledger)

            await until(lambda: recorded("f", 1, 1, "start"))
            pause(sleeper.pid, fleet.folder / "work.db")
            fleet.start(concurrency=1)
            await until(lambda: recorded("f", 2, 2, "start"))

            async def heir_speaks():
                return (await store.get("f")).progress_note == "heir"

            await until(heir_speaks)
            (fleet.folder / "gate-1").touch()
            sleeper.send_signal(signal.SIGCONT)
            await until(lambda: recorded("f", 1, refusal))
            assert (await store.stats()).totals["refused_writes"] >= 1
            job = await store.get("f")
            assert (job.status, job.token, job.attempt_count) == (JobStatus.PROCESSING, 2, 2)
            assert (job.progress, job.progress_note) == (0.5, "heir")

            (fleet.folder / "gate-2").touch()
            job = await until(lambda: finished(store, "f"))
            assert (job.status, job.result) == (JobStatus.COMPLETE, '"heir"')
            outcomes = [attempt.outcome for attempt in await store.attempts("f")]
            assert outcomes == [AttemptOutcome.LEASE_LOST, AttemptOutcome.COMPLETE]
            events = [event.name for event in await store.events("f")]
            assert events.count(EventName.COMPLETE) == 1
            assert EventName.RETRY not in events
            assert EventName.FAILED not in events

    asyncio.run(go())


def test_a_blocked_event_loop_keeps_its_lease(fleet):
    async def go():
        async with fleet.open() as store:
            await store.enqueue(new(faults.block, "b", arguments=2.5))
            fleet.start()

            async def started():
                return ledger(fleet.ledger)

            await until(started)
            fleet.start()
            job = await until(lambda: finished(store, "b"))
            assert (job.result, job.attempt_count) == ('"done"', 1)
            assert ledger(fleet.ledger) == [["b", 1, 1, "start"]]

    asyncio.run(go())


def test_a_job_that_kills_every_worker_ends_in_the_dead_letters(fleet):
    async def go():
        async with fleet.open() as store:
            await store.enqueue(new(faults.crash, "c"))
            for _ in range(3):
                fleet.start(lease_seconds=0.5).wait(SOON)
            fleet.start(lease_seconds=0.5)
            job = await until(lambda: finished(store, "c"))
            assert (job.status, job.attempt_count) == (JobStatus.FAILED, 3)
            assert (job.error.code, job.dead_letter) == ("LEASE_LOST", "lease_lost")
            assert len(ledger(fleet.ledger)) == 3

    asyncio.run(go())


def test_an_open_downstream_holds_only_its_own_jobs(fleet):
    (fleet.folder / "down").touch()

    async def gateway(store):
        return await store.downstream("gateway")

    def calls(what="start"):
        return Counter(line[3] for line in ledger(fleet.ledger) if line[0].startswith("g"))[what]

    async def go():
        async with fleet.open() as store:
            settings = replace(faults.GATEWAY.settings(), breaker=replace(
                faults.GATEWAY.breaker, open_for=600.0))  # fmt: skip
            await store.declare_downstreams([settings])
            held = [f"g{n}" for n in range(30)]
            await store.enqueue(new(faults.call, *held, arguments=str(fleet.folder)))
            fleet.start(concurrency=1)

            async def opened():
                return (await gateway(store)).circuit.state == "OPEN"

            await until(opened)
            assert calls() == 3
            # Other jobs run meanwhile; held jobs are neither attempted nor counted.
            fleet.start(concurrency=8)
            await store.enqueue(new(faults.other, *(f"o{n}" for n in range(100))))

            async def flowed():
                return await count(store, "complete") == 100

            await until(flowed)
            assert calls() == 3
            jobs = [await store.get(job_id) for job_id in held]
            assert sum(job.attempt_count for job in jobs) == 3
            assert all(job.status == JobStatus.QUEUED for job in jobs)

            # It works again: only two trials run until both have succeeded.
            (fleet.folder / "down").unlink()
            record = await gateway(store)
            now = await store.ping()
            circuit = replace(record.circuit, open_until=now)
            assert await store.write_downstream(replace(record, circuit=circuit))

            async def trials():
                return calls() == 5

            await until(trials)
            # Both workers claim again, and claim no held job.
            await store.enqueue(new(faults.other, *(f"p{n}" for n in range(100))))
            await until(lambda: finished(store, "p99"))
            assert calls() == 5
            assert (await gateway(store)).circuit.state == "HALF_OPEN"
            (fleet.folder / "go").touch()

            async def drained():
                return await count(store, "complete") == 230

            await until(drained)
            assert (await gateway(store)).circuit.state == "CLOSED"

    asyncio.run(go())


def test_retries_that_wait_take_nothing_from_the_others(fleet):
    async def go():
        async with fleet.open() as store:
            options = WorkerOptions(concurrency=3, poll_interval=0.1)
            kinds = {kind.name: kind for kind in faults.app.kinds}
            await store.enqueue(new(faults.failing, "f1", "f2", "f3"))
            await store.enqueue(new(faults.quick, *(f"q{n}" for n in range(100))))
            await Worker(store, kinds, options).run(until_idle=True)
            assert await count(store, "complete") == 100
            for job_id in ("f1", "f2", "f3"):
                job = await store.get(job_id)
                assert (job.status, job.attempt_count) == (JobStatus.QUEUED, 1)
                assert job.retry_after > await store.ping() + 30

    asyncio.run(go())


def test_a_passed_deadline_fails_the_job_and_keeps_its_late_result(fleet):
    async def go():
        async with fleet.open() as store:
            fleet.start()
            deadline_at = await store.ping() + 2.0  # it begins before that
            await store.enqueue(new(faults.slow, "s", arguments=5.0, deadline_at=deadline_at))
            job = await until(lambda: finished(store, "s"))
            assert (job.status, job.error.code) == (JobStatus.FAILED, "TIMEOUT")
            assert job.dead_letter == "deadline"
            assert job.finished_at - deadline_at < 1.5

            async def late():
                return await store.late_results("s")

            (result,) = await until(late)
            assert result.result == '"late"'
            job = await store.get("s")
            assert (job.status, job.result) == (JobStatus.FAILED, None)

    asyncio.run(go())


def test_sigterm_finishes_what_runs_and_leaves_the_rest(fleet):
    async def go():
        async with fleet.open() as store:
            await store.enqueue(new(faults.effect, "a", "b", "c", arguments=0.5))
            worker = fleet.start(concurrency=1)

            async def started():
                return ledger(fleet.ledger)

            await until(started)
            assert await asyncio.to_thread(fleet.stop, worker) == 0
            statuses = sorted([(await store.get(job_id)).status for job_id in "abc"])
            assert statuses == ["complete", "queued", "queued"]
            assert (await store.stats()).totals.get("refused_writes", 0) == 0

    asyncio.run(go())


def test_maintenance_goes_on_when_its_leader_is_killed(fleet):
    async def go():
        async with fleet.open() as store:
            leader = fleet.start()
            fleet.start()
            await store.enqueue(new(faults.effect, "e", arguments=1.0))

            async def started():
                return ledger(fleet.ledger)

            await until(started)
            fleet.kill(leader)
            for worker in tuple(fleet.workers):
                fleet.kill(worker)
            fleet.start()
            job = await until(lambda: finished(store, "e"))
            assert (job.status, job.attempt_count) == (JobStatus.COMPLETE, 2)

    asyncio.run(go())


def test_ten_thousand_in_short_every_job_has_exactly_one_completion(fleet):
    total = 1000

    async def go():
        async with fleet.open() as store:
            await store.enqueue(new(faults.quick, *(f"q{n}" for n in range(total))))
            for _ in range(3):
                fleet.start(concurrency=20, lease_seconds=30.0, extend_every=5.0)

            async def all_complete():
                return await count(store, "complete") == total

            await until(all_complete)
            ran = Counter(line[0] for line in ledger(fleet.ledger))
            assert len(ran) == total
            assert set(ran.values()) == {1}
            assert (await store.stats()).totals.get("refused_writes", 0) == 0

    asyncio.run(go())
