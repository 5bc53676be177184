"""One file, read in ranges of pages by one child process or by several at once.

The ranges depend on the document alone, so the same bytes give the same XML however many children
read them.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from holdfast_conversion.gateway.formats import Mapping, PagesRead
from holdfast_conversion.gateway.gateway_settings import ReaderLimits
from holdfast_conversion.gateway.rejections import Reason, Rejection
from holdfast_conversion.gateway.scratch import ScratchFile

_LEAST_PAGES = 8
"""Pages of a range at the least: a document of no more is read as a whole."""
_LARGE_FILE = 256 * 1024
"""Bytes from which on a file is likely to have many pages. The first range is then one page: others
begin when it is read, and how many pages there are is known."""
_LONG_RANGE = 32
_SHARE_BEFORE = 8
_SHARE_LEFT = 4
"""A range holds a quarter of the pages that are left, so that the last are short and all children
end at about one time. It is never longer than `_LONG_RANGE`, or an eighth of the pages before it if
that is more: each opens the document anew, so a long document has few of them; and a child is soon
free for other files."""


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """Pages that a child is to read: from index `first` to before `stop`, or to the last.

    It may compute for `cpu_seconds`.
    """

    mapping: Mapping
    first: int
    stop: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class RangeRead(PagesRead):
    """What was read for a `RangeRequest`, and the computing time that it took."""

    cpu_seconds: float


ReadRange = Callable[[RangeRequest, ScratchFile], Coroutine[Any, Any, RangeRead]]
"""Let a child read a range and write its XML into a file. Raises `Rejection`."""


class FileReading:
    """Read one file of `size` bytes into `target`, range by range with `read_range`.

    `may_help` says whether one child more may take a range, and is asked before each.
    """

    def __init__(
        self,
        mapping: Mapping,
        size: int,
        target: ScratchFile,
        limits: ReaderLimits,
        read_range: ReadRange,
        may_help: Callable[[], bool],
    ) -> None:
        self._mapping = mapping
        self._target = target
        self._limits = limits
        self._read_range = read_range
        self._may_help = may_help
        self._least = limits.caps.pages if mapping is Mapping.METADATA else _LEAST_PAGES
        self._first = 1 if size >= _LARGE_FILE and mapping is not Mapping.METADATA else self._least
        self._next = 0
        self._pages = 1  # until the first range is read
        self._readable = False
        self._cpu_seconds = 0.0
        self._appended = 0
        """The first page whose XML is not in `target` yet."""
        self._parts: dict[int, tuple[int, ScratchFile]] = {}
        """The XML of ranges that were read before an earlier one, by their first page."""
        self._failures: dict[int, Rejection] = {}

    async def run(self) -> None:
        """Read all pages.

        Raises:
            Rejection: there is no XML; the reason is that of the first range that has one.
        """
        helpers: list[asyncio.Task[None]] = []
        try:
            await self._read_next()
            while self._more:
                if self._may_help():
                    helpers.append(asyncio.create_task(self._help()))
                await self._read_next()
            await asyncio.gather(*helpers)
        finally:
            for task in helpers:
                task.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
        if self._failures:
            raise self._failures[min(self._failures)]
        PagesRead(self._pages, self._readable).check_readable()

    @property
    def _more(self) -> bool:
        return self._next < self._pages and not self._failures

    async def _help(self) -> None:
        while self._more and self._may_help():
            await self._read_next()

    async def _read_next(self) -> None:
        first = self._next
        self._next = first + self._length(first)
        try:
            await self._read(first, self._next)
        except Rejection as refusal:
            # An earlier range that is still being read may be refused too, and then tells why.
            self._failures[first] = refusal

    def _length(self, first: int) -> int:
        """Return how many pages the range from page `first` on holds, or more if it is the last."""
        if first == 0:
            return self._first
        longest = max(_LONG_RANGE, first // _SHARE_BEFORE)
        return max(self._least, min(longest, (self._pages - first) // _SHARE_LEFT))

    async def _read(self, first: int, stop: int) -> None:
        most_seconds = self._limits.cpu_seconds
        request = RangeRequest(self._mapping, first, stop, most_seconds - self._cpu_seconds)
        with _storage_errors():
            file = ScratchFile() if first else self._target
        read = await self._read_range(request, file)
        self._pages = read.pages
        self._readable = self._readable or read.readable
        self._cpu_seconds += read.cpu_seconds
        if self._cpu_seconds >= most_seconds:
            raise Rejection(Reason.OUT_OF_CPU)
        self._parts[first] = stop, file
        self._append()

    def _append(self) -> None:
        """Append the XML of the pages that follow those in `target`, as far as it is there."""
        while self._appended in self._parts:
            self._appended, file = self._parts.pop(self._appended)
            more = 0 if file is self._target else file.size
            if self._target.size + more > self._limits.caps.output_bytes:
                raise Rejection(Reason.OUTPUT_TOO_LARGE)
            if more:
                with _storage_errors():
                    file.copy_to(self._target)


@contextlib.contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Rejection(Reason.STORAGE, str(error.strerror)) from None
