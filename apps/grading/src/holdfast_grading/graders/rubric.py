"""The rubric: what is scored for each skill, and the form that every result has."""

from collections.abc import Sequence
from statistics import fmean
from typing import Annotated

import msgspec

HIGHEST = 10.0
Score = Annotated[float, msgspec.Meta(ge=0, le=HIGHEST)]
Comment = Annotated[str, msgspec.Meta(max_length=2000)]
Feedback = Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]


class CriterionScore(msgspec.Struct, frozen=True):
    """The score of one criterion, and why."""

    criterion: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    score: Score
    comment: Comment = ""


class GradingResult(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The grade of a submission.

    Attributes:
        score: the mean of the criteria, from 0 to 10.
        grader: what has graded: `chatmock`, `gemini` or `offline`.
        transcript: what was said, for speech.
    """

    score: Score
    criteria: Annotated[list[CriterionScore], msgspec.Meta(min_length=1, max_length=12)]
    feedback: Feedback
    grader: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    transcript: str | None = None


def graded(criteria: Sequence[CriterionScore], feedback: str, grader: str) -> GradingResult:
    """Return the result whose score is the mean of `criteria`."""
    return GradingResult(
        score=round(fmean(each.score for each in criteria), 2),
        criteria=list(criteria),
        feedback=feedback,
        grader=grader,
    )
