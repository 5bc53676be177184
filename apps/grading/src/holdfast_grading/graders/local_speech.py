"""Speech to text on this machine, by the small model for English that moonshine-voice brings."""

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

from holdfast import Clock, ErrorCode, HoldfastError, Permanent
from holdfast.children import (
    MEGABYTE,
    ChildDied,
    ChildFailed,
    ChildLimits,
    ChildProcess,
    ConfinedFunction,
    Death,
)
from holdfast_grading.error_codes import NO_SPEECH
from holdfast_grading.graders.audio import Recording, unreadable

NOTE = "The transcript was made on this machine by a small model for English; it may be wrong."
_LIMITS = ChildLimits(memory_bytes=1536 * MEGABYTE, cpu_seconds=240.0, output_bytes=MEGABYTE)
_CALL_SECONDS = 240.0
"""The longest recording takes about a minute of one processor."""
_TURN_SECONDS = 5.0
"""How long a recording waits for its turn before its job makes room for others."""
_PACKAGE = "moonshine_voice"


class TranscribingStopped(HoldfastError):
    """A transcriber was stopped from outside or was not free; the next attempt may succeed."""

    code = ErrorCode.UNKNOWN


class TranscriberBusy(Exception):
    """Other recordings are being transcribed; this one comes back."""


def model_folder() -> Path | None:
    """Return where the model is; None where the package is missing or came without it."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "assets" / "tiny-en"
    return folder if (folder / "encoder_model.ort").is_file() else None


class LocalTranscriber:
    """Turn speech into text in a confined child process, one recording at a time.

    The child starts when it is first needed: it takes a second and 250 MB.
    """

    def __init__(self, model: Path, clock: Clock) -> None:
        self._function = ConfinedFunction(
            "holdfast_grading.graders.speech_child:load",
            clock,
            limits=_LIMITS,
            call_seconds=_CALL_SECONDS,
            options=str(model),
            children=1,
        )
        self._turn = asyncio.Lock()

    async def aclose(self) -> None:
        """End the child."""
        await self._function.aclose()

    async def transcribe(self, recording: Recording) -> str:
        """Return what was said.

        Raises:
            Permanent: `NO_SPEECH`, or `AUDIO_UNREADABLE`: it takes more than is allowed.
            TranscriberBusy: come back.
            TranscribingStopped: try again.
        """
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            raise TranscriberBusy from None
        try:
            return await self._transcribe(recording)
        finally:
            self._turn.release()

    async def _transcribe(self, recording: Recording) -> str:
        try:
            text = await self._function.call("transcribe", _text, recording.data)
        except TimeoutError:
            raise TranscribingStopped("Transcribing took more time than is allowed.") from None
        except ChildDied as died:
            if died.death is Death.CPU_TIME:
                raise unreadable("Transcribing takes more time than is allowed.") from died
            raise TranscribingStopped("The transcriber of the recording was stopped.") from died
        except ChildFailed as error:
            raise TranscribingStopped("No transcriber could be started.") from error
        if not text:
            raise Permanent(NO_SPEECH, "There is no speech in the recording.")
        return text


def _text(_child: ChildProcess, fields: Any) -> str:
    """Return what a child says that it heard; nothing of that is trusted."""
    return str(fields["text"]).strip()
