"""Threads for handlers that block.

Python cannot stop a thread from outside, so a handler here is only asked to stop: through its
context, `holdfast.remaining()` and `holdfast.cancelled()`. One that does not ask is abandoned after
its time: it keeps its thread, and its worker's slot stays taken until it returns, so a worker has
at most as many abandoned threads as slots. Work that must be stopped belongs in a child process.
"""

import asyncio
import contextlib
import contextvars
import os
import sys
from collections.abc import Callable
from typing import Any

from holdfast.cutoff import DaemonThreads


def end_copy(process: int) -> None:
    """End this process if it is not `process` but a copy that a handler forked.

    The copy would go on as a second worker, with the leases and the connections of the first.
    """
    if os.getpid() != process:
        os._exit(70)


class HandlerCall:
    """One call of a handler on a thread, and the future that its event loop awaits."""

    __slots__ = ("_error", "_loop", "_run", "_value", "future")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()
        context = contextvars.copy_context()
        self._run: Callable[[], Any] = lambda: context.run(function, *arguments)
        self._value: Any = None
        self._error: BaseException | None = None

    def request_stop(self, reason: object) -> None:
        """Do nothing: the handler's context says it already."""

    def kill(self) -> None:
        """Do nothing: a thread cannot be ended."""

    def run(self) -> None:
        """Call the handler, and keep what it returns or raises."""
        process = os.getpid()
        try:
            self._value = self._run()
        except BaseException as error:
            self._error = error
            # The traceback holds this frame, which must not hold the error: a reference cycle.
            del self
        finally:
            end_copy(process)

    def announce(self) -> None:
        """Set the outcome on the future, unless its event loop is closed."""
        value, error = self._value, self._error
        self._value = self._error = None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle, value, error)

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        elif issubclass(type(error), StopIteration | GeneratorExit):
            # Either would end the coroutine that awaits it.
            name = type(error).__name__
            self.future.set_exception(RuntimeError(f"the handler raised {name}"))
        else:
            self.future.set_exception(error)


class HandlerThreads:
    """The threads of one worker's handlers, kept until `close`; its slots bound their number."""

    def __init__(self, name: str) -> None:
        self._threads = DaemonThreads(name, max_idle=sys.maxsize)

    def start(self, function: Callable[..., Any], *arguments: Any) -> HandlerCall:
        """Begin `function(*arguments)` on a thread, with a copy of the context variables."""
        call = HandlerCall(function, arguments)
        self._threads.start(call)
        return call

    def close(self) -> None:
        """End idle threads now, and busy ones after their call."""
        self._threads.close()
