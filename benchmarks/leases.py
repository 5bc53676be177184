"""The CPU time of extending leases, in the worker's process and in a private database server.

A worker extends all its leases in one statement, every 30 seconds by default. Here they are
extended far more often, to have enough to measure; the result is the time of one extension divided
by 30 seconds. Twice a second the worker also checks that it is registered, and looks for requests
to cancel; that is measured in the same way.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tests.support.postgres_server import PostgresMissing, PostgresServer

from benchmarks.holdfast_queue import fresh_database
from benchmarks.measure import Row, sized
from holdfast.bootstrap import Engine
from holdfast.jobs.client.requests import JobRequest
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.model import JobStatus, Lease
from holdfast.jobs.store_port import ClaimRequest
from holdfast.jobs.views import JobFilter
from holdfast.jobs.worker.heartbeat import CHECK_EVERY
from holdfast.jobs.worker.options import WorkerOptions

LEASES = 100
BOUND = 0.1
DEFAULTS = WorkerOptions()

app = App("leases")
_running: asyncio.Semaphore


@app.job()
async def wait(_ctx: JobContext) -> None:
    _running.release()
    await asyncio.sleep(3600)


def _nothing() -> float:
    return 0.0


def _server_cpu(server: PostgresServer, database: str) -> Callable[[], float]:
    """Return a function that reads the CPU seconds of the server processes of `database`."""
    query = f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}'"
    ticks = os.sysconf("SC_CLK_TCK")

    def seconds() -> float:
        total = 0
        for (pid,) in server.execute(query):
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
        return total / ticks

    return seconds if server.private else _nothing


def _share(seconds: float, times: int, interval: float = DEFAULTS.extend_every) -> float:
    """Return the percentage of one core that something takes which is done at each interval."""
    return round(100 * max(seconds, 0.0) / times / interval, 5)


async def _check(engine: Engine, server_cpu: Callable[[], float]) -> float:
    """Check the registration and the requests to cancel repeatedly; return the percentage."""
    heartbeats, checks = engine.store.heartbeats(), sized(100, 2000)
    await heartbeats.register("bench")
    await heartbeats.requests("bench")
    before, begin = server_cpu(), time.process_time()
    for _ in range(checks):
        await heartbeats.register("bench")
        await heartbeats.requests("bench")
    taken = time.process_time() - begin + server_cpu() - before
    await heartbeats.close()
    return _share(taken, checks, CHECK_EVERY)


async def _extension(engine: Engine, server_cpu: Callable[[], float]) -> float:
    """Extend 100 leases repeatedly; return the percentage of one core, as `_share` defines it."""
    await engine.enqueue_many([JobRequest(wait, None) for _ in range(LEASES)])
    kinds = dict.fromkeys(engine.kinds)
    request = ClaimRequest(LEASES, tuple({kind.queue for kind in engine.kinds.values()}), kinds)
    claims = (await engine.store.tick("bench", claim=request)).claims
    leases: list[Lease] = [claim.lease for claim in claims]
    heartbeats = engine.store.heartbeats()
    extensions = sized(50, 500)
    try:
        for _ in range(5):
            await heartbeats.extend(leases, DEFAULTS.lease_seconds)
        before, begin = server_cpu(), time.process_time()
        for _ in range(extensions):
            if (await heartbeats.extend(leases, DEFAULTS.lease_seconds)).lost:
                raise AssertionError("a lease was lost")
        taken = time.process_time() - begin
        taken += server_cpu() - before
    finally:
        await heartbeats.close()
    if len(leases) != LEASES:
        raise AssertionError(f"{len(leases)} of {LEASES} jobs were claimed")
    return _share(taken, extensions)


async def _worker_cpu(engine: Engine, options: WorkerOptions, seconds: float) -> float:
    """Return the CPU seconds of a worker with 100 running jobs, after all have started."""
    global _running  # noqa: PLW0603 - the handler has no other place for it
    _running = asyncio.Semaphore(0)
    await engine.enqueue_many([JobRequest(wait, None) for _ in range(LEASES)])
    task = asyncio.create_task(engine.work(options=options))
    for _ in range(LEASES):
        await _running.acquire()
    await asyncio.sleep(0.2)
    begin = time.process_time()
    await asyncio.sleep(seconds)
    taken = time.process_time() - begin
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    released = JobFilter(statuses=(JobStatus.QUEUED,))
    for job in (await engine.list(released, limit=LEASES)).jobs:
        await engine.cancel(job.id)
    return taken


async def _heartbeat(engine: Engine) -> float:
    """Return the percentage of the whole heartbeat: a worker with it, less a worker without it."""
    seconds, every = sized(2, 20), 0.05
    quiet = replace(
        DEFAULTS, concurrency=LEASES, maintenance=None, poll_interval=60, shutdown_seconds=0
    )
    without = await _worker_cpu(engine, quiet, seconds)
    beating = await _worker_cpu(engine, replace(quiet, extend_every=every), seconds)
    return _share(beating - without, int(seconds / every))


def _measure(url: Callable[[], str], cpu: Callable[[], float], store: str) -> dict[str, float]:
    async def run() -> dict[str, float]:
        async with Engine(url(), apps=[app]) as engine:
            beat = await _heartbeat(engine)
            alone = await _extension(engine, cpu)
            checked = await _check(engine, cpu)
        measured = "worker and server" if cpu is not _nothing else "worker"
        return {
            f"{store}: extension alone, {measured}, %": alone,
            f"{store}: whole heartbeat in a worker, %": beat,
            f"{store}: registration and requests to cancel, {measured}, %": checked,
        }

    return asyncio.run(run())


def rows() -> list[Row]:
    """Run every row of this file."""
    counts: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        counts |= _measure(lambda: f"sqlite:///{folder}/ours.db", _nothing, "SQLite")
    try:
        with PostgresServer() as server, fresh_database(server, migrated=True) as url:
            cpu = _server_cpu(server, url.rpartition("/")[2])
            counts |= _measure(lambda: url, cpu, "PostgreSQL")
    except PostgresMissing as missing:
        print(f"left out, leases on PostgreSQL: {missing}")
    return [
        Row(
            f"CPU time of extending {LEASES} leases, share of one core",
            counts=counts,
            at_most=dict.fromkeys(counts, BOUND),
        )
    ]
