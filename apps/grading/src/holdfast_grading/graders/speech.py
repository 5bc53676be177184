"""Speech: fetched through the guarded fetcher or read from an upload, and transcribed."""

import asyncio
from typing import Any

from holdfast import Permanent
from holdfast.fetch import Fetcher
from holdfast.files import ArtifactStore
from holdfast_grading.error_codes import NO_SPEECH
from holdfast_grading.graders.audio import Recording, unreadable
from holdfast_grading.messages import SubmissionPayload

_AUDIO_TYPES = ("audio/", "application/ogg", "application/octet-stream", "video/ogg")
_SECONDS = 120.0
"""Seconds that one transcription may take."""
_NO_KEY = "none"
"""The SDK insists on a key, and would take the one of another service from the environment."""


async def audio_of(payload: SubmissionPayload, fetcher: Fetcher, files: ArtifactStore) -> bytes:
    """Return the recording of a submission as it came, not decoded yet.

    Raises:
        FetchError: its address cannot be fetched.
        Permanent: `AUDIO_UNREADABLE`.
    """
    if payload.audio_url is not None:
        fetched = await fetcher.get(payload.audio_url)
        if not fetched.content_type.startswith(_AUDIO_TYPES):
            raise unreadable(f"The address leads to {fetched.content_type}, and not to audio.")
        return fetched.body
    return await asyncio.to_thread(_read, files, payload.audio_file or "")


def _read(files: ArtifactStore, name: str) -> bytes:
    try:
        with files.open(name) as file:
            return file.read()
    except (FileNotFoundError, ValueError) as error:
        raise unreadable("The uploaded recording is gone.") from error


class Transcriber:
    """Turn speech into text by an OpenAI-compatible server at `base_url`, one request a call."""

    def __init__(self, base_url: str, model: str = "whisper-1") -> None:
        import openai

        self._model = model
        self._client = openai.AsyncOpenAI(
            base_url=base_url, api_key=_NO_KEY, max_retries=0, timeout=_SECONDS
        )

    async def transcribe(self, recording: Recording, key: str) -> str:
        """Return what was said; `key` is sent as the idempotency key.

        Raises:
            Permanent: `NO_SPEECH`.
            Exception: the error that ended the call.
        """
        answer: Any = await self._client.audio.transcriptions.create(
            model=self._model,
            file=(f"recording.{recording.suffix}", recording.data),
            extra_headers={"Idempotency-Key": key},
        )
        text = getattr(answer, "text", None)
        if not isinstance(text, str) or not text.strip():
            raise Permanent(NO_SPEECH, "There is no speech in the recording.")
        return text.strip()

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.close()
