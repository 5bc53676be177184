"""The form of the documents' page: addresses, a text or a file, sent without a script."""

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from holdfast import ErrorCode, HoldfastError
from holdfast.http import ApiError, Caller
from holdfast_ingestion.intake import Intake
from holdfast_ingestion.request_body import read_page_form
from holdfast_ingestion.submission import (
    Belongings,
    Submission,
    UploadedFile,
    belongings,
    by_content,
    by_file,
    by_url,
)

MOST_ADDRESSES = 100
"""Addresses of one form; all of them are taken in, or none."""


def intake_form(intake: Intake) -> APIRouter:
    """Return the route that the form posts to; it goes back to the list with a note."""
    router = APIRouter()

    async def add(request: Request, caller: Caller) -> Response:
        """Take in what the form has."""
        most = intake.settings.max_bytes
        file, fields = await read_page_form(request, most)
        # In a thread: to tidy a long text takes a while.
        submissions = await asyncio.to_thread(submissions_of, intake, file, fields, request)
        taken = await intake.add(submissions, caller)
        new = [each for each in taken if each.created or each.is_retried]
        note = "there" if not new else "added" if len(new) == len(taken) else "some-added"
        return RedirectResponse(f"/documents?note={note}", 303)

    router.add_api_route(
        "/documents", add, methods=["POST"], tags=["streamed"], include_in_schema=False
    )
    return router


def submissions_of(
    intake: Intake, file: UploadedFile | None, fields: dict[str, str], request: Request
) -> list[Submission]:
    """Return what a form brings: of its three parts, the one that `kind` names.

    Raises:
        ApiError: it cannot be used; the line says which part of it.
    """
    about = belongings(None, fields.get("title"), labels_of(fields.get("metadata", "")))
    most = intake.settings.max_bytes
    if fields.get("kind") == "text":
        content, type_name = fields.get("content", ""), fields.get("type") or "text"
        return [by_content(content, type_name, about, most)]
    if fields.get("kind") == "file":
        if file is None or not file.name:
            raise _unusable("Choose a file.")
        return [by_file(file, None, about, most)]
    return _by_addresses(intake, fields.get("urls", ""), about, request)


def labels_of(text: str) -> dict[str, str]:
    """Return metadata that is written as lines of `key: value`.

    Raises:
        ApiError: a line is not.
    """
    labels: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not key or not colon:
            raise _unusable(f"Write labels as key: value; this is none: {line.strip()[:40]}")
        labels[key] = value
    return labels


def _by_addresses(
    intake: Intake, text: str, about: Belongings, request: Request
) -> list[Submission]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise _unusable("Type an address, such as https://example.org/page.")
    if len(lines) > MOST_ADDRESSES:
        raise _unusable(f"At most {MOST_ADDRESSES} addresses at once; these are {len(lines)}.")
    submissions = []
    for number, line in enumerate(lines, start=1):
        try:
            submissions.append(by_url(line, about, intake.fetcher))
        except HoldfastError as error:
            place = f"Line {number}: " if len(lines) > 1 else ""
            errors = request.app.state.errors
            raise ApiError(error.code, f"{place}{error}", errors=errors) from None
    return submissions


def _unusable(line: str) -> ApiError:
    return ApiError(ErrorCode.VALIDATION_ERROR, line)
