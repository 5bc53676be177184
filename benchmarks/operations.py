"""The time of what operators look at, on a store with a million finished jobs.

The store is filled through the store port, as workers do. Of the jobs one in fifty fails, with
twenty different errors, and as many are retried once; they belong to ten kinds and a hundred
owners. Then each query runs fifty times, and each page and API route of operators is asked for over
HTTP as often (`benchmarks.ops_pages`); the figure is the 95th percentile in milliseconds.
`--full` takes 1 000 000 jobs, otherwise there are 50 000.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable

from tests.support.postgres_server import PostgresMissing, PostgresServer

from benchmarks import ops_pages
from benchmarks.measure import Row, percentile, sized
from holdfast.bootstrap import TransactionalStore, open_store
from holdfast.ids import new_ids
from holdfast.jobs.client.client import Client
from holdfast.jobs.downstreams.record import DownstreamSettings
from holdfast.jobs.model import (
    Claim,
    Completed,
    Failed,
    Finished,
    JobError,
    JobStatus,
    NewJob,
    Retry,
)
from holdfast.jobs.store_port import ClaimRequest
from holdfast.jobs.views import JobFilter
from holdfast.resilience.policy import BreakerPolicy
from holdfast.store.postgres.store import PostgresStore

KINDS = {f"bench.kind{number}": None for number in range(10)}
OWNERS = 100
WAITING = 5_000
BATCH = 2_000
RUNS = 50
BOUND = 200.0
"""Milliseconds in which every page answers."""


def _jobs(count: int, number: int) -> list[NewJob]:
    """Return the jobs of one batch, of one kind and one owner: claims share out lanes slowly."""
    kind, owner = list(KINDS)[number % len(KINDS)], f"owner-{number % OWNERS}"
    downstream = "mill" if number % 10 == 0 else None
    meta = '{"filename": "invoice.pdf"}'
    return [
        NewJob(job_id, kind, downstream=downstream, owner=owner, meta=meta)
        for job_id in new_ids(count, time.time())
    ]


def _outcome(claim: Claim, place: int) -> Completed | Failed | Retry:
    if place % 50 == 0:
        words = ("grain", "mill", "wheel", "sack")[place // 50 % 4]
        code = ("NO_GRAIN", "GW_5XX", "TIMEOUT", "IO_ERROR", "PARSE_ERROR")[place // 200 % 5]
        return Failed(JobError(code, f"the {words} {place} was not there"))
    if place % 50 == 1 and claim.attempt == 1:
        return Retry(0.0, JobError("GW_5XX", "the gateway answered 502"))
    return Completed("null")


async def _fill(store: TransactionalStore, jobs: int) -> None:
    await store.declare_downstreams([DownstreamSettings("mill", breaker=BreakerPolicy())])
    for first in range(0, jobs, BATCH):
        await store.enqueue(_jobs(min(BATCH, jobs - first), first // BATCH))
        while claims := (
            await store.tick("bench", claim=ClaimRequest(BATCH, ("default",), KINDS))
        ).claims:
            done = [
                Finished(claim.lease, _outcome(claim, first + place), duration=0.01)
                for place, claim in enumerate(claims)
            ]
            await store.tick("bench", done)
    await store.enqueue(_jobs(WAITING, 0))


def _queries(client: Client, job_id: str) -> dict[str, Callable[[], Awaitable[object]]]:
    failed = JobFilter(statuses=(JobStatus.FAILED,))
    return {
        "overview": client.overview,
        "jobs, newest": client.search,
        "jobs, failed": lambda: client.search(failed),
        "jobs, of one owner": lambda: client.search(JobFilter(owner="owner-7")),
        "jobs, of one kind and status": lambda: client.search(
            JobFilter(kinds=("bench.kind3",), statuses=(JobStatus.COMPLETE,))
        ),
        "jobs, with 3 attempts (none)": lambda: client.search(JobFilter(min_attempts=3)),
        "jobs, with a text (none)": lambda: client.search(JobFilter(text="nowhere")),
        "jobs, failed with a text (none)": lambda: client.search(JobFilter(error_text="nowhere")),
        "job with history": lambda: client.attempts(job_id),
        "dead letters": client.dead_letters.list,
        "dead letters, grouped": client.dead_letters.errors,
        "downstreams": client.downstreams.details,
        "workers": client.workers.list,
        "load of workers": client.workers.loads,
        "queues": client.queues.list,
        "audit log": client.audit.list,
    }


async def _measured(store: TransactionalStore) -> dict[str, float]:
    async with Client(store) as client:
        newest = (await client.list(JobFilter(statuses=(JobStatus.FAILED,)), limit=1)).jobs[0]
        found = {}
        for name, query in _queries(client, newest.id).items():
            taken = []
            for _ in range(RUNS):
                begin = time.perf_counter()
                await query()
                taken.append(time.perf_counter() - begin)
            found[name] = round(1000 * percentile(taken, 0.95), 1)
        return found


def _on_sqlite(folder: str, jobs: int) -> dict[str, float]:
    address = f"sqlite:///{folder}/work.db"
    return asyncio.run(_queried(address, jobs)) | ops_pages.measured(address)


def _on_postgres(server: PostgresServer, jobs: int) -> dict[str, float]:
    address = server.url(server.create_database())
    asyncio.run(PostgresStore(address).migrate())
    return asyncio.run(_queried(address, jobs)) | ops_pages.measured(address)


async def _queried(address: str, jobs: int) -> dict[str, float]:
    """Fill the store at `address`, and return the time of each query."""
    async with open_store(address) as store:
        await _fill(store, jobs)
    return await _measured(open_store(address))


def rows() -> list[Row]:
    """Run every row of this file."""
    jobs = sized(2_000, 50_000, 1_000_000)
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        found["SQLite"] = _on_sqlite(folder, jobs)
    try:
        with PostgresServer() as server:
            found["PostgreSQL"] = _on_postgres(server, jobs)
    except PostgresMissing as missing:
        print(f"left out, operations on PostgreSQL: {missing}")
    return [
        Row(
            f"{query} with {jobs} finished jobs, p95 in ms",
            counts={name: figures[query] for name, figures in found.items()},
            at_most=dict.fromkeys(found, BOUND),
        )
        for query in found["SQLite"]
    ]
