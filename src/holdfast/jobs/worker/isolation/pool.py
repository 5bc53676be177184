"""Child processes, kept warm between attempts."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

from holdfast.clock import Clock
from holdfast.errors import ErrorCode
from holdfast.jobs.declare.context import CancelReason
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.worker.failure import Trouble, of_code
from holdfast.jobs.worker.isolation.address import address_of
from holdfast.jobs.worker.isolation.limits import ChildOptions
from holdfast.jobs.worker.isolation.process import ChildFailed, ChildProcess
from holdfast.jobs.worker.run import Run

_log = logging.getLogger("holdfast.worker")


class ChildPool:
    """Run attempts of isolated kinds, each in a child that served only its kind before.

    A child is used again unless its attempt was cut, died, or ran out of memory, and at most
    `ChildLimits.jobs` times. There are never more busy ones than attempts at a time.

    Raises:
        ValueError: one of the kinds cannot be found by a child.
    """

    def __init__(self, kinds: Mapping[str, JobKind], options: ChildOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._addresses = {
            name: address_of(kind) for name, kind in kinds.items() if kind.isolation is not None
        }
        self._idle: dict[str, list[tuple[ChildProcess, float]]] = {
            name: [] for name in self._addresses
        }
        self._all: set[ChildProcess] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reaping: asyncio.TimerHandle | None = None
        self._closed = False

    def warm(self) -> None:
        """Begin to start one child for each kind, so that the first attempt need not wait."""
        for name in self._addresses:
            self._in_background(self._warm(name))

    async def execute(self, run: Run) -> str | Trouble:
        """Run an attempt in a child; return its result as JSON text, or what went wrong."""
        name, seat = run.kind.name, _Seat(run)
        run.call, run.waits = seat, True
        try:
            child = await self._take(name)
        except ChildFailed as error:
            run.call = None
            return of_code(ErrorCode.UNKNOWN, str(error))
        finally:
            run.waits = False
        seat.child = child
        if run.cut is None:
            run.count_from(self._clock.monotonic())
        try:
            return await child.run(run)
        finally:
            run.call = None
            self._give_back(name, child)

    async def close(self) -> None:
        """End all children."""
        self._closed = True
        if self._reaping is not None:
            self._reaping.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for idle in self._idle.values():
            idle.clear()
        await asyncio.gather(*(self._end(child) for child in self._all), return_exceptions=True)

    @property
    def idle(self) -> int:
        """How many children wait for work."""
        return sum(len(children) for children in self._idle.values())

    async def _take(self, name: str) -> ChildProcess:
        while self._idle[name]:
            # The one that was used last: the others may then grow old enough to go.
            child, _ = self._idle[name].pop()
            if child.usable:
                return child
            self._discard(child)
        return await self._start(name)

    async def _start(self, name: str) -> ChildProcess:
        limits = self._options.limits_of(name)
        child = await ChildProcess.start(self._addresses[name], limits, self._options.start_seconds)
        self._all.add(child)
        return child

    def _give_back(self, name: str, child: ChildProcess) -> None:
        if self._closed or not child.usable:
            self._discard(child)
            return
        self._idle[name].append((child, self._clock.monotonic()))
        if self._reaping is None:
            self._reap_later()

    def _discard(self, child: ChildProcess) -> None:
        self._in_background(self._end(child))

    async def _end(self, child: ChildProcess) -> None:
        await child.close()
        self._all.discard(child)

    async def _warm(self, name: str) -> None:
        try:
            self._give_back(name, await self._start(name))
        except ChildFailed as error:
            _log.error("%s: %s", name, error)

    def _reap_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._reaping = loop.call_later(self._options.idle_seconds, self._reap)

    def _reap(self) -> None:
        """End children that nobody needed for a while."""
        self._reaping = None
        oldest = self._clock.monotonic() - self._options.idle_seconds
        for name, children in self._idle.items():
            self._idle[name] = [kept for kept in children if kept[1] > oldest]
            for child, since in children:
                if since <= oldest:
                    self._discard(child)
        if self.idle:
            self._reap_later()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Seat:
    """What can be asked of an attempt that waits for a child, or has one."""

    __slots__ = ("_run", "child")

    def __init__(self, run: Run) -> None:
        self._run = run
        self.child: ChildProcess | None = None

    def ask(self, reason: CancelReason) -> None:
        if self.child is not None:
            self.child.ask(reason)
        elif self._run.task is not None:
            # It still waits for its child to start.
            self._run.task.cancel()

    def strike(self) -> None:
        if self.child is not None:
            self.child.kill()
        elif self._run.task is not None:
            with contextlib.suppress(RuntimeError):
                self._run.task.cancel()
