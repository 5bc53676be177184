"""Await coroutines on an event loop in a thread of its own, from code that is not async."""

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

from holdfast.jobs.callers_thread import Requests, with_callers_thread
from holdfast.jobs.store_port import StoreClosed

T = TypeVar("T")


class EngineThread:
    """Keep an async context manager open in a thread, and await coroutines there.

    Any thread may call it. `loop_factory` makes the event loop of the thread.
    """

    def __init__(
        self,
        opened: AbstractAsyncContextManager[object],
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        self._opened = opened
        self._loop_factory = loop_factory
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        self._lock = threading.Lock()  # so that no call begins after the others were cancelled

    def open(self) -> None:
        """Start the thread and open the context manager."""
        if self._loop is not None:
            raise RuntimeError("the blocking engine is already open")
        self._process = os.getpid()
        self._loop = self._loop_factory()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="holdfast-engine", daemon=True
        )
        self._thread.start()
        try:
            self.run(_awaited(self._opened.__aenter__()))
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """Close the context manager, end the calls of other threads, and end the thread."""
        self._usable_loop()  # closing an inherited event loop in a fork would break the parent's
        try:
            self.run(_awaited(self._opened.__aexit__(None, None, None)))
        finally:
            self._end()

    def run(self, work: Coroutine[Any, Any, T], *, uses_connection: bool = False) -> T:
        """Await `work` in the thread and return its result or raise its exception.

        If the wait is interrupted, `work` is cancelled, and has ended when this raises.

        Args:
            uses_connection: it uses a connection of the calling thread; its statements run here.

        Raises:
            RuntimeError: it is not open, or the caller is in the engine's thread.
            StoreClosed: another thread closed it meanwhile, or this process was forked from the
                one that opened it.
        """
        call, loop = _Call(work, uses_connection), None
        try:
            self._usable_loop()  # before the lock, which another thread may have held at a fork
            with self._lock:
                loop = self._usable_loop()
                loop.call_soon_threadsafe(call.start)
            call.serve()
        except BaseException:
            # A signal may have interrupted any line above, so the task may run or not.
            call.end(loop)
            raise
        return call.result()

    def check_usable(self) -> None:
        """Check that the caller may use what is open here.

        Raises:
            RuntimeError, StoreClosed: as `run`.
        """
        self._usable_loop()

    def _usable_loop(self) -> asyncio.AbstractEventLoop:
        loop = self._loop
        if loop is None:
            raise RuntimeError("open the blocking engine first, with `with` or open()")
        if self._process != os.getpid():
            raise StoreClosed(
                "the engine was opened before this process was forked, and its thread is in the "
                "parent: open the engine in the child only, or start the child with spawn"
            )
        if threading.current_thread() is self._thread:
            raise RuntimeError("in the engine's thread, use the engine itself and await")
        return loop

    def _end(self) -> None:
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:  # another thread ends it
            return
        asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Call(Generic[T]):
    """One call: a thread waits for the task that awaits `work` on the event loop."""

    def __init__(self, work: Coroutine[Any, Any, T], uses_connection: bool) -> None:
        self._work = work
        self._uses_connection = uses_connection
        self._requests: Requests = queue.SimpleQueue()
        self._task: asyncio.Task[T] | None = None

    # -- on the event loop ---------------------------------------------------------------------

    def start(self) -> None:
        """Start the task."""
        requests = self._requests if self._uses_connection else None
        work = with_callers_thread(requests, self._work)
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._ended)

    def _ended(self, _: object) -> None:
        self._work.close()  # cancelled before its first step, the task has not awaited it
        self._requests.put(None)

    def cancel(self) -> None:
        """Cancel the task, or end the call if it was never started."""
        if self._task is not None:
            self._task.cancel()
        else:
            self._work.close()
            self._requests.put(None)

    # -- on the waiting thread -----------------------------------------------------------------

    def serve(self) -> None:
        """Wait for the end of the task, and call what it asks for in this thread."""
        while (function := self._requests.get()) is not None:
            function()

    def end(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Cancel the task on `loop`, None if there is none, and wait for its end."""
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self.cancel)
        except RuntimeError:  # closed meanwhile, which cancelled a task that was started
            loop = None
        if loop is None and self._task is None:
            self._work.close()
            return
        while self._requests.get() is not None:
            continue

    def result(self) -> T:
        """Return or raise the outcome of the task, which has ended."""
        assert self._task is not None
        if self._task.cancelled():
            raise StoreClosed("the blocking engine was closed during this call")
        return self._task.result()


async def _awaited(work: Any) -> object:
    return await work


async def _cancel_others() -> None:
    """Cancel all other tasks of this event loop: threads that wait for them would wait forever."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
