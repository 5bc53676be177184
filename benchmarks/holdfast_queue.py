"""Holdfast in the queue benchmarks: no-op jobs, run by one worker in this process."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from tests.support.postgres_server import PostgresServer

from holdfast.bootstrap import Engine
from holdfast.cli.worker_setup import rare_collections
from holdfast.jobs.client.requests import JobRequest
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.store.postgres.store import PostgresStore

OURS = "holdfast"
BATCH = 500
"""Jobs per claim, the default; the raw SQL loop claims as many."""
CONCURRENCY = 3 * BATCH
"""Concurrent attempts: three batches, so that some run while the store handles the others."""
BULK = 1000
"""Jobs per bulk enqueue call, for Holdfast and its peers."""

app = App("bench")


@app.job()
async def nothing(ctx: JobContext) -> None:
    """Do nothing, so that only the engine is measured."""


async def add(engine: Engine, jobs: int) -> float:
    """Enqueue no-op jobs in bulk; return how many per second were committed."""
    begin = time.perf_counter()
    for start in range(0, jobs, BULK):
        batch = [JobRequest(nothing, None) for _ in range(min(BULK, jobs - start))]
        await engine.enqueue_many(batch)
    return jobs / (time.perf_counter() - begin)


async def drain(engine: Engine, jobs: int, concurrency: int = CONCURRENCY) -> float:
    """Run the `jobs` waiting jobs; return how many per second were completed and recorded.

    Configured like the command `holdfast worker`; peers run like their own commands.
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
    """Yield the URL of an empty database, after a checkpoint: earlier writes cost nothing."""
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
    """Run a worker of `engine` while the block runs."""
    task = asyncio.create_task(engine.work(concurrency=CONCURRENCY))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
