"""The app and the workers of the campaign `transaction`: `python -m campaigns.bank URL OPTIONS`.

Each job adds 1 to one account, in the transaction that completes it, and enqueues two more jobs. A
job's first attempt may kill its own process at a named point, as its arguments say.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import apsw

from campaigns.ledger import end_with_parent
from holdfast import App, Engine, JobContext, RetryPolicy, WorkerOptions
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.model import Finished, Lease
from holdfast.jobs.store_port import TickResult
from holdfast.jobs.transaction_port import AttemptTransaction
from holdfast.resilience.backoff import Exponential

CHILDREN = 2
"""Jobs that each job enqueues."""
POINTS = ("inside", "held", "before_commit", "after_commit")
"""Where a first attempt may kill its process: inside its transaction, after the block, and around
the commit."""

_FREQUENT = MaintenanceOptions(
    lead_seconds=1.5, rescue_every=0.3, deadlines_every=5, retention_every=60, probes_every=60
)
_PATIENT = RetryPolicy(max_attempts=200, backoff=Exponential(base=0.0, jitter=0.0))
_SQLITE = "sqlite:///"


@dataclass(frozen=True)
class Deposit:
    """The arguments of a job: how it gets its connection, and where its first attempt dies."""

    connection: str
    crash: str = ""


@dataclass(frozen=True)
class Opened:
    """What the lifespan yields: the process it was opened in, and how to open a connection."""

    process: int
    sources: dict[str, Callable[[], Any] | None]


@asynccontextmanager
async def lifespan(_app: App) -> AsyncIterator[Opened]:
    """Open the connections of one worker."""
    url, process = sys.argv[1], os.getpid()
    if url.startswith(_SQLITE):
        path = url.removeprefix(_SQLITE)
        _tell_that_it_runs()
        yield Opened(
            process, {"store": None, "blocking": None, "own": lambda: apsw.Connection(path)}
        )
    else:
        import psycopg
        from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

        engine = create_async_engine(url.replace("://", "+asyncpg://", 1))
        sessions = async_sessionmaker(engine)
        _tell_that_it_runs()
        yield Opened(
            process, {"store": None, "own": sessions, "blocking": lambda: psycopg.connect(url)}
        )
        await engine.dispose()
    logging.getLogger("bank").info("lifespan left")


def _tell_that_it_runs() -> None:
    sys.stdout.write("running\n")
    sys.stdout.flush()


app = App("bank", lifespan=lifespan)


@app.job()
async def follow(ctx: JobContext) -> None:
    """Do nothing."""


@app.job(retry=_PATIENT)
async def deposit(ctx: JobContext, args: Deposit) -> int:
    """Add 1 on the store's own connection, or on one that this app opens."""
    _enqueue_children(ctx)
    async with ctx.transaction(_state(ctx).sources[args.connection]) as connection:
        for statement in _statements(ctx):
            answer = connection.execute(_for_driver(connection, statement))
            if asyncio.iscoroutine(answer):
                await answer
        await asyncio.sleep(0.002)
        _crash_at(ctx, args, "inside")
    _crash_at(ctx, args, "held")
    return ctx.token


@app.job(retry=_PATIENT)
def deposit_blocking(ctx: JobContext, args: Deposit) -> int:
    """Add 1 from a thread."""
    _enqueue_children(ctx)
    with ctx.transaction(_state(ctx).sources["blocking"]) as connection:
        for statement in _statements(ctx):
            connection.execute(statement)
        _crash_at(ctx, args, "inside")
    _crash_at(ctx, args, "held")
    return ctx.token


@app.job(retry=_PATIENT)
async def plain(ctx: JobContext, args: Deposit) -> int:
    """Enqueue two jobs without a transaction of its own."""
    _enqueue_children(ctx)
    await asyncio.sleep(0.002)
    _crash_at(ctx, args, "held")
    return ctx.token


def _state(ctx: JobContext) -> Opened:
    opened: Opened = ctx.state
    assert opened.process == os.getpid()
    return opened


def _enqueue_children(ctx: JobContext) -> None:
    for _ in range(CHILDREN):
        ctx.enqueue(follow, owner=ctx.job_id)


def _statements(ctx: JobContext) -> tuple[str, str]:
    entry = f"INSERT INTO bank_entries VALUES ('{ctx.job_id}', {ctx.token})"  # noqa: S608 - our id
    return "UPDATE bank_account SET total = total + 1", entry


def _for_driver(connection: Any, statement: str) -> Any:
    if not type(connection).__module__.startswith("sqlalchemy"):
        return statement
    from sqlalchemy import text

    return text(statement)


def _crash_at(ctx: JobContext, args: Deposit, point: str) -> None:
    if ctx.attempt == 1 and args.crash == point:
        os.kill(os.getpid(), signal.SIGKILL)


class _CrashingTransaction:
    """Kills the process just before or just after a commit."""

    def __init__(self, transaction: AttemptTransaction, crash: str) -> None:
        self._crash = crash
        self._transaction = transaction
        self.begin = transaction.begin
        self.rollback = transaction.rollback

    async def complete(self, finished: Finished) -> TickResult:
        if self._crash == "before_commit":
            os.kill(os.getpid(), signal.SIGKILL)
        result = await self._transaction.complete(finished)
        if self._crash == "after_commit":
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def _with_crashes(store: Any) -> None:
    """Let the transactions of first attempts end as the id of their job says."""
    make = store.transaction

    def transaction(lease: Lease, source: object = None, **options: Any) -> Any:
        made, crash = make(lease, source, **options), lease.job_id.rpartition("-")[2]
        return _CrashingTransaction(made, crash) if lease.token == 1 else made

    store.transaction = transaction


async def main(url: str, options: dict[str, Any]) -> None:
    """Run a worker until a signal stops it."""
    chosen = WorkerOptions(
        maintenance=_FREQUENT, poll_interval=0.2, cleanup_seconds=0.5, shutdown_seconds=8.0,
        **options,
    )  # fmt: skip
    async with Engine(url, apps=[app]) as engine:
        _with_crashes(engine.store)
        await engine.work(options=chosen, stop_on_signals=True)


if __name__ == "__main__":
    end_with_parent()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
