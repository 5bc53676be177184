"""A few children, started before they are needed and replaced when they are worn or dead."""

import asyncio
import contextlib
import logging

from holdfast import Clock
from holdfast_conversion.gateway.children.process import ChildLost, ChildProcess
from holdfast_conversion.gateway.formats import Mapping
from holdfast_conversion.gateway.refusals import Reason, Refusal
from holdfast_conversion.gateway.settings import Limits

_log = logging.getLogger(__name__)
_PAUSE_AFTER_FAILED_START = 1.0


class ChildPool:
    """Keep `size` children ready. Use it as an async context manager."""

    def __init__(self, size: int, limits: Limits, clock: Clock) -> None:
        self._size = size
        self._limits = limits
        self._clock = clock
        self._idle: asyncio.Queue[ChildProcess] = asyncio.Queue()
        self._all: set[ChildProcess] = set()
        self._starts: set[asyncio.Task[None]] = set()
        self._closed = False
        self.given = 0
        """How many files have been given to a child so far."""

    async def __aenter__(self) -> "ChildPool":
        try:
            async with asyncio.TaskGroup() as starting:
                for _ in range(self._size):
                    starting.create_task(self._start_one())
        except* ChildLost as lost:
            self.close()
            raise lost.exceptions[0] from None
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @property
    def size(self) -> int:
        """How many children there are when all is well."""
        return self._size

    @property
    def idle(self) -> int:
        """How many children wait for a file."""
        return self._idle.qsize()

    @property
    def confined(self) -> bool:
        """Whether every child has given up files, sockets and processes."""
        return bool(self._all) and all(child.confined for child in self._all)

    def pids(self) -> list[int]:
        """Return the process ids of the children."""
        return sorted(child.pid for child in self._all)

    async def convert(self, source: int, mapping: Mapping, target: int) -> None:
        """Convert with the next idle child; wait for one as long as a conversion may take.

        Raises:
            Refusal: there is no XML; the reason says why.
        """
        self.given += 1
        for _ in range(self._size + 1):
            child = await self._take()
            try:
                return await child.convert(source, mapping, target)
            except ChildLost as lost:
                _log.warning("a child process was lost: %s", lost)
            finally:
                if child.is_usable and not self._closed:
                    self._idle.put_nowait(child)
                else:
                    self._replace(child)
        raise Refusal(Reason.STOPPED, "one child after the other was lost")

    def close(self) -> None:
        """End every child."""
        self._closed = True
        for task in self._starts:
            task.cancel()
        for child in list(self._all):
            child.kill()
        self._all.clear()

    async def _take(self) -> ChildProcess:
        try:
            async with asyncio.timeout(self._limits.wall_seconds):
                while True:
                    child = await self._idle.get()
                    if child.is_usable:
                        return child
                    self._replace(child)
        except TimeoutError:
            raise Refusal(Reason.BUSY, "no child became free") from None

    def _replace(self, child: ChildProcess) -> None:
        child.kill()
        self._all.discard(child)
        if not self._closed:
            task = asyncio.create_task(self._start_until_done())
            self._starts.add(task)
            task.add_done_callback(self._starts.discard)

    async def _start_until_done(self) -> None:
        while not self._closed:
            with contextlib.suppress(ChildLost, OSError):
                await self._start_one()
                return
            _log.warning("a child process could not be started; trying again")
            await self._clock.sleep_async(_PAUSE_AFTER_FAILED_START)

    async def _start_one(self) -> None:
        child = ChildProcess(self._limits)
        self._all.add(child)
        try:
            await child.ready()
        except BaseException:
            child.kill()
            self._all.discard(child)
            raise
        self._idle.put_nowait(child)
