"""The next release migrates the database while a worker of this release runs."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import apsw
import pytest

from holdfast import App, BreakerPolicy, Downstream, Engine, ErrorCode, JobContext, Permanent
from holdfast.jobs.model import JobStatus
from holdfast.store.migrations import Migration, Schema
from holdfast.store.postgres import migrations as postgres
from holdfast.store.postgres.connection import Database
from holdfast.store.sqlite import migrations as sqlite

PATIENCE = 60

# A new column, an index on it, and an overload of a function that this release calls.
INVENTED = """
ALTER TABLE {jobs} ADD COLUMN colour text NOT NULL DEFAULT 'red';
CREATE INDEX jobs_by_colour ON {jobs} (colour);
"""
FUNCTION = """
CREATE OR REPLACE FUNCTION holdfast.cancel(p_id text, p_colour text, p_now double precision)
RETURNS text LANGUAGE sql AS 'SELECT holdfast.cancel(p_id, p_now)';
"""

app = App("upgrade")


class World:
    """The calls of handlers, and the event that they wait for."""

    def begin(self):
        self.runs = Counter()
        self.started = asyncio.Event()
        self.migrated = asyncio.Event()


world = World()


@app.job()
async def plain(ctx: JobContext, name: str) -> None:
    world.runs[name] += 1


@app.job()
async def waiting(ctx: JobContext, name: str) -> None:
    world.runs[name] += 1
    world.started.set()
    await world.migrated.wait()


@app.job()
async def failing(ctx: JobContext, name: str) -> None:
    if not world.migrated.is_set():
        raise Permanent(ErrorCode.GW_4XX, "refused")
    world.runs[name] += 1


@app.job(downstream=Downstream("gateway", breaker=BreakerPolicy()))
async def guarded(ctx: JobContext, name: str) -> None:
    world.runs[name] += 1


@app.job(queue="later")
async def unserved(ctx: JobContext, name: str) -> None:
    world.runs[name] += 1


def next_release(schema, jobs, function=""):
    invented = Migration(schema.version + 1, "invented", INVENTED.format(jobs=jobs))
    return Schema((*schema.migrations, invented), schema.functions + function)


async def migrate_postgres(url):
    following = next_release(postgres.SCHEMA, "holdfast.jobs", FUNCTION)
    database = Database(url, connections=1, timeout=30)
    await database.open()
    try:
        assert await postgres.migrate(database, following) == (following.version,)
    finally:
        await database.close()


async def migrate_sqlite(url):
    following = next_release(sqlite.SCHEMA, "holdfast_jobs")
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.set_busy_timeout(30_000)
    assert sqlite.migrate(connection, following) == (following.version,)
    connection.close()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """Return the URL of a new database, and a function that applies the next release's schema."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'work.db'}", migrate_sqlite
    return request.getfixturevalue("postgres_url"), migrate_postgres


async def enqueue_every_status(engine):
    """Return jobs in every status for the time of the migration."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    return {
        "complete": await engine.enqueue(plain, "complete"),
        "failed": await engine.enqueue(failing, "failed"),
        "processing": await engine.enqueue(waiting, "processing"),
        "cancelled": await engine.enqueue(plain, "cancelled", run_at=tomorrow),
        "held": await engine.enqueue(guarded, "held"),
        "scheduled": await engine.enqueue(plain, "scheduled", run_at=tomorrow),
        "uploaded": await engine.enqueue(plain, "uploaded", uploaded=True),
        "queued": await engine.enqueue(unserved, "queued"),
    }


async def statuses(engine, jobs):
    found = {}
    for name, handle in jobs.items():
        job = await engine.get(handle)
        found[name] = "held" if job.held else str(job.status)
    return found


def test_jobs_in_every_status_survive_the_next_migration(database):
    url, migrate_to_next = database

    async def scenario():
        async with Engine(url, apps=[app]) as engine, asyncio.timeout(PATIENCE):
            world.begin()
            await engine.downstreams.hold("gateway")
            jobs = await enqueue_every_status(engine)
            await engine.cancel(jobs["cancelled"])
            older = asyncio.create_task(engine.work(queues="default"))
            await world.started.wait()
            await engine.wait(jobs["complete"])
            await engine.wait(jobs["failed"])
            expected = {name: name for name in jobs} | {"scheduled": "queued"}
            assert await statuses(engine, jobs) == expected

            await migrate_to_next(url)
            assert await statuses(engine, jobs) == expected

            world.migrated.set()
            await engine.submit(jobs["uploaded"])
            await engine.retry_now(jobs["scheduled"])
            await engine.retry(jobs["failed"])
            await engine.downstreams.release("gateway")
            async with Engine(url, apps=[app]) as restarted:
                await restarted.work(until_idle=True)
            cancelled = jobs.pop("cancelled")
            for job in jobs.values():
                assert (await engine.wait(job)).status is JobStatus.COMPLETE
            assert (await engine.get(cancelled)).status is JobStatus.CANCELLED
            older.cancel()
            await asyncio.gather(older, return_exceptions=True)
            assert world.runs == dict.fromkeys(jobs, 1)

    asyncio.run(scenario())
