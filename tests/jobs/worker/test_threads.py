"""Threads for handlers: used again, told apart by their futures, never keeping a loop."""

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from holdfast.jobs.worker.threads import Threads

VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")


def test_answers_and_errors_come_back_and_threads_are_used_again():
    async def go():
        threads = Threads("t")
        assert await threads.start(lambda a, b: a + b, 1, 2).future == 3
        with pytest.raises(ZeroDivisionError):
            await threads.start(lambda: 1 / 0).future
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.start(next, iter(())).future
        name = await threads.start(lambda: threading.current_thread().name).future
        assert (name, threads.alive) == ("t", 1)
        threads.close()
        while threads.alive:
            await asyncio.sleep(0.001)

    asyncio.run(go())


def test_calls_at_a_time_have_a_thread_each():
    async def go():
        threads, both = Threads("t"), threading.Barrier(2, timeout=10)
        await asyncio.gather(*(threads.start(both.wait).future for _ in range(2)))
        assert threads.alive == 2
        threads.close()

    asyncio.run(go())


def test_context_variables_come_along_and_what_is_set_stays_there():
    def change():
        before = VARIABLE.get()
        VARIABLE.set("inside")
        return before

    async def go():
        threads = Threads("t")
        VARIABLE.set("outside")
        assert await threads.start(change).future == "outside"
        assert VARIABLE.get() == "outside"
        threads.close()

    asyncio.run(go())


def test_an_answer_for_nobody_is_dropped():
    release = threading.Event()

    async def go():
        threads = Threads("t")
        call = threads.start(release.wait, 10)
        call.ask("timeout")
        call.strike()
        call.future.cancel()
        release.set()
        await asyncio.sleep(0.05)
        release.clear()
        threads.start(release.wait, 10)
        threads.close()
        return threads

    threads = asyncio.run(go())
    # The loop is closed by now, and the thread finds nobody to tell.
    release.set()
    for _ in range(1000):
        if not threads.alive:
            break
        threading.Event().wait(0.005)
    assert threads.alive == 0


def test_a_copy_that_a_function_forks_and_comes_back_from_is_ended():
    program = """
import asyncio, os
from holdfast.jobs.worker.threads import Threads

async def go():
    copy = await Threads("t").start(os.fork).future
    print(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]))

asyncio.run(go())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "70\n", done.stderr
