"""The pages of submissions: the list, and one of them."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from holdfast.http import AppPages, Caller, state_of
from holdfast_grading.graders.audio import FORMATS
from holdfast_grading.graders.rubric import HIGHEST
from holdfast_grading.intake import SUBMISSION_ID, Intake
from holdfast_grading.messages import Skill
from holdfast_grading.settings import MOST_CHARACTERS
from holdfast_grading.tables import Status, Submission

PAGE_SIZE = 25
NOTES = {"added": "Handed in. It is graded by itself; you may close the page."}
"""What the page says after a form was sent, by the key in its address."""
_LOOKS = {
    Status.PENDING: ("queued", "Pending"),
    Status.PROCESSING: ("running", "Being graded"),
    Status.COMPLETED: ("done", "Graded"),
    Status.FAILED: ("failed", "Failed"),
}
_CHOICES = {"": "All", "PROCESSING": "Being graded", "COMPLETED": "Graded", "FAILED": "Failed"}
"""The choices of the filter, as they stand in the address."""

Text = Annotated[str, Query()]


@dataclass(frozen=True, slots=True)
class SubmissionRow:
    """A submission as the pages show it.

    Args:
        look: its shape and colour.
        label: its status in words.
        name: the first words of a text, or the address of a recording.
        line: why it failed.
    """

    submission: Submission
    look: str
    label: str
    name: str
    line: str


@dataclass(frozen=True, slots=True)
class View:
    """Which submissions: a choice of the filter, and a cursor."""

    status: str = ""
    cursor: str = ""

    @classmethod
    def of(cls, status: str, cursor: str) -> "View":
        """Return the view that an address asks for; invalid values are ignored."""
        return cls(
            status if status in _CHOICES else "", cursor if SUBMISSION_ID.fullmatch(cursor) else ""
        )

    @property
    def path(self) -> str:
        """Its address."""
        fields = (("status", self.status), ("cursor", self.cursor))
        query = "&".join(f"{name}={value}" for name, value in fields if value)
        return f"/submissions?{query}" if query else "/submissions"


class SubmissionPages:
    """Show submissions; `intake` finds them."""

    def __init__(self, pages: AppPages, intake: Intake) -> None:
        self._pages = pages
        self._intake = intake

    async def listing(
        self,
        request: Request,
        caller: Caller,
        status: Text = "",
        cursor: Text = "",
        note: Text = "",
    ) -> Response:
        """Show the caller's submissions."""
        # Asked first: what happens while the rows are read comes over the stream.
        sequence, view = await self._pages.sequence(), View.of(status, cursor)
        found = await self._intake.submissions.page(
            caller.owner,
            status=Status(view.status) if view.status else None,
            before=view.cursor or None,
            limit=PAGE_SIZE + 1,
        )
        rows = [submission_row(each) for each in found[:PAGE_SIZE]]
        older = View(view.status, rows[-1].submission.id) if len(found) > PAGE_SIZE else None
        return self._pages.answer(
            request,
            "submissions.html",
            part="submission_list.html",
            rows=rows,
            view=view,
            older=None if older is None else older.path,
            choices=[(key, label, View(key).path) for key, label in _CHOICES.items()],
            progress=await self._intake.submissions.progress(caller.owner),
            speech=self._intake.settings.grades_speech,
            formats=FORMATS,
            most_bytes=self._intake.settings.max_audio_bytes,
            most_characters=MOST_CHARACTERS,
            highest=HIGHEST,
            now=state_of(request).clock.wall(),
            note=NOTES.get(note, ""),
            sequence=sequence,
        )

    async def show(self, request: Request, caller: Caller, submission_id: str) -> Response:
        """Show one submission: what was handed in, and what came of it."""
        sequence = await self._pages.sequence()
        submission = await self._intake.find(submission_id, caller)
        results = await self._intake.submissions.results(submission.id)
        return self._pages.answer(
            request,
            "submission.html",
            part="submission_body.html",
            row=submission_row(submission),
            results=[each for each in results if not each.is_late],
            late=[each for each in results if each.is_late],
            highest=HIGHEST,
            now=state_of(request).clock.wall(),
            sequence=sequence,
        )


def submission_row(submission: Submission) -> SubmissionRow:
    """Return a submission as the pages show it."""
    look, label = _LOOKS[submission.status]
    line = ""
    if submission.failure_reason == "TIMEOUT":
        label = "Not graded in time"
        line = "Its deadline is over; a grade that still comes is kept apart."
    elif submission.failure_reason is not None:
        line = submission.failure_message or submission.failure_reason
    return SubmissionRow(submission, look, label, _name(submission), line)


def _name(submission: Submission) -> str:
    payload = submission.payload
    if submission.skill is Skill.WRITING:
        return " ".join((payload.text or "").split())[:120]
    return payload.audio_url or "A recording"


def submission_pages(pages: AppPages, intake: Intake) -> APIRouter:
    """Return the routes of the pages."""
    own, router = SubmissionPages(pages, intake), APIRouter()
    router.add_api_route("/submissions", own.listing, methods=["GET", "HEAD"])
    router.add_api_route("/submissions/{submission_id}", own.show, methods=["GET"])
    return router
