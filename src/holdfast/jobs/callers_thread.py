"""Call back into the thread that waits for a blocking engine.

A blocking engine awaits on an event loop in a thread of its own. A connection that its caller
passes in belongs to the caller's thread: statements on it run there, while that thread waits for
the call. On the engine's thread they would hold up the calls of all other threads, and one that
waits for the lock of another caller's transaction would be a deadlock.
"""

import asyncio
import contextvars
import functools
import queue
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

Requests = queue.SimpleQueue[Callable[[], object] | None]
"""Functions that the waiting thread is to call; None ends its wait."""

_REQUESTS: contextvars.ContextVar[Requests | None] = contextvars.ContextVar(
    "holdfast_callers_thread", default=None
)


def is_waiting() -> bool:
    """Say whether this coroutine is awaited for a thread that waits."""
    return _REQUESTS.get() is not None


async def in_callers_thread(function: Callable[[], T]) -> T:
    """Return `function()`, called in the thread that waits for this coroutine, or here."""
    requests = _REQUESTS.get()
    if requests is None:
        return function()
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    requests.put(functools.partial(_call, function, loop, answer))
    return await answer


async def with_callers_thread(requests: Requests | None, work: Coroutine[Any, Any, T]) -> T:
    """Await `work` in a task of its own; put what it passes to `in_callers_thread` there."""
    _REQUESTS.set(requests)
    return await work


def _call(
    function: Callable[[], T], loop: asyncio.AbstractEventLoop, answer: asyncio.Future[T]
) -> None:
    try:
        value = function()
    except Exception as error:
        loop.call_soon_threadsafe(_settle, answer, None, error)
    else:
        loop.call_soon_threadsafe(_settle, answer, value, None)


def _settle(answer: asyncio.Future[Any], value: object, error: Exception | None) -> None:
    if answer.done():  # the call was cancelled meanwhile
        return
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)
