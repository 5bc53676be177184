"""Call one function in confined child processes, with answers in JSON."""

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from holdfast.children.child_limits import ChildLimits
from holdfast.children.child_pool import ChildPool
from holdfast.children.frames import BrokenFrame, FrameKind
from holdfast.children.process import ChildProcess, ChildSpec
from holdfast.clock import Clock

_OPEN_FILES = 64
_START_SECONDS = 60.0
_SHORT = 100_000
"""Bytes; fewer are copied in less time than it takes to wake a thread."""

T = TypeVar("T")


def json_answer(
    read: Callable[[ChildProcess, Any], T],
) -> Callable[[ChildProcess, FrameKind, Any], T]:
    """Return a reader for `ChildPool.call` that gives `read` the child and its decoded answer.

    The answer is broken if it is not JSON, or if `read` raises what a missing or wrong field
    raises: ValueError, KeyError, TypeError or AttributeError.
    """

    def checked(child: ChildProcess, kind: FrameKind, body: Any) -> T:
        try:
            return read(child, json.loads(body if kind is FrameKind.ANSWER else ""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise BrokenFrame("an answer that cannot be read") from None

    return checked


class ConfinedFunction:
    """Call a function in child processes that may open no file, socket or program.

    Children start when they are first needed.

    Args:
        target: as in `ChildSpec`; `load` returns the `request_server` of a function that answers
            in JSON.
        clock: where time comes from.
        limits: what a child may use. It writes no file and has at most 64 open, whatever these say.
        call_seconds: how long one call may take, from when it has a child.
        options: handed to `load`; anything that JSON can say.
        children: most at once; further calls wait for one. None starts one for each call that
            finds none idle.
        idle_seconds: how long a child is kept without a call.
    """

    def __init__(
        self,
        target: str,
        clock: Clock,
        *,
        limits: ChildLimits,
        call_seconds: float,
        options: Any = None,
        children: int | None = None,
        idle_seconds: float = 300.0,
    ) -> None:
        limits = replace(limits, file_bytes=0, open_files=_OPEN_FILES)
        spec = ChildSpec(target, options, limits, confine=True, start_seconds=_START_SECONDS)
        self._pool = ChildPool(spec, clock, size=children, ready=0, idle_seconds=idle_seconds)
        self._call_seconds = call_seconds

    async def call(
        self, request: object, read: Callable[[ChildProcess, Any], T], data: bytes | None = None
    ) -> T:
        """Return what `read` makes of the answer to `request`; see `json_answer`.

        Args:
            request: anything that JSON can say.
            data: given to the function as an open file in memory.

        Raises:
            TimeoutError: it took longer than `call_seconds`, and its child was killed.
            ChildDied: its child died over it.
            ChildFailed: no child could be started.
        """
        reader, seconds = json_answer(read), self._call_seconds
        if data is None:
            return await self._pool.call(request, reader, timeout=seconds)
        short = len(data) < _SHORT
        file = _memory_file(data) if short else await asyncio.to_thread(_memory_file, data)
        try:
            return await self._pool.call(request, reader, [file], timeout=seconds)
        finally:
            os.close(file)

    def pids(self) -> list[int]:
        """Return the process ids of the children."""
        return self._pool.pids()

    async def aclose(self) -> None:
        """End all children."""
        await self._pool.close()


def _memory_file(data: bytes) -> int:
    """Return a descriptor, to be closed, of a file in memory that holds `data`."""
    descriptor = os.memfd_create("request", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
