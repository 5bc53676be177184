"""Our side of the queue benchmarks: one no-op job, drained by one worker in this process."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from holdfast.bootstrap import Engine
from holdfast.cli.worker_setup import rare_collections
from holdfast.jobs.client.requests import JobRequest
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.postgres import PostgresServer

OURS = "holdfast"
BATCH = 500
"""Jobs that one tick claims, which is the default; raw loops claim as many."""
CONCURRENCY = 3 * BATCH
"""Attempts that run at once: a third runs while the store works for the others."""
BULK = 1000
"""Jobs in one call that enqueues many; peers are given as many in one of theirs."""

app = App("bench")


@app.job()
async def nothing(ctx: JobContext) -> None:
    """Do nothing, so that only the engine is measured."""


async def add(engine: Engine, jobs: int) -> float:
    """Enqueue no-op jobs in bulk and return how many a second became durable."""
    begin = time.perf_counter()
    for start in range(0, jobs, BULK):
        batch = [JobRequest(nothing, None) for _ in range(min(BULK, jobs - start))]
        await engine.enqueue_many(batch)
    return jobs / (time.perf_counter() - begin)


async def drain(engine: Engine, jobs: int, concurrency: int = CONCURRENCY) -> float:
    """Work off `jobs` waiting ones; return how many a second were completed and recorded.

    As the command `holdfast worker` does it; peers run as their own commands do.
    """
    begin = time.perf_counter()
    with rare_collections():
        await engine.work(until_idle=True, concurrency=concurrency)
    seconds = time.perf_counter() - begin
    complete = sum(lane.complete for lane in (await engine.stats()).lanes)
    if complete != jobs:
        raise AssertionError(f"{complete} of {jobs} jobs are complete")
    return jobs / seconds


def added_and_drained(url: str, jobs: int, concurrency: int = CONCURRENCY) -> tuple[float, float]:
    """Return the rates of enqueueing and of draining `jobs` no-op jobs on an empty store."""

    async def run() -> tuple[float, float]:
        async with Engine(url, apps=[app]) as engine:
            return await add(engine, jobs), await drain(engine, jobs, concurrency)

    return asyncio.run(run())


@contextmanager
def fresh_database(server: PostgresServer, *, migrated: bool = False) -> Iterator[str]:
    """Yield the address of an empty database, after a checkpoint: nobody pays for another."""
    name = server.create_database()
    try:
        if migrated:
            asyncio.run(PostgresStore(server.url(name)).migrate())
        server.execute("CHECKPOINT")
        yield server.url(name)
    finally:
        server.drop_database(name)


@asynccontextmanager
async def working(engine: Engine) -> AsyncIterator[None]:
    """Keep a worker of `engine` running."""
    task = asyncio.create_task(engine.work(concurrency=CONCURRENCY))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
