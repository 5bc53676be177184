"""Read the body of a request that brings documents: JSON or a form, with limits as it arrives."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from holdfast import ErrorCode
from holdfast.http import ApiError
from holdfast_ingestion.metadata import too_many_digits
from holdfast_ingestion.submission import UploadedFile, too_large

_ROOM = 256 * 1024
"""Bytes that a body may have beside the document: JSON, boundaries, fields."""
_SECONDS = 120.0
"""Seconds in which a body must have arrived."""
_FIELD_BYTES = 32 * 1024


def is_form(request: Request) -> bool:
    """Say whether the body is a form with a file."""
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


async def read_json(request: Request, most_bytes: int) -> Any:
    """Return the body of a request as JSON.

    Raises:
        ApiError: it is too large, too slow or no JSON.
    """
    async with _in_time():
        data = b"".join([piece async for piece in _counted(request, most_bytes)])
    try:
        return await asyncio.to_thread(json.loads, data)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise _unreadable("The body must be JSON.") from None
    except ValueError:
        raise too_many_digits() from None


async def read_form(request: Request, most_bytes: int) -> tuple[UploadedFile, dict[str, str]]:
    """Return the file of a form, and its other fields.

    Raises:
        ApiError: it is too large, too slow or no form with one file.
    """
    file, fields = await _parsed(request, most_bytes, _FIELD_BYTES)
    if file is None:
        raise _unreadable("The form has no field 'file'.")
    return file, fields


async def read_page_form(
    request: Request, most_bytes: int
) -> tuple[UploadedFile | None, dict[str, str]]:
    """Return the file of a page's form, if any, and its other fields, each as long as a document.

    Raises:
        ApiError: it is too large, too slow or no form.
    """
    return await _parsed(request, most_bytes, most_bytes + _ROOM)


async def _parsed(
    request: Request, most_bytes: int, field_bytes: int
) -> tuple[UploadedFile | None, dict[str, str]]:
    parser = MultiPartParser(
        request.headers,
        _counted(request, most_bytes),
        max_files=1,
        max_fields=10,
        max_part_size=field_bytes,
    )
    try:
        async with _in_time():
            form = await parser.parse()
    except (MultiPartException, KeyError):
        raise _unreadable("Send a form with one field 'file' and short other fields.") from None
    try:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        return await _file_of(form), fields
    finally:
        await form.close()


async def _file_of(form: FormData) -> UploadedFile | None:
    found = form.get("file")
    if not isinstance(found, UploadFile):
        return None
    media_type = (found.content_type or "").partition(";")[0].strip().lower()
    return UploadedFile(found.filename or "", media_type, await found.read())


async def _counted(request: Request, most_bytes: int) -> AsyncGenerator[bytes, None]:
    read = 0
    async for piece in request.stream():
        read += len(piece)
        if read > most_bytes + _ROOM:
            raise too_large(most_bytes)
        yield piece


@contextlib.asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Refuse a body that has not arrived in time."""
    try:
        async with asyncio.timeout(_SECONDS):
            yield
    except TimeoutError:
        line = "The request took too long to arrive."
        raise ApiError(ErrorCode.TIMEOUT, line, status=408) from None


def _unreadable(line: str) -> ApiError:
    return ApiError(ErrorCode.VALIDATION_ERROR, line, status=400)
