"""Uploaded recordings: read from a form with limits, kept as files, and deleted."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from holdfast import ErrorCode
from holdfast.files import ArtifactStore, Draft
from holdfast.http import ApiError
from holdfast_grading.settings import MOST_CHARACTERS

FOLDER = "audio"
_ROOM = 256 * 1024
"""Bytes that a body may have beside the recording."""
_SECONDS = 120.0
"""Seconds in which a body must have arrived."""


@dataclass(frozen=True, slots=True)
class SubmissionForm:
    """A form: its fields, and the recording if a file was chosen."""

    fields: dict[str, str]
    recording: bytes | None


async def read_form(request: Request, most_bytes: int) -> SubmissionForm:
    """Return the form that a request brings; the recording has at most `most_bytes`.

    Raises:
        ApiError: it is too large, too slow or not a form.
    """
    parser = MultiPartParser(
        request.headers,
        _counted(request, most_bytes),
        max_files=1,
        max_fields=10,
        # As UTF-8, and with room for the line that says how long a text may be.
        max_part_size=5 * MOST_CHARACTERS,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            form = await parser.parse()
    except TimeoutError:
        line = "The request took too long to arrive."
        raise ApiError(ErrorCode.TIMEOUT, line, status=408) from None
    except (MultiPartException, KeyError):
        line = "Send a form with at most one file, and short other fields."
        raise ApiError(ErrorCode.VALIDATION_ERROR, line, status=400) from None
    try:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        file = form.get("file")
        data = await file.read() if isinstance(file, UploadFile) else b""
    finally:
        await form.close()
    return SubmissionForm(fields, data or None)


async def _counted(request: Request, most_bytes: int) -> AsyncGenerator[bytes, None]:
    read = 0
    async for piece in request.stream():
        read += len(piece)
        if read > most_bytes + _ROOM:
            line = f"The recording is larger than {most_bytes / 2**20:g} MB, the limit."
            raise ApiError(ErrorCode.TOO_LARGE, line)
        yield piece


def recording_name(submission_id: str) -> str:
    """Return the name of a submission's recording."""
    return f"{FOLDER}/{submission_id}"


def keep(draft: Draft, name: str, data: bytes) -> None:
    """Store a recording, durable, by its `draft`. It blocks; use a thread.

    Raises:
        OSError: it cannot be stored.
    """
    draft.write(data)
    draft.publish(name)


def delete_old(files: ArtifactStore, before: float) -> int:
    """Delete recordings that were stored before a time, in epoch seconds; return how many.

    It blocks; use a thread.
    """
    old = [each.name for each in files.list(FOLDER) if each.modified_at < before]
    for name in old:
        files.delete(name)
    return len(old)
