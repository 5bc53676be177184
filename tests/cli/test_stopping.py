"""SIGTERM ends a worker in time, whatever its handlers do, and the exit code says what is left."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing

import pytest
from tests.support.postgres import obtain
from tests.support.waiting import SOON, until

from holdfast import Engine, JobStatus
from holdfast.bootstrap import load_reference
from holdfast.cli.forced_exit import GRACE, HANDLERS_LEFT, JOBS_LEFT
from holdfast.store.postgres.store import PostgresStore

SHUTDOWN = 1.5

MODULE = """
    import asyncio
    import logging
    import multiprocessing
    import signal
    import sqlite3
    import threading
    import time
    from pathlib import Path

    from holdfast import App, JobContext

    app = App("stubborn")

    @app.job()
    async def swallow(ctx: JobContext, marker: str) -> None:
        Path(marker).touch()
        while True:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                pass

    @app.job()
    def block(ctx: JobContext, marker: str) -> None:
        Path(marker).touch()
        time.sleep(600)

    @app.job(isolation="process")
    def child(ctx: JobContext, marker: str) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(marker).touch()
        time.sleep(600)

    @app.job()
    async def block_loop(ctx: JobContext, marker: str) -> None:
        Path(marker).touch()
        time.sleep(600)

    @app.job()
    async def wait_in_c(ctx: JobContext, marker: str) -> None:
        Path(marker).touch()
        # Inside SQLite no signal interrupts it, so no signal handler of Python's runs.
        sqlite3.connect("locked.db", timeout=120).execute("BEGIN IMMEDIATE")

    @app.job()
    async def block_log(ctx: JobContext, marker: str) -> None:
        # As where the log goes into a pipe that is full because its reader hangs.
        logging.getLogger().handlers[0].acquire()
        Path(marker).touch()
        time.sleep(600)

    @app.job()
    def terminate_child(ctx: JobContext, marker: str) -> int:
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(120,))
        child.start()
        child.terminate()
        child.join()
        return child.exitcode

    @app.job()
    async def leave_thread(ctx: JobContext, marker: str) -> None:
        threading.Thread(target=time.sleep, args=(600,)).start()
        Path(marker).touch()

    @app.job()
    async def leave_executor(ctx: JobContext, marker: str) -> None:
        Path(marker).touch()
        await asyncio.to_thread(time.sleep, 600)

    @app.job()
    async def last(ctx: JobContext, marker: str) -> None:
        Path(marker).touch()
        while not Path(marker + ".end").exists():
            await asyncio.sleep(0.01)

    @app.job()
    async def obey(ctx: JobContext, marker: str) -> None:
        Path(marker).touch()
        await asyncio.sleep(600)
