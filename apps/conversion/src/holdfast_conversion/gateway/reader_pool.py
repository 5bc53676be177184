"""The child processes that read PDFs, so that no file can harm the server.

A child has loaded all it needs before it gets a file, and is then confined. For each file it gets
two open descriptors, the PDF and an empty file for the XML, and says afterwards how it went; the
parent trusts nothing of that without a check. Whatever ends a child, a limit,
the kernel or the file, is an answer to that one request.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from holdfast import Clock
from holdfast.children import (
    BrokenFrame,
    ChildDied,
    ChildFailed,
    ChildLimits,
    ChildPool,
    ChildProcess,
    ChildSpec,
    Death,
    NoChildFree,
    json_answer,
)
from holdfast_conversion.gateway.file_reading import FileReading, RangeRead, RangeRequest
from holdfast_conversion.gateway.formats import Mapping
from holdfast_conversion.gateway.gateway_settings import ReaderLimits, processors
from holdfast_conversion.gateway.rejections import Reason, Rejection
from holdfast_conversion.gateway.scratch import ScratchFile

_START_SECONDS = 60.0
_ANSWER_BYTES = 2048
_OPEN_FILES = 64
_FROM_CHILD = frozenset(
    {
        Reason.EMPTY,
        Reason.NOT_PDF,
        Reason.DAMAGED,
        Reason.ENCRYPTED,
        Reason.CRASHED,
        Reason.OUT_OF_MEMORY,
        Reason.TOO_MANY_PAGES,
        Reason.OUTPUT_TOO_LARGE,
        Reason.STORAGE,
    }
)
"""What a child may say; anything else is taken for a crash."""
_RETIRING = frozenset({Reason.CRASHED, Reason.OUT_OF_MEMORY})
"""After these a child is not trusted with another file."""
_DEATHS = {
    Death.CPU_TIME: Reason.OUT_OF_CPU,
    # Nothing in a file sends SIGTERM: it came from outside.
    Death.TERMINATED: Reason.STOPPED,
    Death.KILLED: Reason.KILLED,
}


class ReaderPool:
    """Read up to `size` PDFs at once, each in a child. Use it as an async context manager.

    While fewer children are busy than there are processors, a long file is read by several of
    them. A file that arrives then does not wait for these: there may be that many children more.
    """

    def __init__(self, size: int, limits: ReaderLimits, clock: Clock) -> None:
        self._limits = limits
        self._places = asyncio.Semaphore(size)
        self._at_once = min(size, processors())
        self._reading = 0
        """How many children are reading now."""
        self.pool = ChildPool(
            _spec(limits),
            clock,
            size=size + self._at_once - 1,
            ready=self._at_once,
            wait_seconds=limits.wait_seconds,
        )
        self.given = 0
        """How many files have been given to a child so far."""

    async def __aenter__(self) -> "ReaderPool":
        await self.pool.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.pool.close()

    async def convert(self, source: ScratchFile, mapping: Mapping, target: ScratchFile) -> None:
        """Convert `source` into `target`.

        The child is free again when this task is cancelled: another one replaces it.

        Raises:
            Rejection: there is no XML; the reason says why.
        """
        self.given += 1

        async def read_range(request: RangeRequest, file: ScratchFile) -> RangeRead:
            return await self._read_range(source, request, file)

        async with self._place():
            reading = FileReading(
                mapping, source.size, target, self._limits, read_range, self._may_help
            )
            try:
                async with asyncio.timeout(self._limits.wall_seconds):
                    await reading.run()
            except TimeoutError:
                raise Rejection(Reason.SLOW) from None

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Wait for one of the places for files."""
        seconds = self._limits.wait_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._places.acquire()
        except TimeoutError:
            raise Rejection(Reason.BUSY, f"no child process was free for {seconds} s") from None
        try:
            yield
        finally:
            self._places.release()

    def _may_help(self) -> bool:
        """Say whether a processor and a child are free for a file that has a child already."""
        return self._reading < self._at_once and self.pool.idle > 0

    async def _read_range(
        self, source: ScratchFile, request: RangeRequest, file: ScratchFile
    ) -> RangeRead:
        def read(child: ChildProcess, fields: Any) -> RangeRead:
            answer = _answer(fields, self._limits.caps.pages)
            if isinstance(answer, RangeRead):
                return answer
            if answer.reason in _RETIRING:
                child.retire()
            raise answer

        self._reading += 1
        try:
            return await self.pool.call(asdict(request), json_answer(read), [source.fd, file.fd])
        except NoChildFree as error:
            raise Rejection(Reason.BUSY, str(error)) from None
        except ChildFailed as error:
            raise Rejection(Reason.STOPPED, str(error)) from None
        except ChildDied as error:
            raise Rejection(_DEATHS.get(error.death, Reason.CRASHED), str(error)) from None
        finally:
            self._reading -= 1


def _spec(limits: ReaderLimits) -> ChildSpec:
    return ChildSpec(
        "holdfast_conversion.gateway.reader_process:load",
        asdict(limits.caps),
        ChildLimits(
            memory_bytes=limits.memory_bytes,
            cpu_seconds=limits.cpu_seconds,
            output_bytes=_ANSWER_BYTES,
            file_bytes=limits.caps.output_bytes,
            open_files=_OPEN_FILES,
            requests=limits.files,
        ),
        confine=True,
        start_seconds=_START_SECONDS,
    )


def _answer(fields: Any, most_pages: int) -> RangeRead | Rejection:
    """Return what a child has read, or why it refused the file."""
    if fields["reason"] is None:
        return _range_read(fields, most_pages)
    reason = Reason[fields["reason"]]
    if reason not in _FROM_CHILD:
        raise BrokenFrame(f"a reason that is not a child's: {reason.name}")
    return Rejection(reason, str(fields.get("detail", "")))


def _range_read(fields: dict[str, Any], most_pages: int) -> RangeRead:
    pages, seconds = fields["pages"], fields["cpu_seconds"]
    if not (isinstance(pages, int) and 1 <= pages <= most_pages and 0 <= seconds < math.inf):
        raise BrokenFrame("pages or seconds that cannot be")
    return RangeRead(pages, fields["readable"] is True, seconds)
