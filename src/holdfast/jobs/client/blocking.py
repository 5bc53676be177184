"""Use an engine from code that is not async: run it on an event loop in its own thread."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Self, TypeVar

from holdfast.jobs.store_port import StoreClosed

T = TypeVar("T")


class Blocking:
    """Open an async context manager in a thread with `with`; call it to await coroutines there.

    Thread-safe. Coroutines run in that thread, so a connection passed to them must allow use from
    another thread.
    """

    def __init__(self, opened: AbstractAsyncContextManager[object]) -> None:
        self._opened = opened
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    def __enter__(self) -> Self:
        if self._loop is not None:
            raise RuntimeError("the blocking engine is already open")
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="holdfast-engine", daemon=True
        )
        self._thread.start()
        try:
            self(_awaited(self._opened.__aenter__()))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._usable_loop()  # closing an inherited event loop in a fork would break the parent's
        try:
            self(_awaited(self._opened.__aexit__(None, None, None)))
        finally:
            self._end()

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` in the engine's thread and return its result or raise its exception.

        Raises:
            RuntimeError: it is not open, or the caller is in the engine's thread.
            StoreClosed: this process was forked from the one that opened it.
        """
        try:
            loop = self._usable_loop()
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _usable_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise RuntimeError("open it with `with` first")
        if self._process != os.getpid():
            raise StoreClosed(
                "the engine was opened before this process was forked, and its thread is in the "
                "parent: open the engine in the child only, or start the child with spawn"
            )
        if threading.current_thread() is self._thread:
            raise RuntimeError("in the engine's thread, use await")
        return self._loop

    def _end(self) -> None:
        loop, thread = self._loop, self._thread
        assert loop is not None
        assert thread is not None
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _awaited(work: Any) -> object:
    return await work
