"""As it comes: nothing tuned on either side, and one call at a time.

Draining uses the settings of `holdfast worker` and of the peers' own commands. Enqueueing is one
caller that waits for each commit; it is compared with a bare insert as well, and a small tick of a
worker with a bare update.
"""

import asyncio
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import asyncpg
import procrastinate
import uvloop  # type: ignore[import-not-found]  # comes with PGQueuer
from huey import SqliteHuey
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from tests.support.postgres_server import PostgresMissing, PostgresServer

from benchmarks.holdfast_queue import OURS, added_and_drained, app, fresh_database, nothing
from benchmarks.measure import Goal, Row, best_rates, rate_ratios, sized
from benchmarks.queues_postgres import DEFAULT_BATCH, pgqueuer, procrastinate_queue
from benchmarks.queues_sqlite import huey_drain
from holdfast.bootstrap import Engine
from holdfast.jobs.client.requests import JobRequest
from holdfast.jobs.model import Completed, Finished
from holdfast.jobs.store_port import ClaimRequest
from holdfast.jobs.worker.options import WorkerOptions

HUEY, PGQUEUER, PROCRASTINATE = "Huey", "PGQueuer", "Procrastinate"
BARE_INSERT, BARE_UPDATE = "bare committed insert", "bare committed update of one row"
SLOTS = WorkerOptions().concurrency


async def _rate(calls: int, call: Callable[[], Awaitable[object]]) -> float:
    """Return how many calls per second are answered, one after the other."""
    begin = time.perf_counter()
    for _ in range(calls):
        await call()
    return calls / (time.perf_counter() - begin)


# -- Holdfast ----------------------------------------------------------------------------------


def _enqueue(url: str, calls: int) -> float:
    async def run() -> float:
        async with Engine(url, apps=[app]) as engine:
            return await _rate(calls, lambda: engine.enqueue(nothing))

    return asyncio.run(run())


def _small_ticks(url: str, ticks: int) -> float:
    """Return how many ticks per second report and claim as many jobs as there are slots."""

    async def run() -> float:
        async with Engine(url, apps=[app]) as engine:
            jobs = [JobRequest(nothing, None) for _ in range((ticks + 1) * SLOTS)]
            await engine.enqueue_many(jobs)
            request = ClaimRequest(SLOTS, ("default",), {nothing.kind.name: None})
            claims = (await engine.store.tick("bench", (), request)).claims

            async def tick() -> None:
                nonlocal claims
                done = [Finished(claim.lease, Completed(), 0.001) for claim in claims]
                claims = (await engine.store.tick("bench", done, request)).claims

            return await _rate(ticks, tick)

    return asyncio.run(run())


# -- peers -------------------------------------------------------------------------------------


def _huey_enqueue(calls: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        huey = SqliteHuey("bench", filename=str(Path(folder) / "h.db"), fsync=True, results=False)

        @huey.task()
        def nothing() -> None:
            pass

        begin = time.perf_counter()
        for _ in range(calls):
            nothing()
        seconds = time.perf_counter() - begin
        huey.storage.close()
    return calls / seconds


async def _pgqueuer_enqueue(url: str, calls: int) -> float:
    connection = await asyncpg.connect(url)
    try:
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        return await _rate(calls, lambda: queries.enqueue("nothing", None))
    finally:
        await connection.close()


async def _procrastinate_enqueue(url: str, calls: int) -> float:
    tasks = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @tasks.task
    async def nothing() -> None:
        pass

    async with tasks.open_async():
        await tasks.schema_manager.apply_schema_async()
        return await _rate(calls, nothing.defer_async)


async def _bare(url: str, calls: int, statement: str) -> float:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "CREATE TABLE bare (id bigint PRIMARY KEY, note text); INSERT INTO bare VALUES (0, '')"
        )
        await connection.execute("CREATE SEQUENCE numbers")
        prepared = await connection.prepare(statement)
        return await _rate(calls, prepared.fetch)
    finally:
        await connection.close()


