"""The JSON of the routes: camelCase, timestamps in ISO 8601 and UTC."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from holdfast_grading.messages import Skill
from holdfast_grading.submissions import SkillProgress, StoredResult
from holdfast_grading.tables import Status, Submission


class Model(BaseModel):
    """Fields in snake_case here, in camelCase in JSON."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class SubmissionIn(Model):
    """A submission: `text` for writing, `audioUrl` for speaking; an unknown field is refused."""

    model_config = ConfigDict(extra="forbid")

    skill: str = Field(description="`writing` or `speaking`.")
    text: str | None = Field(default=None, description="What was written.")
    audio_url: str | None = Field(default=None, description="The http or https address of audio.")
    request_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Your own name for it: the same again is the same submission.",
    )


class TakenOut(Model):
    """A submission that was taken in; `deduplicated` where the same was there before."""

    submission_id: str
    request_id: str
    status: Status
    deadline_at: datetime
    deduplicated: bool = False

    @classmethod
    def of(cls, submission: Submission, *, is_new: bool) -> Self:
        """Return `submission` for the wire."""
        return cls(
            submission_id=submission.id,
            request_id=submission.request_id,
            status=submission.status,
            deadline_at=_moment(submission.deadline_at),
            deduplicated=not is_new,
        )


class LateResultOut(Model):
    """A result that came after the deadline, and counts nowhere."""

    received_at: datetime
    is_late: bool = True
    result: dict[str, Any]


class SubmissionOut(Model):
    """A submission as its owner sees it."""

    submission_id: str
    request_id: str
    skill: Skill
    status: Status
    failure_reason: str | None
    failure_message: str | None
    attempts: int
    score: float | None
    created_at: datetime
    deadline_at: datetime
    completed_at: datetime | None

    @classmethod
    def of(cls, submission: Submission) -> Self:
        """Return `submission` for the wire."""
        return cls(**_fields(submission))


class SubmissionDetailOut(SubmissionOut):
    """A submission with what was handed in, and what came of it."""

    text: str | None
    audio_url: str | None
    result: dict[str, Any] | None
    late_results: list[LateResultOut]

    @classmethod
    def with_results(cls, submission: Submission, results: Sequence[StoredResult]) -> Self:
        """Return `submission` and its `results` for the wire."""
        in_time = [each.result for each in results if not each.is_late]
        return cls(
            **_fields(submission),
            text=submission.payload.text,
            audio_url=submission.payload.audio_url,
            result=in_time[0] if in_time else None,
            late_results=[
                LateResultOut(received_at=_moment(each.received_at), result=each.result)
                for each in results
                if each.is_late
            ],
        )


class SubmissionsOut(Model):
    """A page of submissions, newest first."""

    submissions: list[SubmissionOut]
    next_cursor: str | None


class SkillProgressOut(Model):
    """What was achieved in a skill; late results do not count."""

    skill: Skill
    count: int
    mean_score: float


class ProgressOut(Model):
    """What was achieved in each skill."""

    skills: list[SkillProgressOut]

    @classmethod
    def of(cls, progress: Sequence[SkillProgress]) -> Self:
        """Return `progress` for the wire."""
        return cls(
            skills=[
                SkillProgressOut(
                    skill=each.skill, count=each.count, mean_score=round(each.mean_score, 2)
                )
                for each in progress
            ]
        )


def _fields(submission: Submission) -> dict[str, Any]:
    return {
        "submission_id": submission.id,
        "request_id": submission.request_id,
        "skill": submission.skill,
        "status": submission.status,
        "failure_reason": submission.failure_reason,
        "failure_message": submission.failure_message,
        "attempts": submission.attempts,
        "score": submission.score,
        "created_at": _moment(submission.created_at),
        "deadline_at": _moment(submission.deadline_at),
        "completed_at": _moment(submission.completed_at),
    }


def _moment(seconds: float | None) -> Any:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
