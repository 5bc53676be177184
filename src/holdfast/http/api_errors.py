"""Every error as `{"error": {"code", "message"}}`: a code, and a line for people."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.routing import Match

from holdfast.errors import ERRORS, ErrorCode, ErrorInfo, HoldfastError, Permanent
from holdfast.jobs.client.downstream_control import UnknownDownstream
from holdfast.jobs.client.periodic_control import UnknownSchedule
from holdfast.jobs.exceptions import (
    InvalidState,
    TwinInPlace,
    UnknownJob,
    UnknownQueue,
    UnknownWorker,
)
from holdfast.jobs.store_port import StoreUnavailable
from holdfast.outbox import UnknownMessage

TWIN_LINE = "A later job of the same content has taken its place."
"""Why a job cannot be retried whose `dedup_key` is a later job's by now."""
_LONGEST_NAME = 40
_log = logging.getLogger("holdfast.http")


class ErrorDetail(BaseModel):
    """What went wrong."""

    model_config = ConfigDict(from_attributes=True)

    code: str
    message: str


class ApiError(HoldfastError):
    """Answer a request with an error.

    Args:
        code: what went wrong. A code of the library decides the status and the line; another
            needs both, or what `errors` says of it.
        message: a line for people.
        status: the HTTP status; 422 for a code that is not known.
        headers: more headers.
        extra: what stands in the body beside `error`.
        errors: what is known of codes; `engine.errors` knows those of the apps too.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        errors: Mapping[str, ErrorInfo] = ERRORS,
    ) -> None:
        info = errors.get(code) or ErrorInfo(code, message or ERRORS[ErrorCode.UNKNOWN].message)
        super().__init__(message or info.message)
        self.code = info.code
        self.status = info.http_status if status is None else status
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})


def forbidden() -> ApiError:
    """Return the one answer to what is another's and to what does not exist."""
    return ApiError(ErrorCode.FORBIDDEN)


@contextmanager
def refusing_cursors() -> Iterator[None]:
    """Answer a cursor that the store does not accept with an error."""
    try:
        yield
    except HoldfastError:
        raise
    except ValueError:
        raise ApiError(ErrorCode.VALIDATION_ERROR, "There is no such cursor.") from None


def answer_refusal(request: Request, error: ApiError) -> Response:
    """Return `error` as an answer: a page where a browser asked for one, else JSON."""
    page = request.app.state.refusal_page
    if page is None or not _wants_page(request):
        body = {"error": {"code": error.code, "message": str(error)}, **error.extra}
        return JSONResponse(body, error.status, error.headers)
    answer: Response = page(request, error)
    return answer


def _wants_page(request: Request) -> bool:
    # Programs that take anything say so as */*; browsers name what they want to show.
    accepted = request.headers.get("accept", "")
    return "text/html" in accepted and not request.url.path.startswith("/api/")


def add_error_handlers(app: FastAPI) -> None:
    """Let every error of `app` be answered in the one form."""
    app.add_exception_handler(HoldfastError, _on_own)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(Exception, _on_unexpected)


async def _on_own(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    return answer_refusal(request, as_api_error(request, error))


_UNKNOWN: dict[type[Exception], str] = {
    UnknownDownstream: "downstream",
    UnknownMessage: "message",
    UnknownQueue: "queue",
    UnknownSchedule: "periodic job",
    UnknownWorker: "worker",
}
"""What a caller has named that does not exist: 404."""


def as_api_error(request: Request, error: HoldfastError) -> ApiError:
    """Return the error that answers the request."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, UnknownJob):
        return forbidden()
    if isinstance(error, TwinInPlace):
        return ApiError(ErrorCode.INVALID_STATE, TWIN_LINE)
    if isinstance(error, InvalidState):
        return ApiError(ErrorCode.INVALID_STATE)
    if (what := _UNKNOWN.get(type(error))) is not None:
        return ApiError(ErrorCode.VALIDATION_ERROR, f"There is no such {what}.", status=404)
    if isinstance(error, StoreUnavailable):
        _log.warning("%s %s: %s", request.method, request.url.path, error)
        return ApiError(
            ErrorCode.IO_ERROR,
            "The database does not answer just now; please try again.",
            status=503,
            headers={"retry-after": "1"},
        )
    _log.info("%s %s: %s", request.method, request.url.path, error)
    # An app writes the line of a `Permanent` for people; what the engine raises is for developers.
    line = str(error) if isinstance(error, Permanent) and any(error.args) else ""
    return ApiError(error.code, line, errors=request.app.state.errors)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, HoldfastError):
        # FastAPI calls whatever ends the reading of a body an error in it.
        return await _on_own(request, error.__cause__)
    lines = {404: "There is nothing here.", 405: "This cannot be asked for that way."}
    line = lines.get(error.status_code, "The request cannot be understood.")
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == 405:
        headers["allow"] = ", ".join(_methods(request))
    refusal = ApiError(ErrorCode.VALIDATION_ERROR, line, status=error.status_code, headers=headers)
    return answer_refusal(request, refusal)


def _methods(request: Request) -> list[str]:
    """Return all methods that the path may be asked with; the route that refused knows its own."""
    return sorted(
        {
            method
            for route in iter_route_contexts(request.app.router.routes)
            if route.matches(request.scope)[0] is not Match.NONE
            for method in route.methods or ()
        }
    )


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong: set[str] = set()
    for problem in error.errors():
        # The last names of values in lists are their places.
        name = next((each for each in reversed(problem["loc"]) if isinstance(each, str)), "")
        if name.isidentifier() and len(name) < _LONGEST_NAME:
            unknown = problem["type"] == "extra_forbidden"
            wrong.add(f"there is no field {name}" if unknown else name)
    line = f"The request cannot be understood{': ' + ', '.join(sorted(wrong)) if wrong else ''}."
    return answer_refusal(request, ApiError(ErrorCode.VALIDATION_ERROR, line))


async def _on_unexpected(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer_refusal(request, ApiError(ErrorCode.UNKNOWN))
