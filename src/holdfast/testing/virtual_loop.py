"""The event loop of `VirtualClock`: asyncio, except that idle time is skipped."""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar, TypeVarTuple

__all__ = ["VirtualLoop"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with virtual time that jumps to the next timer when idle.

    It waits in real time while an executor runs work (`asyncio.to_thread`, name lookups) or if
    there is no timer. So a timeout around such work fires only if the work itself moves the clock.
    Pipes of child processes count as sockets: see `io_grace`.
    """

    def __init__(
        self, now: Callable[[], float], jump_to: Callable[[float], None], io_grace: float
    ) -> None:
        """Take the time in seconds from `now`; `io_grace` is in real seconds."""
        self._now = now
        self._jump_to = jump_to
        self._outside: set[object] = set()
        self._holds: list[Callable[[], bool]] = []
        self._jumper = _JumpingSelector(self, io_grace)
        super().__init__(self._jumper)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now()

    # asyncio runs timers due before now + resolution. One step of the float makes that mean
    # "due now": with more a sleep would end early, with less a timer at this very instant never
    # runs, since adding a fixed nanosecond to a large time changes nothing.
    @property
    def _clock_resolution(self) -> float:
        return math.ulp(self._now())

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None:
        """Ignore the resolution that asyncio measured."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run in a real thread or process; virtual time stands still until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._outside.add(future)
        future.add_done_callback(self._outside.discard)
        return future

    async def shutdown_default_executor(self, *args: Any, **options: Any) -> None:
        """Wait for the executor's threads in real time, without jumping to the timeout."""
        waiting = object()
        self._outside.add(waiting)
        try:
            await super().shutdown_default_executor(*args, **options)
        finally:
            self._outside.discard(waiting)

    @contextmanager
    def held_while(self, holds: Callable[[], bool]) -> Iterator[None]:
        """Let time stand still during the block while `holds()` is true.

        What ends that must wake the loop, as `call_soon_threadsafe` does.
        """
        self._holds.append(holds)
        try:
            yield
        finally:
            self._holds.remove(holds)

    def time_moved(self) -> None:
        """Make a waiting loop check its timers again; called from other threads."""
        if self._jumper.waiting:
            self.call_soon_threadsafe(_nothing)

    def next_timer(self) -> float | None:
        """Return when the next timer is due, in seconds."""
        # asyncio has no public API for it; cancelled timers at the front are removed by now.
        timers: list[asyncio.TimerHandle] = getattr(self, "_scheduled")  # noqa: B009
        return timers[0].when() if timers else None

    def skip_to(self, moment: float | None) -> bool:
        """Move time to `moment`, in seconds; return False if time must not jump now."""
        if moment is None or self._outside or any(holds() for holds in self._holds):
            return False
        self._jump_to(moment)
        return True


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop, io_grace: float) -> None:
        super().__init__()
        self.waiting = False
        self._loop = loop
        self._io_grace = io_grace

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return ready events; without any, jump to the next timer or wait in real time."""
        if timeout is not None and timeout <= 0:
            return super().select(0)
        only_the_wakeup_pipe = len(self.get_map()) <= 1
        events = super().select(0 if only_the_wakeup_pipe else self._io_grace)
        if events:
            return events
        moment = self._loop.next_timer()
        return [] if self._loop.skip_to(moment) else self._wait(moment)

    def _wait(self, moment: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        self.waiting = True
        try:
            # Checked again after `waiting` is set, or a concurrent move of the clock is missed.
            if moment is not None and self._loop.time() >= moment:
                return []
            return super().select(None)
        finally:
            self.waiting = False


def _nothing() -> None:
    """Do nothing, which is enough to wake a loop."""