# -- rows --------------------------------------------------------------------------------------


def on_sqlite() -> list[Row]:
    """Compare draining and enqueueing with Huey."""

    def in_folder(run: Callable[[str], float]) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return run(f"sqlite:///{folder}/ours.db")

    few, many = sized(300, 1_000), sized(1_000, 10_000)
    drained = best_rates(
        {
            OURS: lambda: in_folder(lambda url: added_and_drained(url, many, SLOTS)[1]),
            HUEY: partial(huey_drain, few, 1),
        },
        rounds=sized(2, 8),
    )
    added = best_rates(
        {
            OURS: lambda: in_folder(lambda url: _enqueue(url, few)),
            HUEY: partial(_huey_enqueue, few),
        },
        rounds=sized(2, 8),
    )
    return [
        Row(
            "SQLite, as it comes: drain no-op jobs",
            ratios=rate_ratios(drained, OURS),
            goals=[Goal(HUEY, 4)],
        ),
        Row(
            "SQLite, as it comes: enqueue one by one",
            ratios=rate_ratios(added, OURS),
            goals=[Goal(HUEY, 1)],
        ),
    ]


def on_postgres(server: PostgresServer) -> list[Row]:
    """Compare draining, enqueueing and a small tick with PGQueuer, Procrastinate and bare SQL."""

    def fresh(run: Callable[[str], float], *, migrated: bool = False) -> Callable[[], float]:
        def turn() -> float:
            with fresh_database(server, migrated=migrated) as url:
                return run(url)

        return turn

    few, many, rounds = sized(300, 2_000), sized(1_000, 10_000), sized(1, 4)
    drained = best_rates(
        {
            OURS: fresh(lambda url: added_and_drained(url, many, SLOTS)[1], migrated=True),
            PGQUEUER: fresh(lambda url: uvloop.run(pgqueuer(url, many, DEFAULT_BATCH))[1]),
            PROCRASTINATE: fresh(
                lambda url: asyncio.run(procrastinate_queue(url, few, concurrency=1))[1]
            ),
        },
        rounds=rounds,
    )
    insert = "INSERT INTO bare VALUES (nextval('numbers'), 'x')"
    added = best_rates(
        {
            OURS: fresh(lambda url: _enqueue(url, few), migrated=True),
            PGQUEUER: fresh(lambda url: uvloop.run(_pgqueuer_enqueue(url, few))),
            PROCRASTINATE: fresh(lambda url: asyncio.run(_procrastinate_enqueue(url, few))),
            BARE_INSERT: fresh(lambda url: asyncio.run(_bare(url, few, insert))),
        },
        rounds=rounds,
    )
    update = "UPDATE bare SET note = 'y' WHERE id = 0"
    ticks = best_rates(
        {
            OURS: fresh(lambda url: _small_ticks(url, few), migrated=True),
            BARE_UPDATE: fresh(lambda url: asyncio.run(_bare(url, few, update))),
        },
        rounds=rounds,
    )
    return [
        Row(
            "PostgreSQL, as it comes: drain no-op jobs",
            ratios=rate_ratios(drained, OURS),
            goals=[Goal(PGQUEUER, 5)],
        ),
        Row(
            "PostgreSQL, as it comes: enqueue one by one",
            ratios=rate_ratios(added, OURS),
            goals=[Goal(BARE_INSERT, 1 / 1.5)],
        ),
        Row(
            f"PostgreSQL: a tick that reports and claims {SLOTS} jobs",
            ratios=rate_ratios(ticks, OURS),
            goals=[Goal(BARE_UPDATE, 0.5)],
        ),
    ]


def rows() -> list[Row]:
    """Run every row of this file."""
    logging.disable(logging.CRITICAL)  # peers log every job to the terminal
    try:
        found = on_sqlite()
        try:
            with PostgresServer() as server:
                found += on_postgres(server)
        except PostgresMissing as missing:
            print(f"left out, the rows on PostgreSQL: {missing}")
        return found
    finally:
        logging.disable(logging.NOTSET)
