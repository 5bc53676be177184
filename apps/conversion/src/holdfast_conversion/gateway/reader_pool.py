"""The child processes that read PDFs, so that no file can harm the server.

A child has loaded all it needs before it gets a file, and is then confined. For each file it gets
two open descriptors, the PDF and an empty file for the XML, and says afterwards how it went; the
parent trusts nothing of that without a check. Whatever ends a child, a limit,
the kernel or the file, is an answer to that one request.
"""

import json
import os
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
    FrameKind,
    NoChildFree,
)
from holdfast_conversion.gateway.formats import Mapping
from holdfast_conversion.gateway.gateway_settings import ReaderLimits, processors
from holdfast_conversion.gateway.rejections import Reason, Rejection

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
    """Read PDFs in up to `size` children. Use it as an async context manager."""

    def __init__(self, size: int, limits: ReaderLimits, clock: Clock) -> None:
        self._limits = limits
        self.pool = ChildPool(
            _spec(limits),
            clock,
            size=size,
            ready=min(size, processors()),
            wait_seconds=limits.wait_seconds,
        )
        self.given = 0
        """How many files have been given to a child so far."""

    async def __aenter__(self) -> "ReaderPool":
        await self.pool.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.pool.close()

    async def convert(self, source: int, mapping: Mapping, target: int) -> None:
        """Convert the file behind the descriptor `source` into the one behind `target`.

        The child is free again when this task is cancelled: another one replaces it.

        Raises:
            Rejection: there is no XML; the reason says why.
        """
        self.given += 1

        def read(child: ChildProcess, kind: FrameKind, body: Any) -> None:
            reason, detail = _answer(kind, body)
            if reason in _RETIRING:
                child.retire()
            if reason is not None:
                raise Rejection(reason, detail)

        try:
            await self.pool.call(
                {"mapping": mapping}, read, [source, target], timeout=self._limits.wall_seconds
            )
        except NoChildFree as error:
            raise Rejection(Reason.BUSY, str(error)) from None
        except ChildFailed as error:
            raise Rejection(Reason.STOPPED, str(error)) from None
        except TimeoutError:
            raise Rejection(Reason.SLOW) from None
        except ChildDied as error:
            raise Rejection(_DEATHS.get(error.death, Reason.CRASHED), str(error)) from None
        if os.fstat(target).st_size > self._limits.caps.output_bytes:
            raise Rejection(Reason.OUTPUT_TOO_LARGE)


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


def _answer(kind: FrameKind, body: Any) -> tuple[Reason | None, str]:
    """Return why a child refused a file, None where it did not, and what it says of it."""
    try:
        fields: Any = json.loads(body) if kind is FrameKind.ANSWER else None
        reason = None if fields["reason"] is None else Reason[fields["reason"]]
        detail = str(fields.get("detail", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BrokenFrame("an answer that cannot be read") from None
    if reason is not None and reason not in _FROM_CHILD:
        raise BrokenFrame(f"a reason that is not a child's: {reason.name}")
    return reason, detail
