"""Outages of the database: nothing is lost, and workers recover by themselves."""

import asyncio
import time

import pytest
from tests.store.postgres.conftest import ANY, jobs
from tests.support.postgres import obtain
from tests.support.waiting import until

from holdfast.jobs.model import Completed, Finished, JobStatus, NewJob
from holdfast.jobs.store_port import ClaimRequest, StoreUnavailable
from holdfast.store.postgres.store import PostgresStore

MANY = ClaimRequest(20, ("default",), {"work": None}, 2.0)


@pytest.fixture
def own_server():
    """A private server with fsync."""
    server = obtain(fsync=True)
    if not server.private:
        pytest.skip("this server is not ours to stop")
    asyncio.run(PostgresStore(server.url()).migrate())
    yield server
    server.close()


async def until_it_works(work):
    """Call `work` until it succeeds; it may only raise `StoreUnavailable`."""
    while True:
        try:
            return await work()
        except StoreUnavailable:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_a_lost_server_raises_at_once_and_is_found_again(own_server, way):
    async def scenario():
        async with PostgresStore(own_server.url()) as store:
            await store.enqueue([NewJob("a", "work")])
            heartbeats = store.heartbeats()
            (claim,) = (await store.tick("w", claim=ANY)).claims
            assert await heartbeats.extend([claim.lease], 60)
            await asyncio.to_thread(getattr(own_server, way))
            for _ in range(3):
                began = time.monotonic()
                with pytest.raises(StoreUnavailable):
                    await store.ping()
                with pytest.raises(StoreUnavailable):
                    await store.enqueue([NewJob("b", "work")])
                with pytest.raises(StoreUnavailable):
                    await heartbeats.extend([claim.lease], 60)
                assert time.monotonic() - began < 20
            await asyncio.to_thread(own_server.start)
            assert (await heartbeats.extend([claim.lease], 60)).lost == ()
            assert (await store.tick("w", [Finished(claim.lease, Completed())])).refused == ()
            job = await store.get("a")
            assert job.status is JobStatus.COMPLETE
            assert await store.get("b") is None

    asyncio.run(scenario())


def test_during_an_outage_the_driver_logs_nothing(own_server, caplog):
    """An outage is logged once; hundreds of further lines would hide it."""

    async def scenario():
        async with PostgresStore(own_server.url()) as store:
            await store.enqueue([NewJob("a", "work")])
            await store.wait_for_work(0, 0.1)
            await asyncio.to_thread(own_server.kill)
            for _ in range(100):
                with pytest.raises(StoreUnavailable):
                    await store.tick("w", claim=ANY)
                await asyncio.sleep(0.01)
            await asyncio.to_thread(own_server.start)
            result = await until_it_works(lambda: store.tick("w", claim=ANY))
            assert [claim.job_id for claim in result.claims] == ["a"]

    with caplog.at_level("INFO"):
        asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == []


class Load:
    """Enqueues, works and rescues through every outage until it is stopped."""

    def __init__(self, store):
        self.store = store
        self.stopped = asyncio.Event()
        self.acknowledged = set()
        self.completed = []
        self.failed = 0

    async def run(self):
        await asyncio.gather(self.produce(), self.work("w1"), self.work("w2"), self.rescue())

    async def produce(self):
        number = 0
        while not self.stopped.is_set():
            number += 1
            batch = jobs(5, prefix=f"p-{number}", max_attempts=50)
            # It is unknown whether it was stored, so try again: an id is created once.
            answers = await until_it_works(lambda batch=batch: self.store.enqueue(batch))
            self.acknowledged.update(answer.id for answer in answers)

    async def work(self, name):
        finished = []
        while finished or not self.stopped.is_set():
            request = None if self.stopped.is_set() else MANY
            try:
                result = await self.store.tick(name, finished, request)
            except StoreUnavailable:
                self.failed += 1
                await asyncio.sleep(0.02)
                continue
            refused = {refused.lease for refused in result.refused}
            self.completed += [item.lease.job_id for item in finished if item.lease not in refused]
            finished = [Finished(claim.lease, Completed()) for claim in result.claims]

    async def rescue(self):
        while not self.stopped.is_set():
            await until_it_works(self.store.rescue)
            await asyncio.sleep(0.2)

    async def goes_on(self):
        """Wait until some more jobs were completed."""
        wanted = len(self.completed) + 20
        await until(lambda: len(self.completed) >= wanted)

    async def finish_the_rest(self):
        """Run the remaining jobs after the leases of claims with lost answers have expired."""

        async def none_is_leased():
            await self.store.rescue(limit=10_000)
            return all(lane.processing == 0 for lane in (await self.store.stats()).lanes)

        await until(none_is_leased)
        finished = []
        while True:
            result = await self.store.tick("last", finished, MANY)
            if not result.claims:
                return
            finished = [Finished(claim.lease, Completed()) for claim in result.claims]


