"""A clock that moves only when code sleeps on it, for sync and async code."""

from __future__ import annotations

import asyncio
import math
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.clock import CallCutOff
from holdfast.testing.virtual_loop import VirtualLoop

__all__ = ["VirtualClock"]

T = TypeVar("T")

START_WALL = 1_700_000_000.0


class VirtualClock:
    """Deterministic time that implements `holdfast.clock.Clock`; all times are seconds.

    In sync code a sleep moves time forward at once. Sleeps of several threads add up in any order,
    so a test with threads ends at the same time in every run. In async code under `run`, time jumps
    to the next timer when the loop is idle: a thousand tasks that sleep for a second concurrently
    take one second.

    `sleeps` lists every duration passed to `sleep` and `sleep_async`, in order.
    """

    def __init__(
        self, start_wall: float = START_WALL, start: float = 0.0, *, io_grace: float = 0.0
    ) -> None:
        """Begin at `start_wall` seconds since the epoch and `start` monotonic seconds.

        `io_grace` is how many real seconds a loop of this clock waits for its sockets, if it has
        any, before it jumps to the next timer. With the default of 0 a timer fires before an answer
        that has not arrived yet; use about 0.05 for a client with timeouts and a real local server.
        """
        if not io_grace >= 0:
            raise ValueError(f"io_grace must be 0 or more seconds, got {io_grace!r}")
        self.sleeps: list[float] = []
        self._now = float(start)
        self._epoch = start_wall - start
        self._io_grace = io_grace
        self._lock = threading.Lock()
        self._local = threading.local()
        self._loops: weakref.WeakSet[VirtualLoop] = weakref.WeakSet()

    def __repr__(self) -> str:
        return f"VirtualClock(monotonic={self._now!r}, wall={self.wall()!r})"

    def wall(self) -> float:
        """Return the virtual time of day as seconds since the epoch."""
        return self._epoch + self._now

    def monotonic(self) -> float:
        """Return the virtual monotonic time in seconds."""
        return self._now

    def step_wall(self, seconds: float) -> None:
        """Set the time of day forward, or back if negative, as a correction by NTP would."""
        with self._lock:
            self._epoch += seconds

    def advance(self, seconds: float) -> None:
        """Move time forward by `seconds` without a sleep."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"seconds must be finite and 0 or more, got {seconds!r}")
        with self._lock:
            self._now += seconds
        self._notify_loops()

    def advance_to(self, moment: float) -> None:
        """Move time forward until `monotonic()` is `moment`, which must not be in the past."""
        with self._lock:
            if not self._now <= moment < math.inf:
                raise ValueError(f"moment must be finite and not before {self._now!r}: {moment!r}")
            self._now = moment
        self._notify_loops()

    def sleep(self, seconds: float) -> None:
        """Move time forward by `seconds` at once; zero or less changes nothing."""
        self.sleeps.append(seconds)
        self._pass(lambda now: now + max(seconds, 0.0))

    async def sleep_async(self, seconds: float) -> None:
        """Suspend the calling task for `seconds` of virtual time.

        On another event loop, move time forward at once and yield: concurrent sleeps add up there,
        as with threads.
        """
        self.sleeps.append(seconds)
        if self.owns(asyncio.get_running_loop()):
            await asyncio.sleep(seconds)
        else:
            self._pass(lambda now: now + max(seconds, 0.0))
            await asyncio.sleep(0)

    def call_within(self, seconds: float, operation: Callable[[], T]) -> T:
        """Return `operation()`, or raise `CallCutOff` once it has run for `seconds`.

        The operation runs on the calling thread. A sleep in it that reaches the cut-off moves
        time exactly there and unwinds the operation with a private `BaseException`; of nested
        cut-offs the earliest does so, and the outermost of equals, as in asyncio. Late is late:
        an operation that returns or fails at the cut-off or after it, because time was advanced
        meanwhile, is cut off as well, and its error becomes the cause. An operation that blocks
        for real is not cut off: nothing moves this clock then.
        """
        if math.isnan(seconds):
            raise ValueError(f"seconds must be a number, got {seconds!r}")
        if seconds <= 0:
            raise CallCutOff("cut off before it began: no time was left")
        cut = _CutOff(self._now + seconds)
        cuts = self._cuts()
        cuts.append(cut)
        try:
            value = operation()
        except _Unwind as unwind:
            if unwind.cut is not cut:
                raise
            raise CallCutOff(f"cut off after {seconds:g} s") from None
        except Exception as error:
            if self._now >= cut.at:
                raise CallCutOff(f"cut off after {seconds:g} s") from error
            raise
        finally:
            cuts.remove(cut)
        if self._now >= cut.at:
            raise CallCutOff(f"cut off after {seconds:g} s")
        return value

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end on a fresh event loop whose time is this clock."""
        with asyncio.Runner(loop_factory=self.loop_factory) as runner:
            return runner.run(main)

    def loop_factory(self) -> VirtualLoop:
        """Return a new event loop whose time is this clock, for `asyncio.Runner` and plugins."""
        loop = VirtualLoop(self.monotonic, self._jump_to, self._io_grace)
        with self._lock:
            self._loops.add(loop)
        return loop

    def owns(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Say whether `loop` was made by `loop_factory` of this clock."""
        return loop in self._loops

    def _jump_to(self, moment: float) -> None:
        self._pass(lambda now: max(now, moment))

    def _pass(self, target_from: Callable[[float], float]) -> None:
        """Move time to the target, or to a cut-off of this thread on the way and unwind there."""
        cuts = self._cuts()
        with self._lock:
            target = target_from(self._now)
            cut = min(
                (cut for cut in cuts if not cut.spent and cut.at <= target),
                key=lambda cut: cut.at,
                default=None,
            )
            if cut is not None:
                # Spent, so that clean-up code may sleep while the operation unwinds.
                cut.spent = True
                target = max(self._now, cut.at)
            elif not math.isfinite(target):
                raise ValueError("a sleep that never ends needs a cut-off around it")
            self._now = target
        self._notify_loops()
        if cut is not None:
            raise _Unwind(cut)

    def _notify_loops(self) -> None:
        if self._loops:
            with self._lock:
                loops = list(self._loops)
            for loop in loops:
                loop.time_moved()

    def _cuts(self) -> list[_CutOff]:
        cuts: list[_CutOff] | None = getattr(self._local, "cuts", None)
        if cuts is None:
            cuts = self._local.cuts = []
        return cuts


class _CutOff:
    __slots__ = ("at", "spent")

    def __init__(self, at: float) -> None:
        self.at = at
        self.spent = False


class _Unwind(BaseException):
    def __init__(self, cut: _CutOff) -> None:
        super().__init__("cut off")
        self.cut = cut
