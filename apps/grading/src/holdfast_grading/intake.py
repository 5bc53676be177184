"""What a caller hands in, checked, and found again by its owner only."""

import asyncio
import re
from dataclasses import replace

from holdfast import Engine, ErrorCode, StorageExceeded, TooManyJobs
from holdfast.fetch import Fetcher
from holdfast.files import ArtifactStore
from holdfast.http import ApiError, CallerIdentity, IntakeGate
from holdfast_grading.error_codes import (
    AUDIO_UNREADABLE,
    SPEAKING_OFF,
    SPEAKING_OFF_LINE,
    TEXT_EMPTY,
    TEXT_TOO_LONG,
    UNKNOWN_SKILL,
)
from holdfast_grading.messages import Skill, SubmissionPayload
from holdfast_grading.recordings import keep, recording_name
from holdfast_grading.settings import MOST_CHARACTERS, GradingSettings
from holdfast_grading.stored_submissions import size_of
from holdfast_grading.submissions import NewSubmission, Submissions
from holdfast_grading.tables import Submission

SUBMISSION_ID = re.compile(r"[0-9a-f]{32}")
LONGEST_NAME = 100
"""Characters of a request's name."""
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Intake:
    """Check submissions, and take them in.

    Args:
        settings: the limits, and whether speech is graded.
        fetcher: checks addresses; nothing is fetched with it.
        engine: has the tables.
        gate: says whether anything is taken in.
    """

    def __init__(
        self, settings: GradingSettings, fetcher: Fetcher, engine: Engine, gate: IntakeGate
    ) -> None:
        self.settings = settings
        self._fetcher = fetcher
        self._engine = engine
        self._gate = gate
        self._files = ArtifactStore(settings.files)

    @property
    def submissions(self) -> Submissions:
        """The submissions in the server's database."""
        return Submissions(self._engine)

    def skill(self, name: str) -> Skill:
        """Return the skill called `name`, if it is graded here.

        Raises:
            ApiError: `UNKNOWN_SKILL` or `SPEAKING_OFF`.
        """
        try:
            skill = Skill(name)
        except ValueError:
            line = f"There is no skill {name[:40]!r}; choose {' or '.join(Skill)}."
            raise ApiError(UNKNOWN_SKILL, line, status=400) from None
        if skill is Skill.SPEAKING and not self.settings.grades_speech:
            raise ApiError(SPEAKING_OFF, SPEAKING_OFF_LINE, status=409)
        return skill

    async def add(
        self,
        caller: CallerIdentity,
        skill: Skill,
        payload: SubmissionPayload,
        request_id: str | None,
    ) -> tuple[Submission, bool]:
        """Take a submission in; return it, and False if it was there before.

        Raises:
            ApiError: it is empty, too long, or does not fit its skill; or nothing is taken in.
            PermanentFetchError: its address can never be fetched.
            StorageExceeded: the caller's storage has no room for it.
            TooManyJobs: the caller has as many unfinished jobs as it may have.
        """
        await self._gate.check()
        payload = self._checked(skill, payload)
        _check_name(request_id)
        new = self._new(caller, skill, payload, request_id)
        async with self._engine.owners.turn(caller.owner):
            twin = await self._twin_without_room(caller.owner, request_id, size_of(payload))
            return (twin, False) if twin is not None else await self.submissions.add(new)

    async def add_recording(
        self, caller: CallerIdentity, recording: bytes | None, request_id: str | None
    ) -> tuple[Submission, bool]:
        """Take an uploaded recording in; return its submission, and False if it was there before.

        Raises:
            ApiError: it is empty, or larger than allowed; or no files are taken in.
            StorageExceeded: the caller's storage has no room for it.
            TooManyJobs: the caller has as many unfinished jobs as it may have.
        """
        await self._gate.check(writes_files=True)
        _check_name(request_id)
        data = self._checked_recording(recording)
        async with self._engine.owners.turn(caller.owner):
            twin = await self._twin_without_room(caller.owner, request_id, len(data))
            if twin is not None:
                return twin, False
            submission_id = await self.submissions.new_id()
            payload = SubmissionPayload(audio_file=recording_name(submission_id))
            new = self._new(caller, Skill.SPEAKING, payload, request_id)
            return await self._store(replace(new, id=submission_id), submission_id, data)

    async def _store(
        self, new: NewSubmission, submission_id: str, data: bytes
    ) -> tuple[Submission, bool]:
        """Store the recording, then its submission; keep the file only if that is a new one.

        Where this is cut off, the file is deleted later, by `delete_recordings`.
        """
        name = recording_name(submission_id)
        # While the draft is open, `delete_recordings` leaves the file alone.
        with await asyncio.to_thread(self._files.draft) as draft:
            await asyncio.to_thread(keep, draft, name, data)
            try:
                submission, is_new = await self.submissions.add(new)
            except Exception:
                # It may have been stored before the error, a broken connection for example.
                if not await self.submissions.exists(submission_id):
                    await asyncio.to_thread(self._files.delete, name)
                raise
            if not is_new:
                await asyncio.to_thread(self._files.delete, name)
            return submission, is_new

    async def _twin_without_room(
        self, owner: str, request_id: str | None, size: int
    ) -> Submission | None:
        """Check that the owner's limits have room for `size` bytes; a repeat needs no room.

        Return the submission that is repeated where there is no room; None where there is.

        Raises:
            TooManyJobs, StorageExceeded: there is no room, and nothing is repeated.
        """
        try:
            await self._engine.owners.check_jobs(owner)
            await self._engine.owners.check_storage(owner, size)
        except (TooManyJobs, StorageExceeded):
            found = await self.submissions.of_request(owner, request_id)
            if found is None:
                raise
            return found
        return None

    def _new(
        self,
        caller: CallerIdentity,
        skill: Skill,
        payload: SubmissionPayload,
        request_id: str | None,
    ) -> NewSubmission:
        return NewSubmission(
            owner=caller.owner,
            organisation=caller.organisation,
            skill=skill,
            payload=payload,
            seconds=self.settings.seconds_for(skill),
            request_id=request_id,
        )

    def _checked_recording(self, recording: bytes | None) -> bytes:
        if not recording:
            raise ApiError(AUDIO_UNREADABLE, "Choose a recording.", status=400)
        if len(recording) > self.settings.max_audio_bytes:
            most = self.settings.max_audio_bytes / 2**20
            line = f"The recording is larger than {most:g} MB, the limit."
            raise ApiError(ErrorCode.TOO_LARGE, line)
        return recording

    def _checked(self, skill: Skill, payload: SubmissionPayload) -> SubmissionPayload:
        if skill is Skill.WRITING:
            if payload.text is None or payload.audio_url is not None:
                raise ApiError(ErrorCode.VALIDATION_ERROR, "Writing is handed in as text.")
            return SubmissionPayload(text=_checked_text(payload.text))
        if payload.text is not None:
            raise ApiError(ErrorCode.VALIDATION_ERROR, "Speaking is handed in as audio.")
        if payload.audio_url is None:
            line = "Give the address of the recording, audioUrl."
            raise ApiError(ErrorCode.VALIDATION_ERROR, line)
        return SubmissionPayload(audio_url=str(self._fetcher.check(payload.audio_url)))

    async def find(self, submission_id: str, caller: CallerIdentity) -> Submission:
        """Return a submission of the caller's.

        Raises:
            ApiError: there is none; those of others look as if they did not exist.
        """
        found = None
        if SUBMISSION_ID.fullmatch(submission_id):
            found = await self.submissions.get(caller.owner, submission_id)
        if found is None:
            line = "There is no such submission, or it is not yours."
            raise ApiError(ErrorCode.FORBIDDEN, line)
        return found


def _check_name(request_id: str | None) -> None:
    if request_id is None:
        return
    if len(request_id) > LONGEST_NAME or not request_id.isprintable() or not request_id.strip():
        line = f"requestId must be printable, with at most {LONGEST_NAME} characters."
        raise ApiError(ErrorCode.VALIDATION_ERROR, line)


def _checked_text(text: str) -> str:
    if not text.strip():
        raise ApiError(TEXT_EMPTY, "The text is empty.", status=400)
    if len(text) > MOST_CHARACTERS:
        line = f"The text has {len(text)} characters; at most {MOST_CHARACTERS} are graded."
        raise ApiError(TEXT_TOO_LONG, line, status=413)
    if _UNSTORABLE.search(text):
        line = "The text has a character that cannot be stored."
        raise ApiError(ErrorCode.VALIDATION_ERROR, line)
    return text
