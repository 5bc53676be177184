"""Carry out the steps of a guarded call: once for blocking operations, once for asynchronous ones.

Only the doing is here; every decision is in `call.py`. Cancellation, KeyboardInterrupt and
SystemExit pass straight through, and closing the steps returns whatever permits were held.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar, cast

from holdfast.clock import CallCutOff, Clock
from holdfast.resilience.call import (
    AttemptResult,
    AttemptStep,
    GateTurn,
    Pause,
    Reply,
    Reserve,
    Steps,
)
from holdfast.resilience.checks import (
    MisusedOperationError,
    refuse_coroutine,
    require_awaitable,
)
from holdfast.resilience.limits import AbandonedThreads
from holdfast.resilience.result import RetryResult
from holdfast.time_limit import TimeLimit

T = TypeVar("T")


def drive(
    steps: Steps[T], operation: Callable[[], T], clock: Clock, abandoned: AbandonedThreads
) -> RetryResult[T]:
    """Carry out `steps` for a blocking operation; count a thread that is left in `abandoned`."""
    reply: Reply = None
    with closing(steps):
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                # The frames of failed attempts lead here: hold nothing that holds their errors.
                reply = None
                return cast(RetryResult[T], end.value)
            if isinstance(step, AttemptStep):
                reply = _attempt(operation, step.seconds, clock, abandoned)
            elif isinstance(step, Pause):
                clock.sleep(step.seconds)
                reply = None
            elif isinstance(step, Reserve):
                reserve = partial(step.rate.reserve_sync, step.longest)
                reply = _attempt(reserve, step.seconds, clock, abandoned)
            else:
                reply = _wait_for_turn(step)


def _attempt(
    operation: Callable[[], T], seconds: float | None, clock: Clock, abandoned: AbandonedThreads
) -> AttemptResult[T]:
    limit = TimeLimit(seconds, clock.monotonic)
    try:
        with limit:
            if seconds is None:
                value = operation()
            else:
                value = abandoned.call_within(clock, seconds, operation)
        refuse_coroutine(value)
        return AttemptResult(cut=True) if limit.over else AttemptResult(value)
    except MisusedOperationError:
        raise
    except Exception as error:
        # Late is late: an operation that ends because it is cancelled has no result to count.
        cut = limit.over or (seconds is not None and isinstance(error, CallCutOff))
        return AttemptResult(cut=True) if cut else AttemptResult(error=error)


def _wait_for_turn(step: GateTurn) -> bool:
    # Unlike an Event it may be set in the middle of its own waiting, by a signal handler.
    granted: SimpleQueue[None] = SimpleQueue()
    try:
        ticket = step.gate.queue(step.holder, lambda: granted.put(None))
        try:
            granted.get(timeout=step.seconds)
        except Empty:
            return not step.gate.withdraw(ticket)
        return True
    except BaseException:
        step.gate.give_up(step.holder)
        raise


async def drive_async(
    steps: Steps[T], operation: Callable[[], Awaitable[T]], clock: Clock
) -> RetryResult[T]:
    """Carry out `steps` for an asynchronous operation."""
    reply: Reply = None
    with closing(steps):
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                # The frames of failed attempts lead here: hold nothing that holds their errors.
                reply = None
                return cast(RetryResult[T], end.value)
            if isinstance(step, AttemptStep):
                reply = await _attempt_async(operation, step.seconds, clock)
            elif isinstance(step, Pause):
                await clock.sleep_async(step.seconds)
                reply = None
            elif isinstance(step, Reserve):
                reserve = partial(step.rate.reserve, step.longest)
                reply = await _attempt_async(reserve, step.seconds, clock)
            else:
                reply = await _wait_for_turn_async(step)


async def _attempt_async(
    operation: Callable[[], Awaitable[T]], seconds: float | None, clock: Clock
) -> AttemptResult[T]:
    limit, timer = TimeLimit(seconds, clock.monotonic), asyncio.timeout(seconds)
    try:
        with limit:
            async with timer:
                awaitable = operation()
                require_awaitable(awaitable)
                value = await awaitable
        return AttemptResult(cut=True) if limit.over or timer.expired() else AttemptResult(value)
    except MisusedOperationError:
        raise
    except Exception as error:
        cut = limit.over or timer.expired()
        return AttemptResult(cut=True) if cut else AttemptResult(error=error)
    finally:
        # The error's traceback holds this frame, and the timer the task whose result it may be.
        del timer


async def _wait_for_turn_async(step: GateTurn) -> bool:
    loop = asyncio.get_running_loop()
    granted = asyncio.Event()
    try:
        ticket = step.gate.queue(step.holder, lambda: _wake(loop, granted))
        try:
            async with asyncio.timeout(step.seconds):
                await granted.wait()
        except TimeoutError:
            return not step.gate.withdraw(ticket)
        return True
    except BaseException:
        step.gate.give_up(step.holder)
        raise


def _wake(loop: asyncio.AbstractEventLoop, granted: asyncio.Event) -> None:
    # The loop of a waiting task may be closed; the call that leaves its turn must not fail by it.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(granted.set)
