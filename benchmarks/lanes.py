"""How quickly jobs drain where each of thousands of hosts is a downstream of its own.

Every host has its own lane. A claim's cost must depend on what it takes, not on the lanes that
wait. The hosts have breakers; in half of the turns each also has a limit on the jobs that run at
once.
"""

import asyncio
import tempfile
from collections.abc import Callable

from tests.support.postgres_server import PostgresMissing, PostgresServer

from benchmarks.holdfast_queue import BULK, drain, fresh_database
from benchmarks.measure import Row, best_rates, sized
from holdfast.bootstrap import Engine
from holdfast.jobs.client.requests import JobRequest
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.kinds import JobKind

JOBS_PER_LANE = 60
LIMIT = 4
GOAL = 3_000
"""Jobs per second."""

app = App("hosts")


def _host(host: str) -> str:
    return host


@app.job(downstream=Downstream("free", key=_host))
async def free(ctx: JobContext, host: str) -> None:
    """Do nothing, for a host without a limit."""


@app.job(downstream=Downstream("limited", key=_host, concurrency=LIMIT))
async def limited(ctx: JobContext, host: str) -> None:
    """Do nothing, for a host with a limit."""


async def _drained(url: str, kind: JobKind, lanes: int) -> float:
    """Return how many jobs per second were completed."""
    jobs = lanes * JOBS_PER_LANE
    async with Engine(url, apps=[app]) as engine:
        requests: list[JobRequest[str, None]] = [
            JobRequest(kind, f"host-{number % lanes}") for number in range(jobs)
        ]
        for start in range(0, jobs, BULK):
            await engine.enqueue_many(requests[start : start + BULK])
        return await drain(engine, jobs)


def _on_sqlite(kind: JobKind, lanes: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_drained(f"sqlite:///{folder}/jobs.db", kind, lanes))


def _on_postgres(server: PostgresServer, kind: JobKind, lanes: int) -> float:
    with fresh_database(server, migrated=True) as url:
        return asyncio.run(_drained(url, kind, lanes))


def _row(store: str, turn: Callable[[JobKind], float], lanes: int) -> Row:
    rates = best_rates(
        {"without limits": lambda: turn(free), f"limit of {LIMIT} each": lambda: turn(limited)},
        rounds=sized(1, 2),
    )
    seconds = {name: round(GOAL / rate, 3) for name, rate in rates.items()}
    return Row(
        f"{store}: {lanes} hosts with {JOBS_PER_LANE} jobs each, seconds per {GOAL} jobs",
        counts=seconds,
        at_most=dict.fromkeys(seconds, 1.0) if store == "PostgreSQL" else {},
        note=", ".join(f"{name}: {rate:.0f} jobs a second" for name, rate in rates.items()),
    )


def rows() -> list[Row]:
    """Run every row of this file."""
    lanes = sized(100, 3_000)
    found = [_row("SQLite", lambda kind: _on_sqlite(kind, lanes), lanes)]
    try:
        with PostgresServer() as server:
            found.append(_row("PostgreSQL", lambda kind: _on_postgres(server, kind, lanes), lanes))
    except PostgresMissing as missing:
        print(f"left out, lanes on PostgreSQL: {missing}")
    return found
