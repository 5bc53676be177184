"""Durable jobs on PostgreSQL, compared with PGQueuer, Procrastinate and a raw SQL loop.

All use one server, with fsync; each turn has a new database, after a checkpoint.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import asyncpg
import procrastinate
import uvloop  # type: ignore[import-not-found]  # comes with PGQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode
from tests.support.postgres_server import PostgresMissing, PostgresServer

from benchmarks.holdfast_queue import (
    BATCH,
    BULK,
    CONCURRENCY,
    OURS,
    added_and_drained,
    fresh_database,
)
from benchmarks.measure import Goal, Row, best_rates, rate_ratios, sized

# PGQueuer with its default of 10 jobs per batch, and with the batch size at which it was fastest
# here; both on uvloop, as its own command. Holdfast and the raw loop use asyncio's loop. The goal
# refers to PGQueuer's best batch size, not to its default.
DEFAULT_BATCH, BEST_BATCH = 10, 500
PGQUEUER = f"PGQueuer (batches of {BEST_BATCH})"
PGQUEUER_DEFAULT = f"PGQueuer (batches of {DEFAULT_BATCH}, its default)"
PROCRASTINATE = "Procrastinate"
RAW = "raw asyncpg, SKIP LOCKED and UNNEST"
RAW_INSERT = "raw asyncpg, INSERT of UNNEST"

# The minimum of a queue: no attempts, events, leases, limits, counters or checks.
_RAW_SCHEMA = """
CREATE TABLE jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL, arguments text NOT NULL, status text NOT NULL DEFAULT 'queued',
    started_at timestamptz, finished_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX jobs_waiting ON jobs (id) WHERE status = 'queued';
"""
_RAW_INSERT = "INSERT INTO jobs (kind, arguments) SELECT * FROM unnest($1::text[], $2::text[])"
# ANY of an array, because IN is planned as a scan of the whole table.
_RAW_CLAIM = """
UPDATE jobs SET status = 'processing', started_at = now()
WHERE id = ANY (ARRAY(
    SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
))
RETURNING id, kind, arguments
"""
_RAW_COMPLETE = """
UPDATE jobs SET status = 'complete', finished_at = now()
FROM unnest($1::bigint[]) AS done (id)
WHERE jobs.id = done.id AND jobs.status = 'processing'
"""

Rates = tuple[float, float]


class Countdown:
    """Records when the last of `jobs` has run."""

    def __init__(self, jobs: int, on_last: Callable[[], None] = lambda: None) -> None:
        self._left = jobs
        self._on_last = on_last
        self.ended = 0.0

    def one_less(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.ended = time.perf_counter()
            self._on_last()


async def raw(url: str, jobs: int) -> Rates:
    """Enqueue; then complete a batch and claim the next of the same size, in one commit."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_RAW_SCHEMA)
        begin = time.perf_counter()
        for start in range(0, jobs, BULK):
            many = min(BULK, jobs - start)
            await connection.execute(_RAW_INSERT, ["nothing"] * many, ["null"] * many)
        added = time.perf_counter()
        done, batch = 0, await connection.fetch(_RAW_CLAIM, BATCH)
        while batch:
            async with connection.transaction():
                await connection.execute(_RAW_COMPLETE, [row["id"] for row in batch])
                done += len(batch)
                batch = await connection.fetch(_RAW_CLAIM, BATCH)
        ended = time.perf_counter()
    finally:
        await connection.close()
    if done != jobs:
        raise AssertionError(f"{done} of {jobs} jobs were done")
    return jobs / (added - begin), jobs / (ended - added)


async def pgqueuer(url: str, jobs: int, batch: int) -> Rates:
    """Enqueue lists and drain; the time ends with the last handler, before its last log write."""
    connection = await asyncpg.connect(url)
    try:
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        begin = time.perf_counter()
        for start in range(0, jobs, BULK):
            many = min(BULK, jobs - start)
            await queries.enqueue(["nothing"] * many, [None] * many, [0] * many)
        added = time.perf_counter()
        manager = QueueManager(queries)
        countdown = Countdown(jobs, manager.shutdown.set)

        @manager.entrypoint("nothing")
        async def nothing(_job: object) -> None:
            countdown.one_less()

        await manager.run(
            dequeue_timeout=timedelta(seconds=0.1), batch_size=batch,
            mode=QueueExecutionMode.drain,
        )  # fmt: skip
    finally:
        await connection.close()
    return jobs / (added - begin), jobs / (countdown.ended - added)


