"""What the page's forms post to where no script runs: an upload, and the sample."""

import hashlib
import secrets
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse
from starlette.requests import ClientDisconnect

from holdfast.http import Owner
from holdfast_conversion.gateway.formats import Mapping
from holdfast_conversion.gateway.parting import PartingResponse
from holdfast_conversion.pages.sample import sample_pdf
from holdfast_conversion.upload import DEFAULT_MAPPING, UploadRefused
from holdfast_conversion.upload import Form as UploadForm

if TYPE_CHECKING:
    from holdfast_conversion.routes import UploadDesk


def add_page_routes(router: APIRouter, desk: "UploadDesk") -> None:
    """Add the routes to `router`; each goes back to the front page with a note."""

    @router.post("/upload", tags=["streamed"], include_in_schema=False)
    async def upload(request: Request, owner: Owner) -> Response:
        """Take in a file from the form."""
        form = UploadForm()
        try:
            _, created = await desk.take_in(request, form, owner)
        except UploadRefused as refused:
            if refused.recorded:
                await desk.record(refused, form, owner)
            return PartingResponse(303, b"", {"location": _front(str(refused.code))}, request)
        except ClientDisconnect:
            return Response(status_code=400)
        return RedirectResponse(_front("uploaded" if created else "twin"), 303)

    @router.post("/sample", include_in_schema=False)
    async def sample(owner: Owner, mapping: Annotated[str, Form()] = DEFAULT_MAPPING) -> Response:
        """Convert a sample; each is another file."""
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
            await desk.take_in_bytes(content, form, owner)
        except UploadRefused as refused:
            return RedirectResponse(_front(str(refused.code)), 303)
        return RedirectResponse(_front("sample"), 303)


def _front(note: str) -> str:
    return f"/?note={note}"
