"""`holdfast periodic list`, `pause`, `resume` and `run`."""

import asyncio
import contextlib

from tests.cli.commands.shop import tidy, with_engine
from tests.support.waiting import until

APP = ("--app", "tests.cli.commands.shop:app")


async def declare(engine):
    """Run a worker until it has declared the schedule, which an idle one may end without."""

    async def declared():
        return (await engine.periodic.get(tidy)).has_worker

    working = asyncio.create_task(engine.work())
    await until(declared)
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


def test_a_schedule_is_paused_and_resumed_without_the_app(url, run, rows):
    with_engine(url, declare)
    assert run("periodic", "pause", "shop.tidy")[1] == "shop.tidy is paused\n"
    (row,) = rows("periodic", "list")
    assert (row["name"], row["schedule"], row["state"]) == ("shop.tidy", "every 3600 s", "paused")
    assert run("periodic", "resume", "shop.tidy")[0] == 0
    assert [row["state"] for row in rows("periodic", "list")] != ["paused"]


def test_a_periodic_job_is_run_now_with_its_app(empty, run, data, rows):
    (answer,) = data("periodic", "run", "shop.tidy", *APP)
    assert [row["id"] for row in rows("jobs", "list")] == [answer["jobId"]]
    assert "name the app" in run("periodic", "run", "shop.tidy")[2]


def test_an_unknown_schedule_is_exit_code_2(empty, run):
    code, _, err = run("periodic", "pause", "shop.tidy")
    assert (code, err) == (2, "holdfast: there is no periodic job 'shop.tidy'\n")
