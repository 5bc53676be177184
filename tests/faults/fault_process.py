"""A worker that meets a fault of its store: `python -m tests.faults.fault_process FAULT FOLDER`.

Prints the outcome as a JSON object. It is a separate process, because some faults are limits of the
whole process.
"""

import asyncio
import errno
import json
import logging
import resource
import subprocess
import sys
from pathlib import Path

import apsw
from tests.support.workers import SOON, EventLog

from holdfast.jobs.declare.app import App
from holdfast.jobs.job_events import JobClaimed, StoreBack, StoreLost
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import StoreUnavailable
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.worker import Worker
from holdfast.store.sqlite.store import SQLiteStore

OPTIONS = WorkerOptions(concurrency=4, poll_interval=0.1, lease_seconds=60, extend_every=0.2)
ARGUMENTS = json.dumps("x" * 2000)
app = App("faults")


@app.job()
async def wait_a_little(ctx, args: str):
    await asyncio.sleep(0.01)


class FailureCountingStore(SQLiteStore):
    """A store that counts its failed ticks."""

    failed = 0

    async def tick(self, *args, **kwargs):
        try:
            return await super().tick(*args, **kwargs)
        except StoreUnavailable:
            self.failed += 1
            raise


class FullDisk:
    """Fills a small file system to the last byte."""

    def __init__(self, database):
        self.filler = database.with_name("filler")

    def begin(self):
        with self.filler.open("wb", buffering=0) as file:
            for piece in (65536, 4096, 1):
                try:
                    while file.write(b"\0" * piece):
                        pass
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def end(self):
        self.filler.unlink()


class FileLimit:
    """Forbids the files of this process to grow; existing bytes can be overwritten."""

    def __init__(self, database):
        self.folder = database.parent

    def begin(self):
        largest = max(file.stat().st_size for file in self.folder.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))

    def end(self):
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)


class Lock:
    """Makes another process hold the write lock for longer than the store waits."""

    code = (
        "import apsw, sys; db = apsw.Connection(sys.argv[1]); db.set_busy_timeout(60_000);"
        "db.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read()"
    )

    def __init__(self, database):
        self.database = database
        self.holder = None

    def begin(self):
        command = [sys.executable, "-c", self.code, str(self.database)]
        self.holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"held\n"

    def end(self):
        self.holder.communicate()


class LockOfKilledProcess(Lock):
    """Like `Lock`, but the other process is killed while it holds the lock."""

    def end(self):
        self.holder.kill()
        self.holder.communicate()


FAULTS = {"disk": FullDisk, "limit": FileLimit, "lock": Lock, "killed": LockOfKilledProcess}


class Client:
    """Enqueues one job after the other and records which were acknowledged."""

    def __init__(self, store):
        self.store = store
        self.acknowledged = []
        self.refused = []
        self.errors = []

    async def enqueue(self):
        name = f"j{len(self.acknowledged) + len(self.refused)}"
        job = NewJob(name, wait_a_little.kind.name, arguments=ARGUMENTS, max_attempts=1)
        try:
            await self.store.enqueue([job])
        except StoreUnavailable as error:
            self.refused.append(name)
            self.errors.append(type(error).__name__)
            await asyncio.sleep(0.05)
        else:
            self.acknowledged.append(name)


async def until(fact, worker):
    """Wait until `fact` is true; raise the error of a `worker` that has ended."""
    async with asyncio.timeout(2 * SOON):
        while not await fact():
            if worker.done():
                await worker
            await asyncio.sleep(0.02)


async def survive(store, fault):
    """Run a worker before, during and after `fault`; return the client."""
    log, client = EventLog(), Client(store)
    worker = Worker(store, {kind.name: kind for kind in app.kinds}, OPTIONS, listeners=[log])
    running = asyncio.create_task(worker.run())
    for _ in range(100):
        await client.enqueue()
    await log.wait(JobClaimed, count=20)
    await asyncio.to_thread(fault.begin)

    async def has_lasted():
        await client.enqueue()
        return len(client.refused) >= 5 and store.failed >= 4

    await until(has_lasted, running)
    assert log.of(StoreLost)
    fault.end()
    await log.wait(StoreBack)
    for _ in range(20):
        await client.enqueue()

    async def all_done():
        jobs = [await store.get(name) for name in client.acknowledged]
        return all(job is not None and job.status == "complete" for job in jobs)

    await until(all_done, running)
    worker.stop()
    await running
    return client


async def main(name, folder):
    logging.basicConfig(stream=sys.stderr)
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("holdfast").addHandler(handler)
    database = folder / "a.db"
    async with FailureCountingStore(database, busy_timeout=0.1) as store:
        client = await survive(store, FAULTS[name](database))
        completions = {
            len([event for event in await store.events(name) if event.name == "complete"])
            for name in client.acknowledged
        }
        there = [name for name in client.refused if await store.get(name) is not None]
    db = apsw.Connection(str(database))
    ((integrity,),) = db.execute("PRAGMA integrity_check").fetchall()
    db.close()
    return {
        "acknowledged": len(client.acknowledged),
        "completions": sorted(completions),
        "errors": sorted(set(client.errors)),
        "refused_and_there": there,
        "integrity": integrity,
        "lines": lines,
    }


if __name__ == "__main__":
    found = asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
    sys.stdout.write(json.dumps(found))
