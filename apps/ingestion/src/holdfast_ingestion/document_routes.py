"""The routes below `/v3`: what a caller asks for, checked and handed on."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from holdfast import ErrorCode, HoldfastError
from holdfast.fetch import FetchError
from holdfast.http import ApiError, Caller, ErrorOut
from holdfast_ingestion.document_state import Stage
from holdfast_ingestion.intake import DOCUMENT_ID, Intake, Taken
from holdfast_ingestion.metadata import is_filter, parsed_metadata
from holdfast_ingestion.repository import ListFilter
from holdfast_ingestion.request_body import is_form, read_form, read_json
from holdfast_ingestion.schemas import (
    BatchIn,
    BatchOut,
    ContentOut,
    DocumentIn,
    DocumentOut,
    DocumentsOut,
    RefreshOut,
    TakenOut,
)
from holdfast_ingestion.submission import (
    URL_TYPE,
    Submission,
    UploadedFile,
    belongings,
    by_content,
    by_file,
    by_url,
)

M = TypeVar("M", bound=BaseModel)

OrgId = Annotated[str | None, Query(alias="orgId", max_length=200)]
_MOST_NAMED = 5


class DocumentApi:
    """Answer requests about documents; `intake` changes them."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    # -- adding --------------------------------------------------------------------------------

    async def add(self, request: Request, caller: Caller) -> Response:
        """Add a document: an address or a text as JSON, or a file as a form.

        The same again is the same document; one that failed is tried again.
        """
        most = self._intake.settings.max_bytes
        if is_form(request):
            file, fields = await read_form(request, most)
            submission = await asyncio.to_thread(_uploaded, file, fields, most)
        else:
            asked = _model(DocumentIn, await read_json(request, most))
            submission = await asyncio.to_thread(self._submission, asked)
        (taken,) = await self._intake.add([submission], caller)
        return _answer(TakenOut(**_taken(taken)), 202 if _is_begun(taken) else 200)

    async def add_batch(self, request: Request, caller: Caller) -> Response:
        """Add up to 100 documents, all or none."""
        body = await read_json(request, self._intake.settings.max_bytes)
        submissions = []
        for number, document in enumerate(_model(BatchIn, body).documents, start=1):
            try:
                submissions.append(await asyncio.to_thread(self._submission, document))
            except HoldfastError as error:
                raise _in_batch(number, error, request) from None
        taken = await self._intake.add(submissions, caller)
        documents = [TakenOut(**_taken(each)) for each in taken]
        return _answer(BatchOut(documents=documents), 202)

    def _submission(self, asked: DocumentIn) -> Submission:
        intake, about = self._intake, belongings(asked.org_id, asked.title, asked.metadata)
        if (asked.url is None) == (asked.content is None):
            raise ApiError(ErrorCode.VALIDATION_ERROR, "Give either a url or content.")
        if asked.url is not None:
            if asked.type not in {None, URL_TYPE}:
                line = "A url has the type 'url'; what is there is found out when it is fetched."
                raise ApiError(ErrorCode.VALIDATION_ERROR, line)
            return by_url(asked.url, about, intake.fetcher)
        assert asked.content is not None
        return by_content(asked.content, asked.type or "text", about, intake.settings.max_bytes)

    # -- reading -------------------------------------------------------------------------------

    async def list_documents(
        self,
        caller: Caller,
        status: Annotated[list[Stage] | None, Query()] = None,
        document_type: Annotated[str | None, Query(alias="type", max_length=40)] = None,
        url: Annotated[str | None, Query(max_length=8000)] = None,
        metadata: Annotated[
            list[str] | None, Query(description="`key:value`, once for each key.", max_length=20)
        ] = None,
        org_id: OrgId = None,
        cursor: Annotated[str | None, Query(max_length=40)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> DocumentsOut:
        """List the organisation's documents, newest first."""
        if cursor and DOCUMENT_ID.fullmatch(cursor) is None:
            raise ApiError(ErrorCode.VALIDATION_ERROR, "There is no such cursor.")
        where = ListFilter(
            statuses=tuple(status or ()),
            org_id=storable(org_id),
            type=storable(document_type),
            url=self._address(storable(url)),
            metadata=tuple(map(_filter, metadata or ())),
        )
        found = await self._intake.documents.page(
            caller.organisation, where, before=cursor or None, limit=limit + 1
        )
        page = found[:limit]
        return DocumentsOut(
            documents=[DocumentOut.of(each) for each in page],
            next_cursor=page[-1].id if len(found) > limit else None,
        )

    def _address(self, url: str | None) -> str | None:
        """Return an address as it is stored; as it was typed where none can be like that."""
        if url is None:
            return None
        try:
            return str(self._intake.fetcher.check(url))
        except FetchError:
            return url

    async def show(self, caller: Caller, document_id: str) -> DocumentOut:
        """Show a document."""
        return DocumentOut.of(await self._intake.find(document_id, caller))

    async def content(self, caller: Caller, document_id: str) -> ContentOut:
        """Show the text of a document."""
        document = await self._intake.find(document_id, caller)
        text = await self._intake.documents.content(caller.organisation, document.id)
        return ContentOut(id=document.id, content=text)

    # -- changing ------------------------------------------------------------------------------

    async def delete(self, caller: Caller, document_id: str) -> Response:
        """Delete a document with its passages and files."""
        await self._intake.delete(await self._intake.find(document_id, caller), caller)
        return Response(status_code=204)

    async def retry(self, caller: Caller, document_id: str) -> Response:
        """Process a failed document again, with all of its attempts."""
        await self._intake.retry(await self._intake.find(document_id, caller), caller)
        return _answer(TakenOut(id=document_id, status=Stage.QUEUED), 202)

    async def refresh(self, caller: Caller, document_id: str) -> Response:
        """Fetch a document again if its site has a newer one; it stays findable meanwhile."""
        document = await self._intake.find(document_id, caller)
        job = await self._intake.refresh(document, caller)
        return _answer(RefreshOut(id=document.id, status=document.status, job_id=job), 202)


_ERRORS: dict[int | str, dict[str, Any]] = {415: {"model": ErrorOut, "description": "Refused."}}
_TAKEN: dict[int | str, dict[str, Any]] = {
    **_ERRORS,
    200: {"model": TakenOut, "description": "The same document is there already."},
    202: {"model": TakenOut, "description": "Taken in."},
}
_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "type": {"type": "string"},
        "title": {"type": "string"},
        "orgId": {"type": "string"},
        "metadata": {"type": "string", "description": "JSON"},
    },
}


