"""The time from the enqueue call to the first line of the handler, on an idle worker.

One job at a time, with random pauses so that no polling interval is hit regularly. On PostgreSQL
the job is enqueued by a second engine, so the worker is notified only by the server.
"""

import asyncio
import logging
import random
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import asyncpg
import procrastinate
from huey import SqliteHuey
from pgqueuer.db import AsyncpgDriver
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries
from tests.support.postgres_server import PostgresMissing, PostgresServer

from benchmarks.holdfast_queue import OURS, fresh_database, working
from benchmarks.measure import Goal, Row, percentile, ratios_to_ours, sized
from holdfast.bootstrap import Engine
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext

HUEY = "Huey (default polling)"
HUEY_QUICK = "Huey (polling every 10 ms)"
PGQUEUER = "PGQueuer (LISTEN/NOTIFY)"
PROCRASTINATE = "Procrastinate (LISTEN/NOTIFY)"

app = App("latency")
_started: asyncio.Event
_at = 0.0


@app.job()
async def note_start(_ctx: JobContext) -> None:
    _note()


def _note() -> None:
    global _at  # noqa: PLW0603 - the handler has no other place for it
    _at = time.perf_counter()
    _started.set()


async def _measure(enqueue: Callable[[], Awaitable[object]], samples: int) -> list[float]:
    """Return the milliseconds of each of `samples` jobs, after five warm-up jobs."""
    global _started  # noqa: PLW0603
    _started = asyncio.Event()
    rng, found = random.Random(1), []
    for number in range(-5, samples):
        await asyncio.sleep(0.02 + 0.03 * rng.random())
        _started.clear()
        begin = time.perf_counter()
        await enqueue()
        async with asyncio.timeout(60):
            await _started.wait()
        if number >= 0:
            found.append((_at - begin) * 1000)
    return found


async def _embedded(folder: str, samples: int) -> list[float]:
    async with Engine(f"sqlite:///{folder}/ours.db", apps=[app]) as engine, working(engine):
        return await _measure(lambda: engine.enqueue(note_start), samples)


async def _on_postgres(url: str, samples: int) -> list[float]:
    async with (
        Engine(url, apps=[app]) as worker,
        Engine(url, apps=[app]) as caller,
        working(worker),
    ):
        return await _measure(lambda: caller.enqueue(note_start), samples)


def _huey(folder: str, samples: int, **polling: float) -> list[float]:
    huey = SqliteHuey("bench", filename=f"{folder}/huey.db", fsync=True, results=False)
    started = threading.Event()
    at = 0.0

    @huey.task()
    def note() -> None:
        nonlocal at
        at = time.perf_counter()
        started.set()

    consumer = huey.create_consumer(workers=1, periodic=False, **polling)
    consumer.start()
    rng, found = random.Random(1), []
    for _ in range(samples):
        time.sleep(0.02 + 0.03 * rng.random())
        started.clear()
        begin = time.perf_counter()
        note()
        started.wait(60)
        found.append((at - begin) * 1000)
    consumer.stop(graceful=True)
    huey.storage.close()
    return found


async def _pgqueuer(url: str, samples: int) -> list[float]:
    ours, theirs = await asyncpg.connect(url), await asyncpg.connect(url)
    caller, manager = Queries(AsyncpgDriver(ours)), QueueManager(Queries(AsyncpgDriver(theirs)))
    await caller.install()

    @manager.entrypoint("note")
    async def note(_job: object) -> None:
        _note()

    running = asyncio.create_task(manager.run(dequeue_timeout=timedelta(seconds=30)))
    await asyncio.sleep(0.5)
    found = await _measure(lambda: caller.enqueue("note", None), samples)
    manager.shutdown.set()
    await running
    await ours.close()
    await theirs.close()
    return found


async def _procrastinate(url: str, samples: int) -> list[float]:
    tasks = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @tasks.task
    async def note() -> None:
        _note()

    async with tasks.open_async():
        await tasks.schema_manager.apply_schema_async()
        running = asyncio.create_task(
            tasks.run_worker_async(concurrency=10, install_signal_handlers=False)
        )
        await asyncio.sleep(0.5)
        found = await _measure(note.defer_async, samples)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    return found


def _row(
    work: str, found: dict[str, list[float]], bound: float, ahead_of: str | None = None
) -> Row:
    ours = found[OURS]
    medians = {name: percentile(values, 0.5) for name, values in found.items()}
    tails = {f"{name}, p99": percentile(values, 0.99) for name, values in found.items()}
    return Row(
        work,
        ratios={
            **{f"{peer}, p50": ratio for peer, ratio in ratios_to_ours(medians, OURS).items()},
            **ratios_to_ours(tails, f"{OURS}, p99"),
        },
        counts={
            "p50, ms": round(medians[OURS], 2),
            "p99, ms": round(percentile(ours, 0.99), 2),
        },
        goals=[Goal(f"{ahead_of}, {share}", 1) for share in ("p50", "p99") if ahead_of],
        at_most={"p99, ms": bound},
    )


def _in_turns(contenders: dict[str, Callable[[], list[float]]]) -> dict[str, list[float]]:
    """Return the milliseconds of each contender, from all its turns."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(sized(1, 3)):
        for name, run in contenders.items():
            found[name] += run()
    return found


def embedded() -> Row:
    """Measure the latency on SQLite, in one process."""

    def in_folder(run: Callable[[str], list[float]]) -> list[float]:
        with tempfile.TemporaryDirectory() as folder:
            return run(folder)

    few = sized(10, 50)
    contenders: dict[str, Callable[[str], list[float]]] = {
        OURS: lambda folder: asyncio.run(_embedded(folder, sized(30, 300))),
        HUEY: lambda folder: _huey(folder, few),
        HUEY_QUICK: lambda folder: _huey(folder, few, initial_delay=0.01, max_delay=0.01),
    }
    found = _in_turns({name: partial(in_folder, run) for name, run in contenders.items()})
    return _row("enqueue to start on an idle worker, SQLite, embedded", found, 10)


def on_postgres(server: PostgresServer) -> Row:
    """Measure the latency on PostgreSQL, with the job enqueued on another connection."""

    def on_server(name: str, run: Callable[[str, int], Coroutine[Any, Any, list[float]]]):
        with fresh_database(server, migrated=name == OURS) as url:
            return asyncio.run(run(url, sized(30, 300)))

    contenders = {OURS: _on_postgres, PGQUEUER: _pgqueuer, PROCRASTINATE: _procrastinate}
    found = _in_turns({name: partial(on_server, name, run) for name, run in contenders.items()})
    return _row(
        "enqueue to start on an idle worker, PostgreSQL, another client", found, 20, PGQUEUER
    )


def rows() -> list[Row]:
    """Run every row of this file."""
    logging.disable(logging.CRITICAL)  # peers log every job to the terminal
    try:
        found = [embedded()]
        try:
            with PostgresServer() as server:
                found.append(on_postgres(server))
        except PostgresMissing as missing:
            print(f"left out, the row on PostgreSQL: {missing}")
        return found
    finally:
        logging.disable(logging.NOTSET)
