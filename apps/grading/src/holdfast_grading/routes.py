"""The routes below `/api`: what a caller asks for, checked and handed on."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from holdfast import ErrorCode
from holdfast.http import ApiError, Caller, ErrorOut
from holdfast_grading.intake import SUBMISSION_ID, Intake
from holdfast_grading.messages import Skill, SubmissionPayload
from holdfast_grading.recordings import read_form
from holdfast_grading.schemas import (
    ProgressOut,
    SubmissionDetailOut,
    SubmissionIn,
    SubmissionOut,
    SubmissionsOut,
    TakenOut,
)
from holdfast_grading.tables import Status, Submission


class SubmissionApi:
    """Answer requests about submissions; `intake` takes them in."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def add(self, caller: Caller, asked: SubmissionIn) -> Response:
        """Hand in a text, or the address of a recording; the same `requestId` is the same."""
        payload = SubmissionPayload(text=asked.text, audio_url=asked.audio_url)
        skill = self._intake.skill(asked.skill)
        return _taken(*await self._intake.add(caller, skill, payload, asked.request_id))

    async def upload(self, request: Request, caller: Caller) -> Response:
        """Hand in a recording: a form with `file` and, if wanted, `requestId`."""
        self._intake.skill(Skill.SPEAKING)
        form = await read_form(request, self._intake.settings.max_audio_bytes)
        request_id = form.fields.get("requestId") or None
        return _taken(*await self._intake.add_recording(caller, form.recording, request_id))

    async def list_submissions(
        self,
        caller: Caller,
        skill: Skill | None = None,
        status: Status | None = None,
        cursor: Annotated[str | None, Query(max_length=40)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> SubmissionsOut:
        """List one's own submissions, newest first."""
        if cursor and SUBMISSION_ID.fullmatch(cursor) is None:
            raise ApiError(ErrorCode.VALIDATION_ERROR, "There is no such cursor.")
        found = await self._intake.submissions.page(
            caller.owner, skill=skill, status=status, before=cursor or None, limit=limit + 1
        )
        page = found[:limit]
        return SubmissionsOut(
            submissions=[SubmissionOut.of(each) for each in page],
            next_cursor=page[-1].id if len(found) > limit else None,
        )

    async def show(self, caller: Caller, submission_id: str) -> SubmissionDetailOut:
        """Show a submission with its result, and those that came late."""
        submission = await self._intake.find(submission_id, caller)
        results = await self._intake.submissions.results(submission.id)
        return SubmissionDetailOut.with_results(submission, results)

    async def progress(self, caller: Caller) -> ProgressOut:
        """Show the number of graded submissions and their mean score, for each skill."""
        return ProgressOut.of(await self._intake.submissions.progress(caller.owner))


_REFUSED = {"model": ErrorOut, "description": "Refused."}
_TAKEN: dict[int | str, dict[str, Any]] = {
    200: {"model": TakenOut, "description": "The same submission is there already."},
    202: {"model": TakenOut, "description": "Taken in."},
    409: _REFUSED,
    413: _REFUSED,
}


_FORM = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "requestId": {"type": "string", "maxLength": 100},
    },
}
_UPLOAD = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}}


def _taken(submission: Submission, is_new: bool) -> Response:
    body = TakenOut.of(submission, is_new=is_new).model_dump(mode="json", by_alias=True)
    return JSONResponse(body, 202 if is_new else 200)


def submission_routes(intake: Intake) -> APIRouter:
    """Return the routes that ask `intake`."""
    api = SubmissionApi(intake)
    router = APIRouter(prefix="/api", tags=["submissions"])

    def route(path: str, answer: Callable[..., Any], method: str, **how: Any) -> None:
        router.add_api_route(path, answer, methods=[method], **how)

    taken: dict[str, Any] = {"status_code": 202, "response_model": None, "responses": _TAKEN}
    route("/submissions", api.add, "POST", **taken)
    route("/recordings", api.upload, "POST", openapi_extra=_UPLOAD, tags=["streamed"], **taken)
    route("/submissions", api.list_submissions, "GET")
    route("/submissions/{submission_id}", api.show, "GET")
    route("/progress", api.progress, "GET")
    return router
