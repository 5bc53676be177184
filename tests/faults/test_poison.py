"""A job that kills each of its workers does not take other jobs to the dead letters."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.short_job_process import POISON, work
from tests.support.waiting import SOON, until

from holdfast.bootstrap import open_store
from holdfast.jobs.model import DeadLetterReason, JobStatus, NewJob
from holdfast.jobs.worker.options import WorkerOptions

ROOT = Path(__file__).parents[2]
WORKERS = 4
LEARNING = 500
"""Jobs after which a worker claims as far ahead as it may."""
SHORT_JOBS = 190
FINISHED = {JobStatus.COMPLETE, JobStatus.FAILED, JobStatus.CANCELLED}


def start(url, queue):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.short_job_process", url, queue],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )


async def finished(store):
    lanes = (await store.stats()).lanes
    return sum(lane.complete + lane.failed + lane.cancelled for lane in lanes)


def new_job(job_id, **fields):
    return NewJob(job_id, work.kind.name, max_attempts=3, **fields)


def run(scenario):
    """Run `scenario` with a list of worker processes, which end with it."""
    workers = []
    try:
        asyncio.run(scenario(workers))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def new_jobs(prefix, queues, number):
    """Return `number` jobs for each of `queues`."""
    names = [(queue, f"{prefix}-{queue}-{place}") for queue in queues for place in range(number)]
    return [new_job(name, queue=queue) for queue, name in names]


@pytest.mark.parametrize("beside", [0, 1500], ids=["alone", "beside jobs of other queues"])
def test_a_job_that_kills_its_workers_makes_no_dead_letters_of_others(url, beside):
    """Claims that bring none of the jobs that lost a worker come in between, of other queues."""

    async def scenario(workers):
        async with open_store(url) as store:
            queues = [f"learning-{number}" for number in range(WORKERS)]
            workers += [start(url, queue) for queue in queues]
            learning = new_jobs("learning", queues, LEARNING)
            await store.enqueue(learning)
            await until(lambda: same(finished(store), len(learning)))
            names = [f"job-{number}" for number in range(SHORT_JOBS)]
            names.insert(20, POISON)
            others = new_jobs("other", queues, beside)
            await store.enqueue([new_job(name) for name in names] + others)
            # The queues of the three workers that die have no other worker.
            await until(lambda: all_finished(store, names))
            jobs = {name: await store.get(name) for name in names}
            poison = jobs.pop(POISON)
            assert poison.dead_letter is DeadLetterReason.LEASE_LOST
            assert poison.attempt_count == 3
            statuses = [job.status for job in jobs.values()]
            assert statuses.count(JobStatus.COMPLETE) == SHORT_JOBS
            # The second time it takes at most the jobs that run beside it.
            again = [job for job in jobs.values() if job.attempt_count > 2]
            assert len(again) <= WorkerOptions().concurrency
            assert [worker.poll() for worker in workers].count(None) == WORKERS - 3

    run(scenario)


def test_two_jobs_that_kill_each_worker_make_no_dead_letters_of_others(url):
    """One worker at a time, which is started again."""

    async def scenario(workers):
        async with open_store(url) as store:
            workers.append(start(url, "learning"))
            await store.enqueue([new_job(f"learning-{number}") for number in range(LEARNING)])
            await until(lambda: same(finished(store), LEARNING))
            names = [f"job-{number}" for number in range(SHORT_JOBS)]
            for place in (20, 40):
                names.insert(place, f"{POISON}-{place}")
            await store.enqueue([new_job(name) for name in names])
            async with asyncio.timeout(SOON):
                while not await same(finished(store), LEARNING + len(names)):
                    if workers[-1].poll() is not None:
                        workers.append(start(url, "learning"))
                    await asyncio.sleep(0.01)
            jobs = {name: await store.get(name) for name in names}
            dead = {name for name, job in jobs.items() if job.is_dead_letter}
            assert dead == {f"{POISON}-20", f"{POISON}-40"}
            assert {jobs[name].attempt_count for name in dead} == {3}

    run(scenario)


async def all_finished(store, names):
    jobs = [await store.get(name) for name in names]
    return all(job.status in FINISHED for job in jobs)


async def same(count, expected):
    return await count == expected
