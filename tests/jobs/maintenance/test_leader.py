"""The leader runs the services, renews its lease, resigns when it stops, survives outages."""

import asyncio
from random import Random

from tests.support.workers import SOON, EventLog, rig

from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.declare.app import App
from holdfast.jobs.job_events import LeaderChanged, ServiceRan, StoreBack, StoreLost
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.maintenance.leader import LEADERSHIP, Maintenance, declared_leadership
from holdfast.jobs.store_outage import Outage
from holdfast.jobs.store_port import StoreClosed, StoreUnavailable

BRISK = MaintenanceOptions(
    lead_seconds=0.3,
    rescue_every=0.05,
    deadlines_every=0.05,
    retention_every=0.05,
    probes_every=0.05,
)


class Troubled:
    """A store in front of another whose maintenance can be made to fail."""

    def __init__(self, store):
        self._store = store
        self.error = None
        self.failing = set()

    def __getattr__(self, name):
        real = getattr(self._store, name)
        if name not in self.failing:
            return real

        async def fail(*args, **kwargs):
            raise self.error

        return fail


def maintain(store, holder, log, options=BRISK):
    outage = Outage(holder, SYSTEM_CLOCK, [log])
    return Maintenance(
        store, {}, options, holder=holder, clock=SYSTEM_CLOCK, rng=Random(1), outage=outage,
        listeners=[log],
    )  # fmt: skip


def rescues(log):
    return [event for event in log.of(ServiceRan) if event.name == "rescue"]


async def ended(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_one_of_two_leads_and_the_other_follows_when_it_resigns(tmp_path):
    async def go():
        async with rig(tmp_path, App("a")) as it:
            first, second = maintain(it.store, "one", it.told), maintain(it.store, "two", it.told)
            leading = asyncio.create_task(first.run())
            await it.told.wait(LeaderChanged, lambda event: event.name == "one", count=2)
            following = asyncio.create_task(second.run())
            await it.told.wait(ServiceRan, lambda event: event.name == "rescue", count=3)
            assert {event.name for event in it.told.of(LeaderChanged)} == {"one"}
            await ended(leading)
            await it.told.wait(LeaderChanged, lambda event: event.name == "two", count=2)
            await ended(following)
            for leadership in (LEADERSHIP, declared_leadership(())):
                changes = [
                    (event.name, event.leads)
                    for event in it.told.of(LeaderChanged)
                    if event.leadership == leadership
                ]
                assert changes == [("one", True), ("one", False), ("two", True), ("two", False)]
                assert await it.store.lead(leadership, "three", 1.0) is not None

    asyncio.run(go())


def test_all_services_run_while_it_leads(tmp_path):
    async def go():
        async with rig(tmp_path, App("a")) as it:
            task = asyncio.create_task(maintain(it.store, "one", it.told).run())
            for name in ("rescue", "deadlines", "retention"):
                await it.told.wait(ServiceRan, lambda event, name=name: event.name == name)
            await ended(task)

    asyncio.run(go())


def test_a_leader_that_lost_the_lease_stops_its_services(tmp_path):
    async def go():
        async with rig(tmp_path, App("a")) as it:
            robbed = maintain(it.store, "one", it.told)
            task = asyncio.create_task(robbed.run())
            await it.told.wait(ServiceRan, lambda event: event.name == "rescue")
            await it.store.resign(LEADERSHIP, "one")
            await it.store.lead(LEADERSHIP, "thief", 60.0)
            await it.told.wait(LeaderChanged, lambda event: not event.leads)
            seen = len(rescues(it.told))
            await it.told.wait(
                ServiceRan,
                lambda event: event.name == "retention",
                count=len(it.told.of(ServiceRan)) + 5,
            )
            assert len(rescues(it.told)) == seen
            await ended(task)

    asyncio.run(go())


def test_an_outage_is_reported_once_and_survived(tmp_path):
    async def go():
        async with rig(tmp_path, App("a")) as it:
            store = Troubled(it.store)
            store.error = StoreUnavailable("gone")
            log = EventLog()
            task = asyncio.create_task(maintain(store, "one", log).run())
            await log.wait(ServiceRan)
            store.failing = {"rescue", "expire_deadlines", "lead"}
            await log.wait(StoreLost)
            await log.wait(LeaderChanged, lambda event: not event.leads)
            store.failing = set()
            await log.wait(StoreBack)
            await log.wait(ServiceRan, count=len(log.of(ServiceRan)) + 2)
            assert len(log.of(StoreLost)) == 1
            await ended(task)

    asyncio.run(go())


def test_a_failing_service_does_not_stop_the_others(tmp_path, caplog):
    async def go():
        async with rig(tmp_path, App("a")) as it:
            store = Troubled(it.store)
            store.error = ZeroDivisionError("a bug")
            store.failing = {"rescue"}
            log = EventLog()
            task = asyncio.create_task(maintain(store, "one", log).run())
            await log.wait(ServiceRan, lambda event: event.name == "deadlines", count=3)
            assert not rescues(log)
            store.failing = set()
            await log.wait(ServiceRan, lambda event: event.name == "rescue")
            await ended(task)

    asyncio.run(go())
    assert "rescue failed" in caplog.text


def test_an_unexpected_error_ends_no_leadership(tmp_path, caplog):
    async def go():
        async with rig(tmp_path, App("a")) as it:
            store = Troubled(it.store)
            store.error = ZeroDivisionError("a bug")
            log = EventLog()
            task = asyncio.create_task(maintain(store, "one", log).run())
            await log.wait(LeaderChanged, count=2)
            store.failing = {"lead"}
            await log.wait(LeaderChanged, lambda event: not event.leads, count=2)
            store.failing = set()
            await log.wait(LeaderChanged, lambda event: event.leads, count=4)
            assert not task.done()
            await ended(task)

    asyncio.run(go())
    assert "one could not lead maintenance: rescue, deadlines" in caplog.text


def test_it_ends_with_its_store(tmp_path):
    async def go():
        async with rig(tmp_path, App("a")) as it:
            store = Troubled(it.store)
            store.error = StoreClosed("closed")
            log = EventLog()
            task = asyncio.create_task(maintain(store, "one", log).run())
            await log.wait(ServiceRan)
            store.failing = {"lead", "rescue", "expire_deadlines", "resign"}
            async with asyncio.timeout(SOON):
                await task

    asyncio.run(go())
