"""A forked child holds nothing of its parent's database: not its locks, not its descriptors."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest

from holdfast.jobs.model import NewJob
from holdfast.store.sqlite.store import SQLiteStore

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="locks by open file are a thing of Linux"
)

_PARENT = """
import asyncio, multiprocessing, sys, time
from holdfast.jobs.model import NewJob
from holdfast.store.sqlite.store import SQLiteStore

def linger():
    time.sleep(600)

async def main():
    async with SQLiteStore(sys.argv[1]) as store:
        await store.enqueue([NewJob("before", "work")])
        await store.get("before")

        def fork_and_stay(tx):
            tx.db.execute("CREATE TABLE never_committed (x)")
            child = multiprocessing.get_context("fork").Process(target=linger)
            child.start()
            print(child.pid, flush=True)
            linger()

        await store._write(fork_and_stay)

asyncio.run(main())
"""

_IN_A_CHILD = """
import asyncio, os, sys, traceback
from holdfast.jobs.model import NewJob
from holdfast.store.sqlite.store import SQLiteStore

def in_a_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def refused(work, words):
    try:
        asyncio.run(work)
    except Exception as error:
        assert words in str(error), error
    else:
        raise AssertionError("was not refused")

async def open_another(path):
    async with SQLiteStore(path) as store:
        await store.enqueue([NewJob("child", "work")])

path = sys.argv[1]
store = SQLiteStore(path)
"""


def play(path, script):
    """Run `script` in a process of its own, after what all of them need."""
    command = [sys.executable, "-c", _IN_A_CHILD + textwrap.dedent(script), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_write_lock_of_a_killed_worker_does_not_live_on_in_its_child(tmp_path):
    path = tmp_path / "a.db"
    command = [sys.executable, "-c", _PARENT, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
    try:

        async def scenario():
            async with SQLiteStore(path, busy_timeout=5) as store:
                await store.enqueue([NewJob("after", "work")])
                assert {job.id for job in (await store.list_jobs()).jobs} == {"before", "after"}

        asyncio.run(scenario())
        os.kill(child, 0)  # the child is there still, and so would be its lock
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_the_parents_locks_outlive_the_child(tmp_path):
    play(
        tmp_path / "a.db",
        """
        import subprocess
        import apsw

        async def main():
            async with store:
                await store.enqueue([NewJob("a", "work")])
                await store.get("a")

                def write_meanwhile(tx):
                    in_a_child(lambda: None)
                    script = "import apsw, sys; apsw.Connection(sys.argv[1]).execute(sys.argv[2])"
                    command = [sys.executable, "-c", script, path, "BEGIN IMMEDIATE"]
                    other = subprocess.run(command, capture_output=True, text=True)
                    assert "BusyError" in other.stderr, other.stderr

                await store._write(write_meanwhile)
                await store.enqueue([NewJob("b", "work")])
                assert len((await store.list_jobs()).jobs) == 2

        asyncio.run(main())
        db = apsw.Connection(path)
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        """,
    )


def test_the_end_of_a_child_leaves_the_log_alone(tmp_path):
    """A child that ends as programs do clears away its objects, connections among them."""
    play(
        tmp_path / "a.db",
        """
        import gc

        runner = asyncio.Runner()
        runner.run(store.open())
        runner.run(store.enqueue([NewJob("a", "work")]))
        runner.run(store.get("a"))
        if not os.fork():
            del store
            gc.collect()
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        assert os.path.getsize(path + "-wal") > 0
        runner.run(store.enqueue([NewJob("b", "work")]))
        runner.run(store.close())
        runner.close()
        asyncio.run(open_another(path))
        """,
    )


def test_an_inherited_store_is_refused_in_the_child(tmp_path):
    play(
        tmp_path / "a.db",
        """
        async def main():
            async with store:
                await store.get("a")

                def work():
                    asyncio.events._set_running_loop(None)
                    refused(store.enqueue([NewJob("b", "work")]), "not open in this process")
                    refused(store.get("a"), "not open in this process")
                    asyncio.run(store.close())

                in_a_child(work)
                await store.enqueue([NewJob("c", "work")])

        asyncio.run(main())
        """,
    )


def test_a_child_is_told_not_to_open_what_its_parent_had_open(tmp_path):
    play(
        tmp_path / "a.db",
        """
        async def main():
            async with store:

                def work():
                    asyncio.events._set_running_loop(None)
                    refused(open_another(path), "was open when this process was forked")
                    asyncio.run(open_another(path + ".other"))

                in_a_child(work)

        asyncio.run(main())
        """,
    )


def test_a_child_opens_what_its_parent_had_closed(tmp_path):
    play(
        tmp_path / "a.db",
        """
        import sqlite3

        asyncio.run(open_another(path))
        # Whose descriptor has the number that was ours.
        callers = sqlite3.connect(path)
        assert callers.execute("SELECT count(*) FROM jobs").fetchone() == (1,)

        async def open_again(path):
            async with store:
                await store.enqueue([NewJob("again", "work")])

        in_a_child(lambda: asyncio.run(open_again(path)))
        assert callers.execute("SELECT count(*) FROM jobs").fetchone() == (2,)
        """,
    )
