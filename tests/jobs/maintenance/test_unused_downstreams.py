"""Records of keyed downstreams are deleted once nothing uses them, and come back with a job."""

import asyncio
from dataclasses import replace

import pytest
from tests.support.workers import rig

from holdfast import App, BreakerPolicy, CircuitOpenError, Downstream, Engine, JobContext
from holdfast.jobs.downstreams.record import UNUSED_FOR
from holdfast.jobs.maintenance.unused_downstreams import UnusedDownstreams
from holdfast.testing import VirtualClock


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'work.db'}"


def shop():
    app = App("shop")

    @app.job(downstream=Downstream("host", key=lambda args: args, breaker=BreakerPolicy()))
    async def fetch(ctx: JobContext, args: str) -> None: ...

    @app.job(downstream=Downstream("mill"))
    async def grind(ctx: JobContext) -> None: ...

    return app, fetch


def test_a_round_deletes_all_unused_records_in_batches(tmp_path):
    app, fetch = shop()

    async def go():
        async with rig(tmp_path, app, maintenance=None) as it:
            long_ago = await it.store.ping() - UNUSED_FOR - 1
            names = ("host:1", "host:2", "host:3", "host:4", "host:5")
            settings = [fetch.kind.downstream.settings(name) for name in names]
            other = replace(settings[0], name="other:1", parent="other")
            await it.store.declare_downstreams([*settings, other], now=long_ago)
            await it.enqueue(fetch, "j", arguments='"2"', downstream="host:2")
            service = UnusedDownstreams(it.store, app.kinds, interval=60.0, batch=2)
            assert [await service.round(), await service.round()] == [4, 0]
            kept = [record.name for record in await it.store.downstreams()]
            assert kept == ["host", "host:2", "mill", "other:1"]

    asyncio.run(go())


def test_a_process_that_has_declared_a_deleted_record_enqueues_a_job_that_runs(url):
    """Neither it nor the worker notices the deletion; the worker declares the record again."""
    app, fetch = shop()

    async def go():
        async with Engine(url, apps=[app]) as engine:
            first = await engine.enqueue(fetch, "a")
            await engine.work(until_idle=True)
            await engine.store.delete([first.id])
            later = await engine.store.ping() + UNUSED_FOR + 1
            await engine.store.rescue()
            assert await engine.store.delete_unused_downstreams("host", now=later) == 1
            second = await engine.enqueue(fetch, "a")
            assert await engine.store.downstream("host:a") is None
            await engine.work(until_idle=True)
            assert (await engine.get(second.id)).status == "complete"
            assert await engine.store.downstream("host:a") is not None

    asyncio.run(go())


def test_a_downstream_without_a_key_beside_a_keyed_one_keeps_its_limits(url):
    """Also where its name looks as if the other's key had made it."""
    app, fetch = shop()

    @app.job(downstream=Downstream("host:eu", concurrency=1))
    async def call_eu(ctx: JobContext) -> None: ...

    async def go():
        async with Engine(url, apps=[app]) as engine:
            await engine.enqueue(fetch, "eu", id="job")
            await engine.work(until_idle=True)
            await engine.store.delete(["job"])
            await engine.store.rescue()
            later = await engine.store.ping() + UNUSED_FOR + 1
            assert await engine.store.delete_unused_downstreams("host", now=later) == 0
            record = await engine.store.downstream("host:eu")
            assert (record.settings.concurrency, record.settings.parent) == (1, None)

    asyncio.run(go())


async def dead() -> None:
    raise ConnectionError("down")


def test_a_breaker_that_was_declared_for_calls_outside_of_jobs_stays(url):
    """Also where a key had made the record before, so no call to a dead host is let through."""
    app, fetch = shop()

    async def go():
        async with Engine(url, apps=[app]) as engine:
            await engine.store.declare_downstreams([fetch.kind.downstream.settings("host:a")])
            for name in ("host:a", "host:b"):
                await engine.calls.declare(name, BreakerPolicy(consecutive_failures=2))
            later = await engine.store.ping() + UNUSED_FOR + 1
            assert await engine.store.delete_unused_downstreams("host", now=later) == 0
            for name in ("host:a", "host:b"):
                for expected in (ConnectionError, ConnectionError, CircuitOpenError):
                    with pytest.raises(expected):
                        await engine.calls.run(name, dead)

    asyncio.run(go())


def test_calls_outside_of_jobs_keep_the_record_that_a_key_made(tmp_path):
    """A success on a closed breaker writes nothing else; once an hour it notes the use."""
    app, fetch = shop()

    async def go():
        clock = VirtualClock()
        async with Engine(f"sqlite:///{tmp_path}/work.db", apps=[app], clock=clock) as engine:
            await engine.store.declare_downstreams([fetch.kind.downstream.settings("host:a")])
            written = []
            for _ in range(100):
                clock.advance(UNUSED_FOR / 80)
                await engine.calls.admit("host:a")
                await engine.calls.admit("host:a")
                record = await engine.store.downstream("host:a")
                written.append(record.used_at)
            assert written[-1] > clock.wall() - UNUSED_FOR / 50
            assert await engine.store.delete_unused_downstreams("host") == 0
            clock.advance(UNUSED_FOR)
            assert await engine.store.delete_unused_downstreams("host") == 1

    asyncio.run(go())
