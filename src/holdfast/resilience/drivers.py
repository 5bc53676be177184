"""Carry out the steps of a guarded call: once for blocking operations, once for asynchronous ones.

Only the doing is here; every decision is in `call.py`. Cancellation, KeyboardInterrupt and
SystemExit pass straight through, and closing the steps returns whatever permits were held.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from threading import Event
from typing import TypeVar

from holdfast.clock import CallCutOff, Clock
from holdfast.resilience.call import Attempt, Outcome, Pause, Step, Steps, Turn
from holdfast.resilience.checks import (
    MisusedOperationError,
    refuse_coroutine,
    require_awaitable,
)
from holdfast.resilience.result import RetryResult

T = TypeVar("T")


def drive(steps: Steps[T], operation: Callable[[], T], clock: Clock) -> RetryResult[T]:
    """Carry out `steps` for a blocking operation."""
    reply: Outcome[T] | bool | None = None
    with closing(steps):
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                result: RetryResult[T] = end.value
                return result
            reply = _do(step, operation, clock)


def _do(step: Step, operation: Callable[[], T], clock: Clock) -> Outcome[T] | bool | None:
    if isinstance(step, Attempt):
        return _attempt(operation, step.seconds, clock)
    if isinstance(step, Pause):
        clock.sleep(step.seconds)
        return None
    return _wait_for_turn(step)


def _attempt(operation: Callable[[], T], seconds: float | None, clock: Clock) -> Outcome[T]:
    try:
        value = operation() if seconds is None else clock.call_within(seconds, operation)
        refuse_coroutine(value)
        return Outcome(value)
    except MisusedOperationError:
        raise
    except CallCutOff as error:
        return Outcome(cut=True) if seconds is not None else Outcome(error=error)
    except Exception as error:
        return Outcome(error=error)


def _wait_for_turn(step: Turn) -> bool:
    granted = Event()
    ticket = step.gate.queue(granted.set)
    try:
        if granted.wait(step.seconds):
            return True
    except BaseException:
        step.gate.give_up(ticket)
        raise
    return not step.gate.withdraw(ticket)


async def drive_async(
    steps: Steps[T], operation: Callable[[], Awaitable[T]], clock: Clock
) -> RetryResult[T]:
    """Carry out `steps` for an asynchronous operation."""
    reply: Outcome[T] | bool | None = None
    with closing(steps):
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                result: RetryResult[T] = end.value
                return result
            if isinstance(step, Attempt):
                reply = await _attempt_async(operation, step.seconds)
            elif isinstance(step, Pause):
                await clock.sleep_async(step.seconds)
                reply = None
            else:
                reply = await _wait_for_turn_async(step)


async def _attempt_async(
    operation: Callable[[], Awaitable[T]], seconds: float | None
) -> Outcome[T]:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            awaitable = operation()
            require_awaitable(awaitable)
            outcome = Outcome(await awaitable)
    except MisusedOperationError:
        raise
    except Exception as error:
        outcome = Outcome(error=error)
    # Late is late, as for a blocking operation, whatever this one made of being cancelled.
    return Outcome(cut=True) if limit.expired() else outcome


async def _wait_for_turn_async(step: Turn) -> bool:
    loop = asyncio.get_running_loop()
    granted = asyncio.Event()
    ticket = step.gate.queue(lambda: _wake(loop, granted))
    try:
        async with asyncio.timeout(step.seconds):
            await granted.wait()
    except TimeoutError:
        return not step.gate.withdraw(ticket)
    except BaseException:
        step.gate.give_up(ticket)
        raise
    return True


def _wake(loop: asyncio.AbstractEventLoop, granted: asyncio.Event) -> None:
    # The loop may have been closed under a waiting task; whoever leaves the gate must not suffer.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(granted.set)