async def procrastinate_queue(url: str, jobs: int, concurrency: int = 10) -> Rates:
    """Defer in bulk and drain; it fetches jobs one by one, and a concurrency of 10 was fastest."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    countdown = Countdown(jobs)

    @app.task
    async def nothing() -> None:
        countdown.one_less()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        begin = time.perf_counter()
        for start in range(0, jobs, BULK):
            await nothing.batch_defer_async(*({} for _ in range(min(BULK, jobs - start))))
        added = time.perf_counter()
        await app.run_worker_async(
            wait=False, concurrency=concurrency, listen_notify=False, install_signal_handlers=False
        )
    return jobs / (added - begin), jobs / (countdown.ended - added)


@dataclass(frozen=True)
class Contender:
    """A queue to measure: `run` returns the rates of adding and of draining."""

    jobs: int
    run: Callable[[str, int], Rates]
    migrated: bool = False

    def rates(self, server: PostgresServer) -> Rates:
        """Take one turn on a fresh database."""
        with fresh_database(server, migrated=self.migrated) as url:
            return self.run(url, self.jobs)


def _contenders() -> dict[str, Contender]:
    def on_uvloop(batch: int) -> Callable[[str, int], Rates]:
        return lambda url, jobs: uvloop.run(pgqueuer(url, jobs, batch))

    def on_asyncio(peer: Callable[[str, int], Coroutine[Any, Any, Rates]]):
        return lambda url, jobs: asyncio.run(peer(url, jobs))

    many = sized(3_000, 40_000)
    return {
        OURS: Contender(many, added_and_drained, migrated=True),
        PGQUEUER: Contender(sized(2_000, 20_000), on_uvloop(BEST_BATCH)),
        PGQUEUER_DEFAULT: Contender(sized(1_000, 10_000), on_uvloop(DEFAULT_BATCH)),
        PROCRASTINATE: Contender(sized(1_000, 4_000), on_asyncio(procrastinate_queue)),
        RAW: Contender(many, on_asyncio(raw)),
    }


def both(server: PostgresServer) -> list[Row]:
    """Measure bulk enqueue and drain in the same turns."""
    added: dict[str, float] = {}

    def turn(name: str, contender: Contender) -> float:
        adding, draining = contender.rates(server)
        added[name] = max(added.get(name, 0.0), adding)
        return draining

    drained = best_rates(
        {name: partial(turn, name, contender) for name, contender in _contenders().items()},
        rounds=sized(1, 3),
    )
    adds = {OURS: added[OURS], RAW_INSERT: added[RAW], PROCRASTINATE: added[PROCRASTINATE]}
    adds["PGQueuer"] = max(added[PGQUEUER], added[PGQUEUER_DEFAULT])
    return [
        Row(
            "PostgreSQL: drain no-op jobs, attempts and events recorded",
            ratios=rate_ratios(drained, OURS),
            goals=[Goal(PGQUEUER, 2.5), Goal(RAW, 0.5)],
            note=f"{drained[OURS]:.0f} jobs per second in this run, up to {CONCURRENCY} at once; "
            f"the goal refers to PGQueuer with {BEST_BATCH} jobs per batch, not with its default",
        ),
        # The goal is PGQueuer, the fastest queue; the others are shown for comparison.
        Row(
            f"PostgreSQL: bulk enqueue, {BULK} jobs per call",
            ratios=rate_ratios(adds, OURS),
            goals=[Goal("PGQueuer", 1)],
            note=f"{adds[OURS]:.0f} jobs per second in this run",
        ),
    ]


def rows() -> list[Row]:
    """Run every row of this file."""
    logging.disable(logging.CRITICAL)  # peers log every job to the terminal
    try:
        with PostgresServer() as server:
            return both(server)
    except PostgresMissing as missing:
        print(f"left out, the rows on PostgreSQL: {missing}")
        return []
    finally:
        logging.disable(logging.NOTSET)
