"""Time, as everything in Holdfast sees it.

Code that waits, measures or cuts off is handed a `Clock`; nothing else reads the time. In
production that is `SYSTEM_CLOCK`; tests hand in `holdfast.testing.VirtualClock` and never wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from holdfast.cutoff import CallCutOff, call_within

__all__ = ["SYSTEM_CLOCK", "CallCutOff", "Clock", "SystemClock"]

T = TypeVar("T")


class Clock(Protocol):
    """What Holdfast needs to know about time. All times are seconds."""

    def wall(self) -> float:
        """Return the time of day as seconds since the epoch; it may step back."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; it never steps back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for `seconds`; zero and less return at once."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Suspend the calling task for `seconds`; zero and less yield once."""
        ...

    def call_within(self, seconds: float, operation: Callable[[], T]) -> T:
        """Return `operation()`, or raise `CallCutOff` once it has run for `seconds`.

        What the operation raises reaches the caller unchanged. With no time left
        (`seconds` of zero or less) the operation is not started.
        """
        ...


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    # Bound without a frame of our own: a guarded call reads the time twice and has 2 µs in all.
    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for `seconds`; zero and less return at once."""
        if seconds > 0:
            time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Suspend the calling task for `seconds`; zero and less yield once."""
        await asyncio.sleep(seconds)

    def call_within(self, seconds: float, operation: Callable[[], T]) -> T:
        """Return `operation()`, run on another thread that is abandoned after `seconds`.

        `holdfast.cutoff.call_within` says what happens to an abandoned thread.
        """
        return call_within(seconds, operation)


SYSTEM_CLOCK = SystemClock()
