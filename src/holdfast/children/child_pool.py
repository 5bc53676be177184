"""Child processes of one spec, kept warm between requests and replaced when they are gone."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from holdfast.children.frames import BrokenFrame, FrameKind
from holdfast.children.process import ChildFailed, ChildLost, ChildProcess, ChildSpec
from holdfast.clock import Clock

_log = logging.getLogger("holdfast.children")
_PAUSE = 1.0
"""Seconds before a child is started again where that failed."""
_MOST_LOST = 3
"""Idle children that one request may find gone, beside those that the pool holds."""

T = TypeVar("T")


class NoChildFree(Exception):
    """Every child was busy for as long as a request may wait."""


class ChildPool:
    """Answer requests in child processes, one at a time in each.

    A child is used again unless it was retired, killed or died, and at most `limits.requests`
    times.

    Args:
        spec: what the children serve.
        clock: where time comes from.
        size: most children at once; a request waits for one that is free. None starts one for each
            request that finds none idle.
        ready: how many of `size` are kept started, by `open` at first; None is all of them. The
            others are started when they are needed.
        wait_seconds: how long a request waits.
        idle_seconds: how long a child is kept without a request; None is for ever.
    """

    def __init__(
        self,
        spec: ChildSpec,
        clock: Clock,
        *,
        size: int | None = None,
        ready: int | None = None,
        wait_seconds: float | None = None,
        idle_seconds: float | None = None,
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._size = size
        self._ready = (size or 0) if ready is None else ready
        self._wait_seconds = wait_seconds
        self._idle_seconds = idle_seconds
        self._idle: list[tuple[ChildProcess, float]] = []
        self._all: set[ChildProcess] = set()
        self._starting = 0
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reaping: asyncio.TimerHandle | None = None
        self._closed = False

    async def open(self) -> None:
        """Start the children that are kept ready.

        Raises:
            ChildFailed: one of them could not be started.
        """
        # No start is cancelled for another's failure: it may be just ending its own child.
        starts = (self._start_idle() for _ in range(self._ready))
        for failure in await asyncio.gather(*starts, return_exceptions=True):
            if failure is not None:
                await self.close()
                raise failure

    def warm(self) -> None:
        """Begin to start a child, so that the first request need not wait for it."""
        self._in_background(self._warm())

    async def close(self) -> None:
        """End all children."""
        self._closed = True
        if self._reaping is not None:
            self._reaping.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._idle.clear()
        await asyncio.gather(*(self._end(child) for child in self._all), return_exceptions=True)

    @property
    def idle(self) -> int:
        """How many children wait for a request."""
        return len(self._idle)

    @property
    def confined(self) -> bool:
        """Whether every child has given up files, sockets and processes."""
        return bool(self._all) and all(child.confined for child in self._all)

    def pids(self) -> list[int]:
        """Return the process ids of the children."""
        return sorted(child.pid for child in self._all)

    async def call(
        self,
        request: object,
        read: Callable[[ChildProcess, FrameKind, Any], T],
        files: Sequence[int] = (),
        *,
        begin: Callable[[ChildProcess], None] | None = None,
        timeout: float | None = None,
        progress: Callable[[Any], object] | None = None,
    ) -> T:
        """Return what `read` makes of a child's answer to `request`; see `ChildProcess.call`.

        Args:
            read: gets the child, the kind of its frame and the frame's body. It may retire the
                child, and raise `BrokenFrame` if the answer is invalid.
            begin: called with the child before it gets the request.

        Raises:
            NoChildFree: all were busy for `wait_seconds`.
            ChildFailed: none could be started.
        """
        lost = 0
        while True:
            async with self._child() as child:
                if begin is not None:
                    begin(child)
                try:
                    kind, body = await child.call(
                        request, files, timeout=timeout, progress=progress
                    )
                except ChildLost as error:
                    lost += 1
                    if lost > _MOST_LOST + (self._size or 0):
                        raise ChildFailed("one child process after the other was lost") from error
                    continue
                try:
                    return read(child, kind, body)
                except BrokenFrame as error:
                    raise child.broken(error) from None

    @contextlib.asynccontextmanager
    async def _child(self) -> AsyncIterator[ChildProcess]:
        try:
            async with asyncio.timeout(self._wait_seconds):
                child = await self._obtain()
        except TimeoutError:
            raise NoChildFree(f"no child process was free for {self._wait_seconds} s") from None
        try:
            yield child
        finally:
            self._put(child)

    async def _obtain(self) -> ChildProcess:
        while True:
            while self._idle:
                # The one that was used last: the others may then grow old enough to be ended.
                child, _ = self._idle.pop()
                if child.usable:
                    return child
                self._discard(child)
            if self._size is None or self._missing > 0:
                return await self._start()
            self._changed.clear()
            await self._changed.wait()

    @property
    def _missing(self) -> int:
        return (self._size or 0) - len(self._all) - self._starting

    async def _start(self) -> ChildProcess:
        self._starting += 1
        try:
            child = await ChildProcess.start(self._spec)
        finally:
            self._starting -= 1
            # Where it failed, a request that waits may start one in its place.
            self._changed.set()
        self._all.add(child)
        return child

    async def _start_idle(self) -> None:
        self._put(await self._start())

    def _put(self, child: ChildProcess) -> None:
        self._changed.set()
        if self._closed or not child.usable:
            self._discard(child)
            return
        self._idle.append((child, self._clock.monotonic()))
        if self._reaping is None and self._idle_seconds is not None:
            self._reap_later(self._idle_seconds)

    def _discard(self, child: ChildProcess) -> None:
        self._in_background(self._end(child))

    async def _end(self, child: ChildProcess) -> None:
        await child.close()
        self._all.discard(child)
        self._changed.set()
        while not self._closed and len(self._all) + self._starting < self._ready:
            try:
                await self._start_idle()
            except (ChildFailed, OSError) as error:
                _log.warning("%s; trying again", error)
                await self._clock.sleep_async(_PAUSE)

    async def _warm(self) -> None:
        try:
            await self._start_idle()
        except ChildFailed as error:
            _log.error("%s: %s", self._spec.target, error)

    def _reap_later(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._reaping = loop.call_later(seconds, self._reap, seconds)

    def _reap(self, seconds: float) -> None:
        """End the children that had no request for a while."""
        self._reaping = None
        oldest = self._clock.monotonic() - seconds
        kept = [each for each in self._idle if each[1] > oldest]
        for child, since in self._idle:
            if since <= oldest:
                self._discard(child)
        self._idle = kept
        if self._idle:
            self._reap_later(seconds)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
