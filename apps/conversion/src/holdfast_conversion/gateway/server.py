"""The gateway over HTTP: `POST /convert`, `GET /health`, and `/chaos` where it is allowed."""

import contextlib
import json
import logging
import random
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from holdfast import Clock, ErrorCode
from holdfast_conversion.error_codes import ALL_ERRORS
from holdfast_conversion.gateway import request_body
from holdfast_conversion.gateway.chaos import BadFault, Chaos, Mode, is_local, parse
from holdfast_conversion.gateway.disconnect import DisconnectingResponse, unless_gone
from holdfast_conversion.gateway.fault_injection import FaultInjector
from holdfast_conversion.gateway.formats import Mapping
from holdfast_conversion.gateway.gateway_settings import GatewaySettings
from holdfast_conversion.gateway.idempotency_cache import IdempotencyCache
from holdfast_conversion.gateway.kill_counter import KillCounter
from holdfast_conversion.gateway.listening_socket import ListeningSocket
from holdfast_conversion.gateway.origin_check import OriginCheck
from holdfast_conversion.gateway.reader_pool import ReaderPool
from holdfast_conversion.gateway.rejections import Reason, Rejection
from holdfast_conversion.gateway.scratch import ScratchFile

_log = logging.getLogger(__name__)
_PDF_TYPES = frozenset({"application/pdf", "application/x-pdf", "application/octet-stream"})
_XML_RANGES = frozenset({"*/*", "application/*", "application/xml", "text/xml", "text/*"})
_RETRY_AFTER = "2"
_LATER = frozenset({429, 503})
_LONGEST_KEY = 255
_LONGEST_COMMAND = 4096


class Problem(BaseModel):
    """What went wrong, by code, and in one line for people."""

    code: Annotated[str, Field(json_schema_extra={"enum": list(ALL_ERRORS)})]
    message: str


class ErrorBody(BaseModel):
    """The body of every refusal."""

    error: Problem


_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/pdf": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_REFUSED = {"model": ErrorBody, "description": "Refused; the message says why."}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The XML.",
        "content": {"application/xml": {"schema": {"type": "string"}}},
    },
    **dict.fromkeys((400, 406, 408, 413, 415, 422, 429, 500, 503), _REFUSED),
}


