"""Threads for handlers that block.

Python cannot stop a thread from outside, and what comes near to it (an exception raised in the
thread) waits for as long as the thread is blocked and can keep a traced event loop from going on.
So a handler here is only asked to stop, through its context. One that does not listen keeps its
thread, and its worker counts the slot as taken until it returns; it is a daemon, so that it does
not keep the process from ending. Work that must be stopped belongs in a child process.
"""

import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import Callable
from typing import Any


def end_copy(process: int) -> None:
    """End this process if it is not `process` but a copy that a handler forked and came back from.

    It would go on as a second worker, with the leases and the connections of the first.
    """
    if os.getpid() != process:
        os._exit(70)


class Call:
    """One function call on a thread, and the future that its event loop awaits."""

    __slots__ = ("_loop", "_run", "future")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()
        context = contextvars.copy_context()
        self._run: Callable[[], Any] = lambda: context.run(function, *arguments)

    def ask(self, reason: object) -> None:
        """Do nothing: the handler's context says it already."""

    def strike(self) -> None:
        """Do nothing: a thread cannot be ended."""

    def make(self) -> tuple[Any, BaseException | None]:
        """Make the call on this thread; return its value, or what it raised."""
        process = os.getpid()
        try:
            return self._run(), None
        except BaseException as raised:
            # The error holds this frame, and the call's future is about to hold the error: in such
            # a circle all that the handler had in its hands would stay until the collector comes.
            del self
            return None, raised
        finally:
            end_copy(process)

    def tell(self, value: Any, error: BaseException | None) -> None:
        """Tell the event loop how the call ended."""
        try:
            self._loop.call_soon_threadsafe(self._settle, value, error)
        except RuntimeError:
            # The loop is closed: nobody waits for the answer any more.
            return

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        elif isinstance(error, StopIteration | GeneratorExit):
            # Either would end the coroutine that awaits it.
            name = type(error).__name__
            self.future.set_exception(RuntimeError(f"the handler raised {name}"))
        else:
            self.future.set_exception(error)


class Threads:
    """Daemon threads, made when they are needed and kept until `close`.

    There are never more than calls at a time: whoever calls bounds that.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._alive = 0

    @property
    def alive(self) -> int:
        """How many threads there are, busy and idle."""
        return self._alive

    def start(self, function: Callable[..., Any], *arguments: Any) -> Call:
        """Begin `function(*arguments)` on a thread, with a copy of the context variables."""
        call = Call(function, arguments)
        with self._lock:
            needs_thread = self._idle == 0
            if needs_thread:
                self._alive += 1
            else:
                self._idle -= 1
        if needs_thread:
            threading.Thread(target=self._main, name=self._name, daemon=True).start()
        self._calls.put(call)
        return call

    def close(self) -> None:
        """Let idle threads end; busy ones end after their call."""
        with self._lock:
            alive, self._idle = self._alive, 0
        for _ in range(alive):
            self._calls.put(None)

    def _main(self) -> None:
        while (call := self._calls.get()) is not None:
            value, error = call.make()
            # Idle before anybody hears of it: the next call then finds this thread.
            with self._lock:
                self._idle += 1
            call.tell(value, error)
            del call, value, error
        with self._lock:
            self._alive -= 1
