"""What the page's forms post to: an upload where no script runs, and the sample."""

import hashlib
import secrets
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.requests import ClientDisconnect

from holdfast.http import Owner
from holdfast_conversion.gateway.disconnect import DisconnectingResponse
from holdfast_conversion.gateway.formats import Mapping
from holdfast_conversion.pages.sample import sample_pdf
from holdfast_conversion.upload_form import DEFAULT_MAPPING, UploadRefused
from holdfast_conversion.upload_form import Form as UploadForm
from holdfast_conversion.upload_service import UploadService


def add_page_routes(router: APIRouter, uploads: UploadService) -> None:
    """Add the routes to `router`; each goes back to the front page with a note."""

    @router.post("/upload", tags=["streamed"], include_in_schema=False)
    async def upload(request: Request, owner: Owner) -> Response:
        """Take in a file from the form."""
        form = UploadForm()
        try:
            _, created = await uploads.take_in(request, form, owner)
        except UploadRefused as refused:
            if refused.recorded:
                await uploads.record(refused, form, owner)
            return DisconnectingResponse(303, b"", {"location": _front(str(refused.code))}, request)
        except ClientDisconnect:
            return Response(status_code=400)
        return RedirectResponse(_front("uploaded" if created else "twin"), 303)

    @router.post("/sample", include_in_schema=False)
    async def sample(
        request: Request, owner: Owner, mapping: Annotated[str, Form()] = DEFAULT_MAPPING
    ) -> Response:
        """Convert a sample; each is another file. A script that asks for JSON gets no redirect."""
        scripted = "application/json" in request.headers.get("accept", "")
        number = secrets.token_hex(3)
        content = sample_pdf(number)
        chosen = mapping if mapping in list(Mapping) else DEFAULT_MAPPING
        form = UploadForm(
            filename=f"sample-{number}.pdf",
            mapping=chosen,
            bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            has_file=True,
        )
        try:
            job, _ = await uploads.take_in_bytes(content, form, owner)
        except UploadRefused as refused:
            if scripted:
                error = {"code": refused.code, "message": str(refused)}
                return JSONResponse({"error": error}, refused.status)
            return RedirectResponse(_front(str(refused.code)), 303)
        if scripted:
            return JSONResponse({"job": uploads.shown(job)}, 201)
        return RedirectResponse(_front("sample"), 303)


def _front(note: str) -> str:
    return f"/?note={note}"