class Gateway:
    """What the routes share."""

    def __init__(self, settings: GatewaySettings, clock: Clock, readers: ReaderPool) -> None:
        self.settings = settings
        self.readers = readers
        self.cache = IdempotencyCache(settings.keep_seconds, clock)
        self.kill_counter = KillCounter()
        self.busy = 0

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Take one of the places for requests.

        Raises:
            Rejection: all are taken.
        """
        if self.busy >= self.settings.most_requests:
            raise Rejection(Reason.BUSY, f"{self.busy} requests")
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1

    async def convert(self, request: Request, mapping: str, key: str | None) -> ScratchFile:
        """Return the XML that a request asks for.

        Raises:
            Rejection: there is none; the reason says why.
        """
        wanted = _wanted(mapping)
        _check_headers(request, key)
        with self.place():
            body = await request_body.receive(
                request.stream(),
                declared=request_body.declared_length(request),
                most_bytes=self.settings.max_upload_bytes,
                stall_seconds=self.settings.stall_seconds,
            )
            fingerprint = f"{body.sha256} {wanted}"

            async def work() -> ScratchFile:
                try:
                    target = ScratchFile()
                except OSError as error:
                    raise Rejection(Reason.STORAGE, str(error.strerror)) from None
                with self.kill_counter.counted(fingerprint):
                    await self.readers.convert(body.file, wanted, target)
                return target

            return await unless_gone(request, self.cache.result(key, fingerprint, work))


def create_app(
    settings: GatewaySettings, clock: Clock, listener: ListeningSocket, rng: random.Random
) -> Any:
    """Return the ASGI app; its children start and end with it."""
    chaos = Chaos(clock, rng)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with ReaderPool(settings.children, settings.limits, clock) as readers:
            app.state.gateway = gateway = Gateway(settings, clock, readers)
            yield
            await gateway.cache.close()

    app = FastAPI(title="Holdfast gateway", version="1", lifespan=lifespan, docs_url=None)
    app.add_exception_handler(Rejection, _answer_refusal)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(RequestValidationError, _answer_validation)
    app.add_api_route(
        "/convert",
        _convert,
        methods=["POST"],
        response_class=Response,
        responses=_ANSWERS,
        openapi_extra=_BODY,
    )
    app.add_api_route("/health", _health, methods=["GET"])
    names = {settings.host, *settings.names}
    if not settings.chaos:
        return OriginCheck(app, names, _refuse_page)
    app.state.chaos, app.state.listener = chaos, listener
    app.add_api_route("/chaos", _chaos, methods=["GET", "PUT", "DELETE"], include_in_schema=False)
    return OriginCheck(FaultInjector(app, chaos, clock), names, _refuse_page)


async def _convert(
    request: Request,
    mapping: Annotated[str, Query(description="layout, text or metadata")] = "",
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Response:
    """Convert the PDF in the body."""
    try:
        result = await request.app.state.gateway.convert(request, mapping, idempotency_key)
    except ClientDisconnect:
        return Response(status_code=400)  # no answer reaches the client
    return StreamingResponse(
        _pieces(result),
        media_type="application/xml",
        headers={"content-length": str(result.size), "x-content-type-options": "nosniff"},
    )


async def _pieces(result: ScratchFile) -> AsyncIterator[bytes]:
    for piece in result.pieces():
        yield piece


async def _health(request: Request) -> Response:
    """Answer whether files can be converted."""
    gateway: Gateway = request.app.state.gateway
    pool = gateway.readers.pool
    alive = len(pool.pids())
    return JSONResponse(
        {
            "status": "ok" if alive else "down",
            "children": alive,
            "idle": pool.idle,
            "requests": gateway.busy,
            "confined": pool.confined,
            "converted": gateway.readers.given,
        },
        200 if alive else 503,
    )


async def _chaos(request: Request) -> Response:
    chaos: Chaos = request.app.state.chaos
    client = request.client.host if request.client else None
    if not is_local(client, request.headers.get("host", "")):
        return _error(403, ErrorCode.FORBIDDEN, "Faults can only be asked for on this machine.")
    if request.method == "DELETE":
        chaos.set(None)
    elif request.method == "PUT":
        try:
            fault = parse(json.loads(await _command(request)))
        except (BadFault, ValueError, RecursionError) as error:
            line = str(error) if isinstance(error, BadFault) else "The fault must be JSON."
            return _error(400, ErrorCode.VALIDATION_ERROR, line)
        if fault.mode is Mode.VANISH:
            request.app.state.listener.vanish(fault.seconds or 0.0)
            chaos.set(None)
            return JSONResponse({"mode": fault.mode, "seconds": fault.seconds})
        chaos.set(fault)
    return JSONResponse(chaos.describe())


async def _command(request: Request) -> bytes:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > _LONGEST_COMMAND:
            raise BadFault("a fault is a short JSON object")
    return data


# -- checks ----------------------------------------------------------------------------------------


def _wanted(mapping: str) -> Mapping:
    try:
        return Mapping(mapping)
    except ValueError:
        raise Rejection(Reason.UNKNOWN_MAPPING) from None


def _check_headers(request: Request, key: str | None) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and kind not in _PDF_TYPES:
        raise Rejection(Reason.WRONG_TYPE)
    accept = request.headers.get("accept", "")
    ranges = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    if accept.strip() and not ranges & _XML_RANGES:
        raise Rejection(Reason.NOT_ACCEPTABLE)
    if key is not None and not (
        0 < len(key) <= _LONGEST_KEY and all("!" <= letter <= "~" for letter in key)
    ):
        raise Rejection(Reason.BAD_KEY)


# -- errors ----------------------------------------------------------------------------------------


async def _answer_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Rejection)
    reason = error.reason
    _log.info("%s %s: %s", request.method, request.url.path, error)
    headers = {"retry-after": _RETRY_AFTER} if reason.status in _LATER else {}
    body = _body(reason.code, reason.message)
    return DisconnectingResponse(reason.status, body, headers, request)


def _refuse_page(request: Request, line: str) -> Response:
    return DisconnectingResponse(403, _body(ErrorCode.FORBIDDEN, line), {}, request)


async def _answer_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {404: "There is nothing here.", 405: "This cannot be asked for that way."}
    line = message.get(error.status_code, "The request cannot be understood.")
    return _error(error.status_code, ErrorCode.VALIDATION_ERROR, line)


async def _answer_validation(_: Request, error: Exception) -> Response:
    del error
    return _error(400, ErrorCode.VALIDATION_ERROR, "The request cannot be understood.")


def _error(status: int, code: str, message: str) -> Response:
    return Response(_body(code, message), status, media_type="application/json")


def _body(code: str, message: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": message}}).encode()
