"""Outages of the store: workers wait, lose nothing and log each outage once."""

import asyncio
import logging
from contextlib import asynccontextmanager

import apsw
from tests.faults import jobs as faults
from tests.support.postgres import obtain
from tests.support.waiting import Calls
from tests.support.workers import SOON, EventLog

from holdfast.bootstrap import open_store
from holdfast.jobs.job_events import JobClaimed, StoreBack, StoreLost
from holdfast.jobs.model import NewJob
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.worker import Worker
from holdfast.store.sqlite.store import SQLiteStore

OPTIONS = WorkerOptions(concurrency=4, poll_interval=0.1, lease_seconds=30, extend_every=0.3)
TOTAL = 400


@asynccontextmanager
async def loaded(store):
    """Run a worker on many short jobs; yield its events, and check that all jobs end."""
    events = EventLog()
    worker = Worker(store, {kind.name: kind for kind in faults.app.kinds}, OPTIONS,
                    listeners=[events])  # fmt: skip
    kind = faults.effect.kind.name
    jobs = [NewJob(f"j{n}", kind, arguments="0.01", max_attempts=50) for n in range(TOTAL)]
    await store.enqueue(jobs)
    task = asyncio.create_task(worker.run())
    await events.wait(JobClaimed, count=20)
    yield events
    await events.wait(StoreBack)
    async with asyncio.timeout(2 * SOON):
        while sum(lane.complete for lane in (await store.stats()).lanes) < TOTAL:
            await asyncio.sleep(0.05)
    worker.stop()
    await task
    for job in jobs:
        events = [event.name for event in await store.events(job.id)]
        assert events.count("complete") == 1


def said_once(caplog):
    lines = [record.message for record in caplog.records if record.name == "holdfast.worker"]
    assert len([line for line in lines if "does not answer" in line]) == 1
    assert len([line for line in lines if "answers again" in line]) == 1


def test_a_file_locked_by_another_process_is_waited_for(tmp_path, caplog):
    path = tmp_path / "jobs.db"

    async def go():
        async with SQLiteStore(path, busy_timeout=0.1) as store, loaded(store) as events:
            other = apsw.Connection(str(path))
            other.set_busy_timeout(5000)
            await asyncio.to_thread(other.execute, "BEGIN IMMEDIATE")
            await events.wait(StoreLost)
            await Calls(store, "tick").more(3)
            other.execute("ROLLBACK")
            other.close()

    with caplog.at_level(logging.INFO, "holdfast.worker"):
        asyncio.run(go())
    said_once(caplog)


def test_a_server_that_restarts_is_waited_for(caplog):
    server = obtain()
    try:
        url = server.url(server.create_database())

        async def go():
            store = open_store(url)
            await store.migrate()
            async with store, loaded(store) as events:
                await asyncio.to_thread(server.stop)
                await events.wait(StoreLost)
                await asyncio.to_thread(server.start)

        with caplog.at_level(logging.INFO, "holdfast.worker"):
            asyncio.run(go())
        said_once(caplog)
    finally:
        server.close()
