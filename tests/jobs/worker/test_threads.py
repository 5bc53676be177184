"""Threads for blocking handlers: reused, one future per call, never keeping a loop open."""

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from holdfast.jobs.worker.threads import HandlerThreads

VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")


def test_results_and_errors_are_returned_and_threads_are_reused():
    async def go():
        threads = HandlerThreads("t")
        assert await threads.start(lambda a, b: a + b, 1, 2).future == 3
        with pytest.raises(ZeroDivisionError):
            await threads.start(lambda: 1 / 0).future
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.start(next, iter(())).future
        used = {await threads.start(threading.current_thread).future for _ in range(3)}
        threads.close()
        return used

    (thread,) = asyncio.run(go())
    assert thread.name == "t"
    thread.join(30)
    assert not thread.is_alive()


def test_calls_at_a_time_have_a_thread_each():
    async def go():
        threads, both = HandlerThreads("t"), threading.Barrier(2, timeout=10)
        await asyncio.gather(*(threads.start(both.wait).future for _ in range(2)))
        threads.close()

    asyncio.run(go())


def test_context_variables_are_copied_and_changes_stay_in_the_thread():
    def change():
        before = VARIABLE.get()
        VARIABLE.set("inside")
        return before

    async def go():
        threads = HandlerThreads("t")
        VARIABLE.set("outside")
        assert await threads.start(change).future == "outside"
        assert VARIABLE.get() == "outside"
        threads.close()

    asyncio.run(go())


def test_the_answer_to_a_cancelled_future_is_dropped():
    release = threading.Event()

    async def go():
        threads = HandlerThreads("t")
        call = threads.start(release.wait, 30)
        call.request_stop("timeout")
        call.kill()
        call.future.cancel()
        release.set()
        # The same thread is idle again only after that call.
        assert await threads.start(lambda: "next").future == "next"
        threads.close()

    asyncio.run(go())


def test_an_answer_after_the_loop_was_closed_is_dropped():
    release, seen = threading.Event(), []

    def handler():
        seen.append(threading.current_thread())
        release.wait(30)

    async def go():
        threads = HandlerThreads("t")
        threads.start(handler)
        while not seen:
            await asyncio.sleep(0.001)
        threads.close()

    asyncio.run(go())
    release.set()
    seen[0].join(30)
    assert not seen[0].is_alive()


def test_a_forked_copy_of_the_process_that_returns_from_the_function_is_ended():
    program = """
import asyncio, os
from holdfast.jobs.worker.threads import HandlerThreads

async def go():
    copy = await HandlerThreads("t").start(os.fork).future
    print(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]))

asyncio.run(go())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "70\n", done.stderr