def document_routes(intake: Intake) -> APIRouter:
    """Return the routes that ask `intake`."""
    api, router = DocumentApi(intake), APIRouter(prefix="/v3", tags=["documents"])

    def route(path: str, answer: Callable[..., Any], method: str, **how: Any) -> None:
        router.add_api_route(path, answer, methods=[method], **how)

    forms = {"multipart/form-data": {"schema": _FORM}}
    route(
        "/documents", api.add, "POST", status_code=202, response_model=None, responses=_TAKEN,
        openapi_extra=_body(DocumentIn, forms), tags=["streamed"],
    )  # fmt: skip
    route(
        "/documents/batch", api.add_batch, "POST", status_code=202, response_model=None,
        responses={**_ERRORS, 202: {"model": BatchOut}}, openapi_extra=_body(BatchIn, {}),
        tags=["streamed"],
    )  # fmt: skip
    route("/documents", api.list_documents, "GET")
    route("/documents/{document_id}", api.show, "GET")
    route("/documents/{document_id}", api.delete, "DELETE", status_code=204, response_model=None)
    route("/documents/{document_id}/content", api.content, "GET")
    accepted: dict[str, Any] = {"status_code": 202, "response_model": None}
    route(
        "/documents/{document_id}/retry", api.retry, "POST",
        responses={202: {"model": TakenOut}}, **accepted,
    )  # fmt: skip
    route(
        "/documents/{document_id}/refresh", api.refresh, "POST",
        responses={202: {"model": RefreshOut}}, **accepted,
    )  # fmt: skip
    return router


def _body(model: type[BaseModel], more: dict[str, Any]) -> dict[str, Any]:
    """Return what OpenAPI says of a body that the route itself reads."""
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})
    for field in schema["properties"].values():
        if "$ref" in field.get("items", {}):
            field["items"] = definitions[field["items"]["$ref"].rpartition("/")[2]]
    content = {"application/json": {"schema": schema}, **more}
    return {"requestBody": {"required": True, "content": content}}


def _uploaded(file: UploadedFile, fields: Mapping[str, str], most_bytes: int) -> Submission:
    """Return what a form with a file brings."""
    if unknown := fields.keys() - _FORM["properties"].keys():
        shown = sorted(
            f"there is no field {name} beside a file" for name in unknown if _is_name(name)
        )
        raise _not_understood(shown)
    about = belongings(
        fields.get("orgId"), fields.get("title"), parsed_metadata(fields.get("metadata"))
    )
    return by_file(file, fields.get("type"), about, most_bytes)


def _model(model: type[M], body: Any) -> M:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        shown = sorted({what for each in error.errors() if (what := _wrong(each))})
        raise _not_understood(shown) from None


def _not_understood(problems: list[str]) -> ApiError:
    shown = problems[:_MOST_NAMED]
    line = f"The request cannot be understood{': ' + ', '.join(shown) if shown else ''}."
    return ApiError(ErrorCode.VALIDATION_ERROR, line)


def _wrong(problem: ErrorDetails) -> str:
    """Say which field of a body is wrong; "" where its name is not one that a person typed."""
    name = ".".join(map(str, problem["loc"]))
    if not _is_name(name):
        return ""
    return f"there is no field {name}" if problem["type"] == "extra_forbidden" else name


def _is_name(name: str) -> bool:
    return name.replace(".", "").isalnum()


def _in_batch(number: int, error: HoldfastError, request: Request) -> ApiError:
    line = f"Document {number}: {error}"
    status = error.status if isinstance(error, ApiError) else None
    return ApiError(error.code, line, status=status, errors=request.app.state.errors)


def _answer(model: BaseModel, status: int) -> Response:
    return JSONResponse(model.model_dump(mode="json", by_alias=True, exclude_none=True), status)


def _taken(taken: Taken) -> dict[str, Any]:
    return {"id": taken.id, "status": taken.status, "deduplicated": not taken.created}


def _is_begun(taken: Taken) -> bool:
    return taken.created or taken.is_retried


def _filter(text: str) -> str:
    if not is_filter(text) or "\0" in text:
        line = "A filter by metadata is written key:value."
        raise ApiError(ErrorCode.VALIDATION_ERROR, line)
    return text


def storable(text: str | None) -> str | None:
    """Return a text to compare with stored ones; none of these has a NUL."""
    if text is not None and "\0" in text:
        raise ApiError(ErrorCode.VALIDATION_ERROR, "The request has a NUL character.")
    return text
