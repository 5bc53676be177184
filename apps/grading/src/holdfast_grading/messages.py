"""The messages of grading, as their queues have them: camelCase, times in ISO 8601.

A request asks for one submission to be graded. A callback answers it: with a result, or with the
error that ended it. `CIRCUIT_OPEN` is an error that ends nothing: the request comes back.
"""

from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from holdfast import Permanent
from holdfast_grading.error_codes import INVALID_SCHEMA
from holdfast_grading.graders.rubric import GradingResult

REQUEST = "grading.request"
CALLBACK = "grading.callback"
DEAD_LETTERS = "grading.dlq"
"""The types of the messages, which are also the names of their queues."""

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
M = TypeVar("M", bound="_Message")


class Skill(StrEnum):
    """What a submission is to show."""

    WRITING = "writing"
    SPEAKING = "speaking"


class _Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message; fields are in snake_case here and in camelCase in JSON."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values

    @classmethod
    def from_json(cls: type[M], body: Any) -> M:
        """Return the message that `body` is: JSON text, or JSON values.

        Raises:
            Permanent: `INVALID_SCHEMA`: it is not one.
        """
        try:
            if isinstance(body, str | bytes | bytearray | memoryview):
                return msgspec.json.decode(body, type=cls)
            return msgspec.convert(body, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problem = " ".join(str(error).split())
            raise Permanent(INVALID_SCHEMA, f"not a {cls.__name__}: {problem}") from error


class SubmissionPayload(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is graded: a text, or speech at an address or in a file.

    Attributes:
        audio_file: the name of an uploaded artifact.
    """

    text: str | None = None
    audio_url: str | None = None
    audio_file: str | None = None


class GradingRequest(_Message, frozen=True):
    """Ask for a submission to be graded.

    Attributes:
        request_id: the same for each message about this request; workers and providers
            deduplicate by it.
        deadline_at: after this the result is late.
        attempt: the number that the next attempt has, from 1.
    """

    request_id: _Name
    submission_id: _Name
    skill: Skill
    payload: SubmissionPayload
    deadline_at: _Moment
    attempt: Annotated[int, msgspec.Meta(ge=1)] = 1

    def is_expired(self, now: float) -> bool:
        """Say whether its deadline is over at `now`, in epoch seconds."""
        return now > self.deadline_at.timestamp()


class CallbackError(msgspec.Struct, frozen=True):
    """Why a request has no result."""

    code: _Name
    message: str = ""


class GradingCallback(_Message, frozen=True):
    """Answer a request: `completed` has a result, `error` an error.

    Attributes:
        attempts: how many were made; None where the store has it already.
    """

    request_id: _Name
    submission_id: _Name
    status: Literal["completed", "error"]
    result: GradingResult | None = None
    error: CallbackError | None = None
    attempts: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None

    def __post_init__(self) -> None:
        if (self.status == "completed") != (self.result is not None):
            raise ValueError("a completed callback has a result, and no other has")
        if (self.status == "error") != (self.error is not None):
            raise ValueError("a callback with the status error has an error, and no other has")


def completed(
    request: GradingRequest, result: GradingResult, attempts: int | None = None
) -> GradingCallback:
    """Return the callback that brings a result."""
    return GradingCallback(
        request_id=request.request_id,
        submission_id=request.submission_id,
        status="completed",
        result=result,
        attempts=attempts,
    )


def failed(request: GradingRequest, code: str, message: str) -> GradingCallback:
    """Return the callback that brings an error."""
    return GradingCallback(
        request_id=request.request_id,
        submission_id=request.submission_id,
        status="error",
        error=CallbackError(code, message),
    )


def request_id_of(submission_id: str, name: str) -> str:
    """Return the id of the request to grade a submission that its owner calls `name`.

    It is sent in headers, which cannot hold every printable text, so it has the name's digest.
    Owners may use the same name; the submission's id tells their requests apart.
    """
    return f"{submission_id}.{sha256(name.encode()).hexdigest()[:32]}"


def moment(seconds: float) -> datetime:
    """Return a time, given in epoch seconds, as messages have it."""
    return datetime.fromtimestamp(seconds, UTC)
