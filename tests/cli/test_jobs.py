"""Migrating and working from the command line."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from holdfast import Engine, JobStatus
from holdfast.bootstrap import load_app
from holdfast.cli import main

MODULE = """
    from pathlib import Path

    from holdfast import App, JobContext

    app = App("letters")

    @app.job()
    async def write(ctx: JobContext, text: str) -> str:
        return text.upper()

    @app.job()
    async def wait(ctx: JobContext, marker: str) -> None:
        import asyncio

        Path(marker).touch()
        await asyncio.sleep(60)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "letters_jobs.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("letters_jobs", None)


def enqueue(job, args):
    async def run():
        async with Engine("sqlite:///work.db", apps=[load_app("letters_jobs:app")]) as engine:
            return (await engine.enqueue(job, args)).id

    return asyncio.run(run())


def look(job_id):
    async def run():
        async with Engine("sqlite:///work.db", apps=[load_app("letters_jobs:app")]) as engine:
            return await engine.get(job_id)

    return asyncio.run(run())


def test_a_worker_runs_what_waits_and_stops_when_idle(folder):
    job_id = enqueue("letters.write", "hello")

    code = main(["worker", "letters_jobs:app", "--database", "sqlite:///work.db", "--until-idle"])

    assert code == 0
    assert look(job_id).status is JobStatus.COMPLETE
    assert look(job_id).result == '"HELLO"'


def test_ctrl_c_twice_hands_the_running_job_back_at_once(folder):
    marker = folder / "started"
    job_id = enqueue("letters.wait", str(marker))
    worker = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "worker", "letters_jobs:app",
         "--database", "sqlite:///work.db"],
        cwd=folder,
    )  # fmt: skip
    try:
        while not marker.exists():
            assert worker.poll() is None, "the worker ended before it started the job"
            os.sched_yield()
        worker.send_signal(signal.SIGINT)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=30) == 0
    finally:
        worker.kill()
        worker.wait()

    assert look(job_id).status is JobStatus.QUEUED
    assert look(job_id).attempt_count == 0


def test_migrate_says_the_version_and_may_be_run_again(folder, capsys):
    assert main(["migrate", "--database", "sqlite:///work.db"]) == 0
    assert main(["migrate", "--database", "sqlite:///work.db"]) == 0

    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert "up to date at version" in first


def test_the_default_database_gets_its_folder(folder, monkeypatch):
    monkeypatch.delenv("HOLDFAST_DATABASE_URL", raising=False)

    assert main(["migrate"]) == 0
    assert (folder / ".holdfast" / "holdfast.db").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["migrate", "--database", "sqllite:///work.db"], "did you mean sqlite://"),
        (["migrate", "--database", "sqlite:///no/such/folder/work.db"], "folder"),
        (["worker", "letters_jobs", "--database", "sqlite:///work.db"], "mypackage.jobs:app"),
        (["worker", "no_such:app", "--database", "sqlite:///work.db"], "no module 'no_such'"),
        (["worker", "letters_jobs:nope", "--database", "sqlite:///work.db"], "'nope' is no App"),
        (["worker", "letters_jobs:app", "--database", "sqlite:///work.db", "--concurrency", "0"],
         "concurrency must be at least 1"),
    ],
)  # fmt: skip
def test_what_a_person_can_mend_is_one_line(folder, capsys, arguments, said):
    assert main(arguments) == 1

    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
