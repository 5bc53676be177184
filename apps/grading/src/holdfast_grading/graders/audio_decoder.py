"""The worker's side of decoding: bytes in, a recording out, whatever they do to their decoder."""

from typing import Any

from holdfast import Clock, ErrorCode, HoldfastError
from holdfast.children import (
    MEGABYTE,
    ChildDied,
    ChildFailed,
    ChildLimits,
    ChildProcess,
    ConfinedFunction,
    Death,
)
from holdfast_grading.graders.audio import Recording, unreadable

_DECODERS = 2
"""Child processes; recordings beyond that wait for one."""
_LIMITS = ChildLimits(memory_bytes=512 * MEGABYTE, cpu_seconds=30.0, output_bytes=MEGABYTE)
_CALL_SECONDS = 60.0
_FINAL_DEATHS = frozenset((Death.CPU_TIME, Death.SIGNAL))
"""Deaths that are the recording's fault; after any other, another attempt may succeed."""


class DecodingStopped(HoldfastError):
    """A decoder was stopped from outside or was not free; the next attempt may succeed."""

    code = ErrorCode.UNKNOWN


class AudioDecoder:
    """Decode recordings. Children start when they are first needed."""

    def __init__(self, clock: Clock) -> None:
        self._function = ConfinedFunction(
            "holdfast_grading.graders.audio_child:load",
            clock,
            limits=_LIMITS,
            call_seconds=_CALL_SECONDS,
            children=_DECODERS,
        )

    async def aclose(self) -> None:
        """End the children."""
        await self._function.aclose()

    async def decode(self, data: bytes) -> Recording:
        """Return the recording that `data` is.

        Raises:
            Permanent: `AUDIO_UNREADABLE`.
            DecodingStopped: its decoder was stopped; try again.
        """
        try:
            suffix, seconds = await self._function.call("decode", _found, data)
        except TimeoutError:
            raise unreadable("Decoding the recording takes more time than is allowed.") from None
        except ChildDied as died:
            if died.death in _FINAL_DEATHS:
                raise unreadable("The recording breaks its decoder.") from died
            raise DecodingStopped("The decoder of the recording was stopped.") from died
        except ChildFailed as error:
            raise DecodingStopped("No decoder could be started for the recording.") from error
        return Recording(data, suffix, seconds)


def _found(_child: ChildProcess, fields: Any) -> tuple[str, float]:
    """Return what a child says that it found; nothing of that is trusted."""
    refusal = fields.get("refusal")
    if refusal is not None:
        raise unreadable(str(refusal))
    return str(fields["suffix"])[:10], float(fields["seconds"])
