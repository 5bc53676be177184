"""A PDF comes in, a job goes out: `POST /api/upload`, and what the page's forms post to."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from holdfast.http import ErrorOut, JobAnswer
from holdfast_conversion.pages.form_routes import add_page_routes
from holdfast_conversion.upload_service import UploadService

_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "mapping": {"type": "string", "enum": ["layout", "text", "metadata"]},
                        "file": {"type": "string", "format": "binary"},
                    },
                }
            }
        },
    }
}
_REFUSED = {"model": ErrorOut, "description": "Refused; `job` is the record of it, if any."}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": JobAnswer, "description": "The same file is in progress or complete already."},
    201: {"model": JobAnswer, "description": "Taken in."},
    408: _REFUSED,
}


def upload_routes(uploads: UploadService) -> APIRouter:
    """Return the routes that pass uploads to `uploads`."""
    router = APIRouter()
    router.add_api_route(
        "/api/upload",
        uploads.upload,
        methods=["POST"],
        status_code=201,
        response_class=JSONResponse,
        response_model=None,
        responses=_ANSWERS,
        openapi_extra=_FORM,
        tags=["streamed"],
    )
    add_page_routes(router, uploads)
    return router