def test_restarts_under_load_lose_nothing_and_run_nothing_twice(own_server):
    """The server is stopped and killed in turn while clients and workers continue."""

    async def scenario():
        async with PostgresStore(own_server.url(), connections=6) as store:
            load = Load(store)
            running = asyncio.create_task(load.run())
            for way in (own_server.stop, own_server.kill, own_server.stop, own_server.kill):
                await load.goes_on()
                failed = load.failed
                await asyncio.to_thread(way)
                await until(lambda failed=failed: load.failed > failed)
                await asyncio.to_thread(own_server.start)
            await load.goes_on()
            load.stopped.set()
            await running
            await load.finish_the_rest()
            return load, await store.stats()

    load, stats = asyncio.run(scenario())
    statuses = dict(own_server.execute("SELECT id, status::text FROM holdfast.jobs"))
    assert load.acknowledged <= statuses.keys()
    assert len(load.acknowledged) > 50
    assert set(statuses.values()) == {"complete"}
    assert len(load.completed) == len(set(load.completed))
    assert not own_server.execute(
        "SELECT job FROM holdfast.events WHERE name = 'complete' GROUP BY job HAVING count(*) > 1"
    )
    (lane,) = stats.lanes
    assert (lane.ready, lane.processing, lane.complete) == (0, 0, len(statuses))


def test_the_listener_reconnects_when_the_server_is_back(own_server):
    async def scenario():
        async with PostgresStore(own_server.url()) as worker:
            mark = (await worker.tick("w", claim=ANY)).mark
            assert await worker.wait_for_work(mark, 20)
            # From before the restart: a reconnection before the next wait is noticed too.
            mark = (await worker.tick("w", claim=ANY)).mark
            await asyncio.to_thread(own_server.restart)
            assert await worker.wait_for_work(mark, 20)
            async with PostgresStore(own_server.url()) as api:
                mark = (await until_it_works(lambda: worker.tick("w", claim=ANY))).mark
                await api.enqueue([NewJob("a", "work")])
                assert await worker.wait_for_work(mark, 20)

    asyncio.run(scenario())


def test_a_worker_whose_clock_is_an_hour_off_changes_nothing(postgres_url):
    """Leases, delays and deadlines are judged by the database alone."""

    class OffClock:
        def __init__(self, offset):
            self.offset = offset

        def wall(self):
            return time.time() + self.offset

        def monotonic(self):
            return time.monotonic() + self.offset

        def sleep(self, seconds):
            time.sleep(seconds)

        async def sleep_async(self, seconds):
            await asyncio.sleep(seconds)

        def call_within(self, seconds, operation):
            return operation()

    async def scenario():
        times = []
        for offset in (-3600, 0, 3600):
            async with PostgresStore(postgres_url, clock=OffClock(offset)) as store:
                name = f"job{offset}"
                await store.enqueue([NewJob(name, "work")])
                result = await store.tick("w", claim=ANY)
                (claim,) = result.claims
                assert claim.lease.expires_at - result.now == pytest.approx(300)
                assert (await store.rescue()).requeued == ()
                await store.tick("w", [Finished(claim.lease, Completed())])
                job = await store.get(name)
                times += [job.created_at, result.now, job.started_at, job.finished_at]
        assert times == sorted(times)
        assert abs(times[0] - time.time()) < 60

    asyncio.run(scenario())
