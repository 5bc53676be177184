"""A forked child cannot use or harm its parent's SQLite store."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress

from holdfast.jobs.model import NewJob
from holdfast.store.sqlite.store import SQLiteStore

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

_PRELUDE = """
import asyncio, gc, os, sys, traceback
import apsw
from holdfast import App, Engine
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import StoreError
from holdfast.store.sqlite.store import SQLiteStore

def in_a_child(work):
    child = os.fork()
    if child == 0:
        asyncio.events._set_running_loop(None)
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def refused(call, words):
    try:
        call()
    except StoreError as error:
        assert words in str(error), error
        assert "start the child with spawn" in str(error), error
    else:
        raise AssertionError("was not refused")

def refused_coroutine(work, words):
    refused(lambda: asyncio.run(work), words)

async def open_another(path):
    async with SQLiteStore(path) as store:
        await store.enqueue([NewJob("child", "work")])

def check_integrity():
    db = apsw.Connection(path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()

path = sys.argv[1]
store = SQLiteStore(path)
"""


def play(path, script):
    """Run `script` in a new process, after the prelude."""
    command = [sys.executable, "-c", _PRELUDE + textwrap.dedent(script), str(path)]
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
        os.kill(child, 0)  # the child is still there
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_every_way_into_an_inherited_store_is_refused_in_the_child(tmp_path):
    play(
        tmp_path / "a.db",
        """
        async def main():
            async with store:
                await store.get("a")
                heartbeats = store.heartbeats()
                own = apsw.Connection(path)
                own.execute("BEGIN")

                def work():
                    for coroutine in (
                        store.enqueue([NewJob("b", "work")]),
                        store.enqueue_on(own, [NewJob("b", "work")]),
                        store.get("a"),
                        store.tick("w"),
                        store.wait_for_work(0, 600),
                        store.wait_for_changes(0, 600),
                        heartbeats.extend([], 1.0),
                        store.open(),
                        store.close(),
                    ):
                        refused_coroutine(coroutine, f"opened by process {os.getppid()}")

                in_a_child(work)
                own.close()
                await store.enqueue([NewJob("c", "work")])
                assert [job.id for job in (await store.list_jobs()).jobs] == ["c"]

        asyncio.run(main())
        check_integrity()
        """,
    )


def test_an_inherited_blocking_engine_is_refused_in_the_child_and_goes_on_in_the_parent(tmp_path):
    play(
        tmp_path / "a.db",
        """
        app = App("shop")

        @app.job()
        def ship(ctx, number: int) -> int:
            return number

        with Engine(f"sqlite:///{path}", apps=[app]).blocking() as engine:

            def work():
                refused(lambda: engine.enqueue(ship, 1), "before this process was forked")
                refused(engine.close, "before this process was forked")

            in_a_child(work)
            handle = engine.enqueue(ship, 2)
            engine.work(until_idle=True)
            assert engine.result(handle) == 2
        """,
    )


def test_a_child_that_exits_in_the_middle_of_the_parents_transaction_changes_nothing(tmp_path):
    """The child destroys its objects, connections included, as programs do at exit."""
    play(
        tmp_path / "a.db",
        """
        import subprocess, threading

        runner = asyncio.Runner()
        runner.run(store.open())
        runner.run(store.enqueue([NewJob("before", "work")]))
        runner.run(store.get("before"))
        half, go = threading.Event(), threading.Event()

        def wait_in_the_middle(tx):
            # Pages that do not fit the cache go to the log before the commit.
            tx.db.execute("PRAGMA cache_size = 2").fetchall()
            tx.db.execute("CREATE TABLE mine (x)")
            fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
            tx.db.execute(fill + "INSERT INTO mine SELECT printf('%01000d', i) FROM n")
            half.set()
            assert go.wait(60)

        writing = store._writer.submit(wait_in_the_middle)
        assert half.wait(60)
        log = os.path.getsize(path + "-wal")
        assert log > 1_000_000
        if not os.fork():
            runner.close = lambda: None  # its event loop is the parent's
            del store
            gc.collect()
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        assert os.path.getsize(path + "-wal") == log
        code = "import apsw, sys; apsw.Connection(sys.argv[1]).execute('BEGIN IMMEDIATE')"
        other = [sys.executable, "-c", code, path]
        locked = subprocess.run(other, capture_output=True, text=True)
        assert "BusyError" in locked.stderr, locked.stderr
        go.set()
        writing.result(60)
        runner.run(store.enqueue([NewJob("after", "work")]))
        assert len(runner.run(store.list_jobs()).jobs) == 2
        runner.run(store.close())
        runner.close()
        db = apsw.Connection(path)
        assert db.execute("SELECT count(*), sum(x) FROM mine").fetchall() == [(2000, 2001000)]
        check_integrity()
        """,
    )


def test_a_child_cannot_open_a_file_that_its_parent_has_open(tmp_path):
    play(
        tmp_path / "a.db",
        """
        async def main():
            async with store:

                def work():
                    refused_coroutine(open_another(path), "was open when this process was forked")
                    asyncio.run(open_another(path + ".other"))

                in_a_child(work)

        asyncio.run(main())
        """,
    )


def test_a_child_can_open_a_file_that_its_parent_has_closed(tmp_path):
    play(
        tmp_path / "a.db",
        """
        async def open_and_close():
            async with store:
                await store.enqueue([NewJob("child", "work")])

        asyncio.run(open_and_close())

        async def open_again(path):
            async with store:
                await store.enqueue([NewJob("again", "work")])

        in_a_child(lambda: asyncio.run(open_again(path)))

        async def count():
            async with store:
                assert len((await store.list_jobs()).jobs) == 2

        asyncio.run(count())
        """,
    )
