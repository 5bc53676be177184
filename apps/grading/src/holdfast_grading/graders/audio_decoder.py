"""The worker's side of decoding: bytes in, a recording out, whatever they do to their decoder."""

import asyncio
import json
import os
from typing import Any

from holdfast import Clock, ErrorCode, HoldfastError
from holdfast.children import (
    MEGABYTE,
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
from holdfast_grading.graders.audio import Recording, unreadable

_CPU_SECONDS = 30.0
_WALL_SECONDS = 60.0
_DECODERS = 2
"""Child processes; recordings beyond that wait for one."""
_FINAL_DEATHS = frozenset((Death.CPU_TIME, Death.SIGNAL))
"""Deaths that are the recording's fault. Any other came from outside, so another attempt may do."""
_SPEC = ChildSpec(
    "holdfast_grading.graders.audio_child:load",
    {},
    ChildLimits(
        memory_bytes=512 * MEGABYTE,
        cpu_seconds=_CPU_SECONDS,
        output_bytes=MEGABYTE,
        file_bytes=0,
        open_files=64,
    ),
    confine=True,
    start_seconds=60.0,
)


class DecodingStopped(HoldfastError):
    """A decoder was stopped from outside or was not free; the next attempt may succeed."""

    code = ErrorCode.UNKNOWN


class AudioDecoder:
    """Decode recordings. Children start when they are first needed."""

    def __init__(self, clock: Clock) -> None:
        self._pool = ChildPool(_SPEC, clock, idle_seconds=300.0)
        self._free = asyncio.Semaphore(_DECODERS)

    async def aclose(self) -> None:
        """End the children."""
        await self._pool.close()

    async def decode(self, data: bytes) -> Recording:
        """Return the recording that `data` is.

        Raises:
            Permanent: `AUDIO_UNREADABLE`.
            DecodingStopped: its decoder was stopped; try again.
        """
        source = await asyncio.to_thread(_as_file, data)
        try:
            async with self._free:
                suffix, seconds = await self._pool.call(
                    "decode", _found, [source], timeout=_WALL_SECONDS
                )
        except TimeoutError:
            raise unreadable("Decoding the recording takes more time than is allowed.") from None
        except ChildDied as died:
            if died.death in _FINAL_DEATHS:
                raise unreadable("The recording breaks its decoder.") from died
            raise DecodingStopped("The decoder of the recording was stopped.") from died
        except (ChildFailed, NoChildFree) as error:
            raise DecodingStopped("No decoder could be started for the recording.") from error
        finally:
            os.close(source)
        return Recording(data, suffix, seconds)


def _as_file(data: bytes) -> int:
    """Return a descriptor of a file in memory that holds `data`."""
    descriptor = os.memfd_create("recording", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _found(_child: ChildProcess, kind: FrameKind, body: Any) -> tuple[str, float]:
    """Return what a child says that it found; nothing of that is trusted."""
    try:
        fields: Any = json.loads(body) if kind is FrameKind.ANSWER else None
        refusal = fields.get("refusal")
        if refusal is None:
            return str(fields["suffix"])[:10], float(fields["seconds"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BrokenFrame("an answer that cannot be read") from None
    raise unreadable(str(refusal))
