"""Periodic jobs by hand: list, pause, resume, run now."""

import asyncio

import pytest

from holdfast.bootstrap import Engine
from holdfast.jobs.client.periodic_control import ScheduleBusy, UnknownSchedule
from holdfast.jobs.declare.app import App
from holdfast.jobs.exceptions import UnknownKind
from holdfast.jobs.maintenance.periodic import PeriodicJobs
from holdfast.testing import VirtualClock

START = 1_800_000_000.0


def declared():
    app = App("docs")

    @app.periodic(every=10, missed="once")
    def tidy(ctx): ...

    @app.periodic("0 3 * * *", timezone="Europe/Berlin", overlap=False)
    def report(ctx): ...

    @app.job()
    def plain(ctx): ...

    return app, tidy


def use(tmp_path, scenario, apps=None):
    """Run `scenario` with an engine, a leader's service and the job."""
    app, tidy = declared()
    clock = VirtualClock(start_wall=START)

    async def main():
        url = f"sqlite:///{tmp_path}/work.db"
        chosen = [app] if apps is None else apps
        async with Engine(url, apps=chosen, clock=clock) as engine:
            leader = PeriodicJobs(engine.store, app.kinds, clock=clock)
            await scenario(engine, leader, clock, tidy)

    asyncio.run(main())


def test_a_declared_schedule_is_listed_before_a_worker_has_run(tmp_path):
    async def scenario(engine, leader, clock, tidy):
        report, listed = await engine.periodic.list()
        assert (report.name, report.schedule) == ("docs.report", "0 3 * * * Europe/Berlin")
        assert (report.missed, report.overlap) == ("skip", False)
        assert (listed.name, listed.schedule, listed.missed) == ("docs.tidy", "every 10 s", "once")
        assert (listed.has_worker, listed.paused, listed.next_slot) == (False, False, None)
        await leader.round()
        listed = await engine.periodic.get(tidy)
        assert (listed.has_worker, listed.next_slot) == (True, START + 10)
        assert (listed.last_slot, listed.last_job) == (None, None)

    use(tmp_path, scenario)


def test_a_schedule_that_no_worker_declares_any_more_is_listed_as_such(tmp_path):
    async def scenario(engine, leader, clock, tidy):
        await leader.round()
        clock.advance(11)
        await leader.round()
        clock.advance(61)
        async with Engine(f"sqlite:///{tmp_path}/work.db", clock=clock) as elsewhere:
            _, listed = await elsewhere.periodic.list()
            assert (listed.name, listed.has_worker, listed.next_slot) == ("docs.tidy", False, None)
            assert (listed.last_slot, listed.paused) == (START + 10, False)

    use(tmp_path, scenario)


def test_a_paused_schedule_stays_paused_until_it_is_resumed(tmp_path):
    async def scenario(engine, leader, clock, tidy):
        await leader.round()
        paused = await engine.periodic.pause("docs.tidy")
        assert (paused.paused, paused.paused_at, paused.next_slot) == (True, START, None)
        clock.advance(25)
        assert (await engine.periodic.pause(tidy)).paused_at == START
        assert await leader.round() == 0
        resumed = await engine.periodic.resume(tidy)
        assert (resumed.paused, resumed.has_worker) == (False, True)
        assert await leader.round() == 1  # missed="once"
        assert (await engine.periodic.resume(tidy)).last_slot == START + 20

    use(tmp_path, scenario)


def test_a_schedule_can_be_paused_before_a_worker_has_run(tmp_path):
    async def scenario(engine, leader, clock, tidy):
        assert (await engine.periodic.pause(tidy)).paused
        await leader.round()
        clock.advance(11)
        assert await leader.round() == 0
        assert (await engine.periodic.get(tidy)).has_worker

    use(tmp_path, scenario)


def test_a_job_can_be_run_now_beside_its_schedule_and_while_it_is_paused(tmp_path):
    async def scenario(engine, leader, clock, tidy):
        await engine.periodic.pause(tidy)
        clock.advance(3)
        job = await engine.periodic.run_now(tidy)
        assert (job.kind, job.created) == ("docs.tidy", True)
        assert (await engine.periodic.run_now("docs.tidy")).id != job.id
        assert (await engine.enqueue(tidy)).created
        assert (await engine.periodic.get(tidy)).last_job is None
        waiting = (await engine.list()).jobs
        assert {(each.status, each.created_at) for each in waiting} == {("queued", START + 3)}

    use(tmp_path, scenario)


@pytest.mark.parametrize("method", ["get", "pause", "resume", "run_now"])
@pytest.mark.parametrize("name", ["docs.nothing", "docs.plain", "", "a\0b"])
def test_an_unknown_name_is_refused(tmp_path, method, name):
    async def scenario(engine, *_):
        with pytest.raises(UnknownSchedule):
            await getattr(engine.periodic, method)(name)
        with pytest.raises(TypeError, match="a string or its function"):
            await getattr(engine.periodic, method)(5)

    use(tmp_path, scenario)


def test_only_an_engine_that_declares_a_job_can_run_it(tmp_path):
    async def scenario(engine, leader, clock, tidy):
        await leader.round()
        assert (await engine.periodic.pause("docs.tidy")).paused
        with pytest.raises(UnknownKind):
            await engine.periodic.run_now("docs.tidy")

    use(tmp_path, scenario, apps=[])


def test_a_write_that_loses_against_workers_is_tried_again_and_then_given_up(tmp_path):
    async def scenario(engine, leader, clock, tidy):
        await leader.round()
        write, tries = engine.store.write_schedule, []

        async def lose(record, jobs=()):
            tries.append(record)
            return await write(record) if len(tries) == 3 else None

        engine.store.write_schedule = lose
        assert (await engine.periodic.pause(tidy)).paused
        assert len(tries) == 3
        with pytest.raises(ScheduleBusy, match="being written by workers"):
            await engine.periodic.resume(tidy)

    use(tmp_path, scenario)
