"""A worker on its own store, and a listener that tests can wait on instead of sleeping."""

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace

from msgspec import structs
from tests.support import waiting

from holdfast.jobs.downstreams.record import Admission
from holdfast.jobs.model import Claim, Lease, NewJob
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.worker import Worker
from holdfast.store.sqlite.store import SQLiteStore

SOON = waiting.SOON
QUICK = WorkerOptions(poll_interval=0.05, shutdown_seconds=5, cleanup_seconds=0.2)


class EventLog:
    """Records every event, and lets tests wait for one."""

    def __init__(self):
        self.events = []
        self._waiting = []

    def __call__(self, event):
        self.events.append(event)
        for kind, matches, future in tuple(self._waiting):
            if isinstance(event, kind) and matches(event) and not future.done():
                future.get_loop().call_soon_threadsafe(_settle, future, event)

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    async def wait(self, kind, matches=lambda event: True, count=1):
        """Return the first `count`-th matching event, past or future."""
        while True:
            found = [event for event in self.of(kind) if matches(event)]
            if len(found) >= count:
                return found[count - 1]
            future = asyncio.get_running_loop().create_future()
            entry = (kind, matches, future)
            self._waiting.append(entry)
            try:
                if len([event for event in self.of(kind) if matches(event)]) < count:
                    async with asyncio.timeout(SOON):
                        await future
            finally:
                self._waiting.remove(entry)


def _settle(future, event):
    if not future.done():
        future.set_result(event)


class NotedBeats:
    """Count the leases that each heartbeat of a rig's worker has extended."""

    def __init__(self, it):
        self._open, self._counts = it.store.heartbeats, []
        self._beats = None
        it.store.heartbeats = self._heartbeats
        it.worker = it.another(it.options)

    def _heartbeats(self, kinds):
        self._beats = self._open(kinds)
        return self

    async def extend(self, leases, *args, **kwargs):
        extended = await self._beats.extend(leases, *args, **kwargs)
        self._counts.append(len(leases))
        return extended

    async def register(self, worker_id):
        await self._beats.register(worker_id)

    async def requests(self, worker_id):
        return await self._beats.requests(worker_id)

    async def close(self):
        await self._beats.close()

    def wait(self, beats, leases):
        """Block this thread until so many further heartbeats, each of so many leases."""
        seen, end = len(self._counts), time.monotonic() + SOON
        while self._counts[seen:].count(leases) < beats:
            assert time.monotonic() < end, f"beats so far: {self._counts}"
            time.sleep(0.005)


class Rig:
    """A store, a worker on it and its events."""

    def __init__(self, store, app, options):
        self.store = store
        self.app = app
        self.told = EventLog()
        self.options = options
        self.kinds = {kind.name: kind for kind in app.kinds}
        self.worker = self.another(options)

    def another(self, options, **arguments):
        return Worker(self.store, self.kinds, options, listeners=[self.told], **arguments)

    async def enqueue(self, kind, *job_ids, **fields):
        kind = kind.kind
        job = NewJob(
            id="job", kind=kind.name, queue=kind.queue, max_attempts=kind.policy.max_attempts,
            downstream=kind.downstream.name if kind.downstream is not None else None,
        )  # fmt: skip
        jobs = [structs.replace(job, id=job_id, **fields) for job_id in job_ids]
        await self.store.enqueue(jobs)

    async def run(self):
        async with asyncio.timeout(SOON):
            await self.worker.run(until_idle=True)

    @asynccontextmanager
    async def running(self, worker=None):
        worker = worker or self.worker
        task = asyncio.create_task(worker.run())
        try:
            yield task
        finally:
            worker.stop()
            async with asyncio.timeout(SOON):
                await task

    async def status(self, job_id):
        return str((await self.store.get(job_id)).status)

    async def outcomes(self, job_id):
        return [
            str(attempt.outcome) if attempt.outcome else None
            for attempt in await self.store.attempts(job_id)
        ]

    async def until(self, job_id, status):
        """Wait until a job has a status."""
        async with asyncio.timeout(SOON):
            sequence = 0
            while await self.status(job_id) != status:
                await self.store.wait_for_changes(sequence, 0.05)


@asynccontextmanager
async def rig(folder, app, options=QUICK, **changes):
    async with SQLiteStore(folder / "jobs.db") as store:
        made = Rig(store, app, replace(options, **changes))
        await store.declare_downstreams(
            [kind.downstream.settings() for kind in app.kinds if kind.downstream is not None]
        )
        yield made


CLAIM = Claim(
    lease=Lease("j1", 7, "w", 0.0), kind="k", queue="default", downstream=None, arguments="null",
    attempt=1, max_attempts=3, owner=None, created_at=0.0, started_at=1000.0, deadline_at=None,
    meta=None, admission=Admission.CALL, permit=None,
)  # fmt: skip


def claim(token=7, job_id="j1", **fields):
    return structs.replace(CLAIM, lease=Lease(job_id, token, "w", 0.0), **fields)
