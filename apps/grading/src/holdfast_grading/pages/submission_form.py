"""The form of the submissions' page: a text, an address or a file, sent without a script."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from holdfast.http import Caller
from holdfast_grading.intake import Intake
from holdfast_grading.messages import Skill, SubmissionPayload
from holdfast_grading.recordings import SubmissionForm, read_form


def submission_form(intake: Intake) -> APIRouter:
    """Return the route that the form posts to; it goes back to the list with a note."""
    router = APIRouter()

    async def add(request: Request, caller: Caller) -> Response:
        """Take in what the form has."""
        form = await read_form(request, intake.settings.max_audio_bytes)
        skill = intake.skill(form.fields.get("skill", Skill.WRITING))
        payload = _payload(skill, form)
        if payload is None:
            await intake.add_recording(caller, form.recording, None)
        else:
            await intake.add(caller, skill, payload, None)
        return RedirectResponse("/submissions?note=added", 303)

    router.add_api_route(
        "/submissions", add, methods=["POST"], tags=["streamed"], include_in_schema=False
    )
    return router


def _payload(skill: Skill, form: SubmissionForm) -> SubmissionPayload | None:
    """Return the text or the address that the form hands in; None where it is the file."""
    if skill is Skill.WRITING:
        return SubmissionPayload(text=form.fields.get("text", ""))
    if address := form.fields.get("audioUrl", "").strip():
        return SubmissionPayload(audio_url=address)
    return None