"""


class Running:
    """A `holdfast worker` in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.database = "sqlite:///work.db"
        (folder / "stubborn_jobs.py").write_text(textwrap.dedent(MODULE))
        self.process = None

    def start(self):
        self.close()
        command = [sys.executable, "-m", "holdfast", "worker", "stubborn_jobs:app"]
        self.process = subprocess.Popen(
            [*command, "--database", self.database],
            cwd=self.folder,
            env={**os.environ, "WORKER_SHUTDOWN_MS": str(int(SHUTDOWN * 1000))},
            stderr=subprocess.PIPE,
            text=True,
        )

    async def until_started(self, marker):
        def started():
            assert self.process.poll() is None, self.process.stderr.read()
            return marker.exists()

        await until(started)

    def end(self):
        """Send SIGTERM; return the exit code and how many seconds it took."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(SOON)
        return code, time.monotonic() - begin

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stderr.close()


@pytest.fixture
def running(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    made = Running(tmp_path)
    yield made
    made.close()
    sys.modules.pop("stubborn_jobs", None)


@pytest.mark.parametrize(
    ("job", "code", "status"),
    [
        ("obey", 0, JobStatus.QUEUED),
        ("child", 0, JobStatus.QUEUED),
        ("swallow", HANDLERS_LEFT, JobStatus.QUEUED),
        ("block", HANDLERS_LEFT, JobStatus.QUEUED),
        ("leave_executor", HANDLERS_LEFT, JobStatus.QUEUED),
        ("leave_thread", HANDLERS_LEFT, JobStatus.COMPLETE),
        ("block_loop", JOBS_LEFT, JobStatus.PROCESSING),
        ("block_log", JOBS_LEFT, JobStatus.PROCESSING),
    ],
)
def test_a_worker_ends_in_time_even_if_handlers_do_not_stop(running, tmp_path, job, code, status):
    marker = tmp_path / "started"

    async def go():
        async with Engine(running.database, apps=[load_reference("stubborn_jobs:app")]) as engine:
            handle = await engine.enqueue(f"stubborn.{job}", str(marker))
            running.start()
            await running.until_started(marker)
            if status is JobStatus.COMPLETE:
                await engine.result(handle, timeout=SOON)
            ended, seconds = await asyncio.to_thread(running.end)
            assert (ended, (await engine.get(handle.id)).status) == (code, status)
            # A busy machine needs a moment more.
            assert seconds < SHUTDOWN + GRACE + 5

    asyncio.run(go())


def test_a_worker_inside_a_c_call_ends_in_time_and_its_job_runs_elsewhere(running, tmp_path):
    marker = tmp_path / "started"

    async def go():
        async with Engine(running.database, apps=[load_reference("stubborn_jobs:app")]) as engine:
            handle = await engine.enqueue("stubborn.wait_in_c", str(marker))
            with closing(sqlite3.connect("locked.db")) as locked:
                locked.execute("BEGIN EXCLUSIVE")
                running.start()
                await running.until_started(marker)
                ended, seconds = await asyncio.to_thread(running.end)
            assert ended == JOBS_LEFT
            assert seconds < SHUTDOWN + GRACE + 5
            running.start()
            await engine.result(handle, timeout=SOON)
            assert (await engine.get(handle.id)).attempt_count == 2

    asyncio.run(go())


def test_a_signal_to_a_forked_child_ends_the_child_and_not_the_worker(running, tmp_path):
    marker = tmp_path / "started"

    async def go():
        async with Engine(running.database, apps=[load_reference("stubborn_jobs:app")]) as engine:
            running.start()
            handle = await engine.enqueue("stubborn.terminate_child", "")
            assert await engine.result(handle, timeout=SOON) == -signal.SIGTERM
            await engine.enqueue("stubborn.obey", str(marker))
            await running.until_started(marker)
            ended, _ = await asyncio.to_thread(running.end)
            assert ended == 0

    asyncio.run(go())


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_worker_that_is_told_to_finish_ends_after_its_last_attempt(
    running, tmp_path, postgres_server, store
):
    """Also if that takes longer than `shutdown_seconds`; its exit code is 0."""
    marker, name = tmp_path / "started", None
    if store == "postgres":
        name = postgres_server.create_database()
        running.database = postgres_server.url(name)
        asyncio.run(PostgresStore(running.database).migrate())

    async def go():
        async with Engine(running.database, apps=[load_reference("stubborn_jobs:app")]) as engine:
            handle = await engine.enqueue("stubborn.last", str(marker))
            running.start()
            await running.until_started(marker)
            (worker,) = await engine.workers.list()
            assert worker.running == 1
            await engine.workers.finish(worker.id)
            later = await engine.enqueue("stubborn.obey", str(tmp_path / "never"), delay=SHUTDOWN)
            with pytest.raises(subprocess.TimeoutExpired):
                await asyncio.to_thread(running.process.wait, SHUTDOWN + 1)
            (tmp_path / "started.end").touch()
            assert await asyncio.to_thread(running.process.wait, SOON) == 0
            assert (await engine.get(handle)).status is JobStatus.COMPLETE
            assert (await engine.get(later)).attempt_count == 0

    try:
        asyncio.run(go())
    finally:
        running.close()
        if name is not None:
            postgres_server.drop_database(name)


@pytest.fixture
def server():
    server = obtain(fsync=False)
    asyncio.run(PostgresStore(server.url()).migrate())
    yield server
    server.close()


def test_a_worker_started_while_its_store_is_down_waits_for_it(running, tmp_path, server):
    marker = tmp_path / "started"
    running.database = server.url()

    async def go():
        app = load_reference("stubborn_jobs:app")
        async with Engine(server.url(), apps=[app]) as engine:
            handle = await engine.enqueue("stubborn.obey", str(marker))
        await asyncio.to_thread(server.stop)
        running.start()
        line = await asyncio.to_thread(running.process.stderr.readline)
        assert "the store does not answer, waiting for it" in line
        await asyncio.to_thread(server.start)
        await running.until_started(marker)
        ended, _ = await asyncio.to_thread(running.end)
        assert ended == 0
        async with Engine(server.url(), apps=[app]) as engine:
            assert (await engine.get(handle.id)).status is JobStatus.QUEUED

    asyncio.run(go())


def test_a_worker_that_waits_for_its_store_ends_when_it_is_asked_to(running, server):
    running.database = server.url()
    server.stop()
    running.start()
    assert "the store does not answer, waiting for it" in running.process.stderr.readline()
    ended, seconds = running.end()
    assert ended == 0
    assert seconds < SHUTDOWN + GRACE + 5
