"""SQLite's file locks hold: between processes, and against our own process releasing them."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import apsw
from tests.apps.conversion.gateway_process import environment
from tests.apps.conversion.service import Service, pdf

from holdfast.jobs.model import NewJob
from holdfast.store.sqlite.store import SQLiteStore

JOBS = 150

# Each job is enqueued with a row of the program, in one transaction: half of them on a connection
# that is opened and closed for it, half by the store alone.
_WRITE = """
import asyncio, sys
import apsw
from holdfast.jobs.model import Completed, Finished, NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.sqlite.store import SQLiteStore

path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def enqueue(store, number):
    job = NewJob(f"{name}-{number}", "work")
    if number % 2:
        await store.enqueue([job])
        return
    own = apsw.Connection(path)
    own.set_busy_timeout(60_000)
    own.execute("BEGIN IMMEDIATE")
    own.execute("INSERT INTO orders VALUES (?)", (job.id,))
    await store.enqueue_on(own, [job])
    own.execute("COMMIT")
    own.close()

async def main():
    async with SQLiteStore(path, busy_timeout=60) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        request = ClaimRequest(3, ("default",), {"work": None})
        finished = []
        for number in range(count):
            await enqueue(store, number)
            result = await store.tick(name, finished, request)
            assert not result.refused
            finished = [Finished(claim.lease, Completed()) for claim in result.claims]
        await store.tick(name, finished)

asyncio.run(main())
"""


def test_two_processes_that_write_at_once_lose_nothing(tmp_path):
    path = tmp_path / "a.db"

    async def prepare():
        async with SQLiteStore(path) as store:
            await store.enqueue([NewJob("first", "work")])

    asyncio.run(prepare())
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE orders (id TEXT)")
    db.close()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITE, str(path), name, str(JOBS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=100)
        assert writer.returncode == 0

    names = {f"{name}-{number}" for name in ("one", "two") for number in range(JOBS)}
    db = apsw.Connection(str(path))
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert {row[0] for row in db.execute("SELECT id FROM holdfast_jobs")} == names | {"first"}
    assert {row[0] for row in db.execute("SELECT id FROM orders")} == {
        name for name in names if int(name.partition("-")[2]) % 2 == 0
    }
    ((ready, processing, complete),) = db.execute(
        "SELECT sum(ready), sum(processing), sum(complete) FROM holdfast_lanes"
    ).fetchall()
    assert (ready + complete, processing) == (len(names) + 1, 0)
    ((completions, jobs),) = db.execute(
        "SELECT count(*), count(DISTINCT job) FROM holdfast_events WHERE name = 'complete'"
    ).fetchall()
    assert completions == jobs == complete > JOBS
    db.close()


# Loaded by every Python process of the service at its start.
_RECORD_OPENED_FILES = """
import os, sys

def record(event, arguments, log=os.open(os.environ["OPENED_FILES"], os.O_WRONLY | os.O_APPEND)):
    if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        os.write(log, os.fsencode(arguments[0]) + b"\\n")

sys.addaudithook(record)
"""


def test_no_python_code_of_the_service_opens_the_database_file(tmp_path):
    """Closing any descriptor of the file would release all locks of SQLite on it."""
    opened = tmp_path / "opened"
    opened.touch()
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(_RECORD_OPENED_FILES)
    path = os.pathsep.join([str(hooks), environment()["PYTHONPATH"]])
    with Service(tmp_path, PYTHONPATH=path, OPENED_FILES=str(opened)) as service:
        job_id = service.upload(pdf("a letter")).json()["job"]["id"]
        service.wait(job_id)
        for page in ("/", "/healthz", "/api/jobs", f"/api/jobs/{job_id}/download"):
            assert service.client.get(page).status_code == 200
        assert service.stop() == 0
    names = {Path(line).name for line in opened.read_text().splitlines()}
    assert len(names) > 100  # the recording works
    assert {name for name in names if name.startswith("holdfast.db")} == set()
    assert (tmp_path / "data" / "holdfast.db").exists()
