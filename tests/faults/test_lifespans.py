"""Lifespans in real workers, `holdfast worker`: failing, hanging, killed and restarted."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest
from tests.faults.conftest import ROOT
from tests.faults.lifespan_app import app, endless, work
from tests.support.waiting import SOON, until

from holdfast import Engine
from holdfast.jobs.model import JobStatus


class Workers:
    """Start `holdfast worker` on one store."""

    def __init__(self, url, folder):
        self.url = url
        self.trace = folder / "trace"
        self.errors = folder / "errors"
        self.started = []

    def start(self, behaviour="", *options):
        environment = {
            **os.environ, "LIFESPAN": behaviour, "LIFESPAN_TRACE": str(self.trace),
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "WORKER_SHUTDOWN_MS": "2000",
        }  # fmt: skip
        command = [sys.executable, "-m", "holdfast", "worker", "tests.faults.lifespan_app:app"]
        with self.errors.open("ab") as errors:
            process = subprocess.Popen(
                [*command, "--database", self.url, *options], cwd=ROOT, env=environment,
                stderr=errors,
            )  # fmt: skip
        self.started.append(process)
        return process

    def lines(self):
        return self.trace.read_text().split("\n")[:-1] if self.trace.exists() else []

    async def traced(self, line, times=1):
        await until(lambda: self.lines().count(line) >= times)

    def close(self):
        for process in self.started:
            process.kill()
            process.wait()


@pytest.fixture
def workers(url, tmp_path):
    made = Workers(url, tmp_path)
    try:
        yield made
    finally:
        made.close()


def play(url, scenario):
    async def go():
        async with Engine(url, apps=[app]) as engine:
            await scenario(engine)

    asyncio.run(go())


def test_one_that_raises_ends_the_worker_with_one_line_and_nothing_is_claimed(workers, url):
    async def scenario(engine):
        job = await engine.enqueue(work)
        process = workers.start("raises")
        assert await asyncio.to_thread(process.wait, SOON) == 1
        found = await engine.get(job)
        assert (found.status, found.attempt_count) == (JobStatus.QUEUED, 0)
        last = workers.errors.read_text().strip().split("\n")[-1]
        assert "app spans: its lifespan failed: ConnectionRefusedError: no pool today" in last

    play(url, scenario)


def test_a_killed_worker_is_replaced_by_one_with_a_lifespan_of_its_own(workers, url):
    async def scenario(engine):
        job = await engine.enqueue(endless)
        first = workers.start()
        await workers.traced("work")
        first.kill()
        first.wait()
        second = workers.start()
        await workers.traced("work", 2)
        await engine.cancel(job)
        own = await engine.enqueue(work)
        assert await engine.result(own, timeout=SOON) == second.pid
        second.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(second.wait, SOON) == 0
        lines = workers.lines()
        assert (lines.count("enter"), lines.count("leave"), lines[-1]) == (2, 1, "leave")

    play(url, scenario)


@pytest.mark.parametrize("behaviour", ["hangs at start", "hangs at end"])
def test_a_signal_ends_the_worker_in_time_whatever_the_lifespan_does(workers, url, behaviour):
    async def scenario(engine):
        process = workers.start(behaviour)
        if behaviour == "hangs at end":
            await engine.result(await engine.enqueue(work), timeout=SOON)
        await workers.traced("enter")
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        status = await asyncio.to_thread(process.wait, SOON)
        assert time.monotonic() - began < 2 + 5 + 10  # the limit, the grace, a busy machine
        assert status == (0 if behaviour == "hangs at start" else 3)

    play(url, scenario)


def test_without_a_signal_a_hanging_lifespan_does_not_keep_an_idle_worker(workers, url):
    async def scenario(engine):
        await engine.enqueue(work)
        process = workers.start("hangs at end", "--until-idle")
        assert await asyncio.to_thread(process.wait, SOON) == 3

    play(url, scenario)
