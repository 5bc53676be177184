"""The checks of `holdfast doctor`, one by one."""

import asyncio
from collections import namedtuple

import apsw
import pytest
from tests.cli.commands.shop import app as shop
from tests.cli.commands.shop import filled
from tests.support.waiting import until

from holdfast import App, Downstream, Engine, JobContext, WorkerOptions
from holdfast.cli import doctor_checks as checks
from holdfast.cli.doctor_checks import Examination, Level
from holdfast.jobs.store_port import ClaimRequest
from holdfast.settings import Environment
from holdfast.testing import VirtualClock


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/work.db"


def examine(url, check, *, prepare=None, **options):
    """Return what `check` finds, after `prepare` was called with the engine."""

    async def run():
        async with Engine(url) as engine:
            if prepare is not None:
                await prepare(engine)
            settings = options.pop("settings", {})
            return await check(Examination(engine, Environment(settings), **options))

    return asyncio.run(run())


def test_a_clock_that_differs_is_a_problem(url):
    (found,) = examine(url, checks.check_clock)
    assert found.level is Level.OK

    (found,) = examine(url, checks.check_clock, clock=VirtualClock())
    assert found.level is Level.PROBLEM
    assert "NTP" in found.advice


def test_a_lease_that_nobody_rescued_is_a_problem(url):
    (letter,) = filled(url, letters=1)

    async def expire(engine):
        request = ClaimRequest(kinds={"shop.mail": None}, queues=("mail",), limit=1)
        await engine.store.tick("dead-worker", claim=request)
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute("UPDATE holdfast_jobs SET lease_expires_at = 1.0 WHERE lease_expires_at")
        connection.close()

    (found,) = examine(url, checks.check_leases, prepare=expire)
    assert found.level is Level.PROBLEM
    assert letter in found.finding


def test_open_and_held_breakers_are_told_apart(url):
    filled(url, 0, 0)
    (found,) = examine(url, checks.check_breakers)
    assert (found.level, "GW_UNAVAILABLE" in found.finding) == (Level.PROBLEM, True)

    (found,) = examine(url, checks.check_breakers, prepare=lambda e: e.downstreams.hold("bank"))
    assert (found.level, "held by hand" in found.finding) == (Level.WARNING, True)

    (found,) = examine(url, checks.check_breakers, prepare=lambda e: e.downstreams.release("bank"))
    assert (found.level, found.advice) == (Level.WARNING, "trial calls are under way")


def test_a_stale_outbox_is_a_problem_and_failed_messages_a_warning(url):
    async def prepare(engine):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        for name in ("late", "failed"):
            with connection:
                await engine.outbox.add(connection, name, "a.type", {})
        connection.execute("UPDATE holdfast_outbox SET due_at = due_at - 1000")
        connection.execute(
            "UPDATE holdfast_outbox SET status = 'failed', processed_at = created_at, "
            "error_message = 'no' WHERE aggregate_id = 'failed'"
        )
        connection.close()

    stale, failed = examine(url, checks.check_outbox, prepare=prepare)
    assert (stale.level, failed.level) == (Level.PROBLEM, Level.WARNING)
    (calm,) = examine(url, checks.check_outbox, settings={"OUTBOX_STALE_THRESHOLD_MS": "9999999"})
    assert calm.level is Level.WARNING  # the failed one


def test_a_kind_that_no_worker_knows_is_a_problem(url):
    other = App("other")

    @other.job()
    async def run(ctx: JobContext) -> None: ...

    filled(url, letters=1)

    async def scenario():
        async with Engine(url, apps=[other]) as engine:
            worker = engine.worker(WorkerOptions())
            running = asyncio.create_task(worker.run())
            await until(engine.workers.list)
            found = await checks.check_workers(Examination(engine, Environment({})))
            worker.stop()
            await running
            return found

    (found,) = asyncio.run(scenario())
    assert (found.level, found.check) == (Level.PROBLEM, "workers")
    assert "1 jobs of shop.mail wait, and no worker knows this kind" in found.finding


def test_without_a_worker_ready_jobs_are_a_problem(url):
    (found,) = examine(url, checks.check_workers)
    assert found.level is Level.WARNING
    filled(url, letters=1)
    (found,) = examine(url, checks.check_workers)
    assert found.level is Level.PROBLEM


def test_pauses_and_dead_letters_are_warnings_with_the_command_to_use(url):
    filled(url, -1, letters=1)

    async def pause(engine):
        await engine.queues.pause("mail")
        await engine.kinds.pause("shop.charge")

    queue, kind = examine(url, checks.check_pauses, prepare=pause)
    assert queue.advice == "holdfast queues resume mail"
    assert kind.advice == "holdfast kinds resume shop.charge"
    (found,) = examine(url, checks.check_dead_letters)
    assert (found.level, found.finding) == (Level.WARNING, "1 jobs wait for a person")


def test_the_probes_of_the_apps_are_called(url):
    async def refuse() -> None:
        raise ConnectionRefusedError("no gateway")

    probed = App("probed")
    for number, probe in enumerate((refuse, lambda: None)):

        @probed.job(name=f"job{number}", downstream=Downstream(f"gate{number}", probe=probe))
        async def run(ctx: JobContext) -> None: ...

    bad, good = examine(url, checks.check_downstreams, apps=[probed, shop])
    assert (bad.level, good.level) == (Level.PROBLEM, Level.OK)
    assert "gate0 fails its probe: ConnectionRefusedError: no gateway" in bad.finding


def test_a_disk_without_room_is_a_problem(url, tmp_path, monkeypatch):
    usage = namedtuple("usage", "free")
    for free, level, line in (
        (5 * 1024**3, Level.OK, "5 GiB are free"),
        (5 * 1024**2, Level.PROBLEM, "5 MiB are free"),
    ):
        monkeypatch.setattr(checks.shutil, "disk_usage", lambda folder, free=free: usage(free))
        (found,) = examine(url, checks.check_disk, folders=[tmp_path])
        assert (found.level, line in found.finding) == (level, True)
