"""The verdict on an error, and the verdicts that occur again and again."""

from dataclasses import dataclass
from typing import Final

from holdfast.errors import Category, ErrorCode


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What an error means for the next attempt.

    `category` and `code`: what to do and what to call it; where they differ from the row of
        `ERRORS` (a full disk is an `IO_ERROR` that does not pass), this category holds.
    `known`: False where nothing was recognised and the error is transient by default.
    `status`: the HTTP status that came with the error.
    `retry_after`: seconds that the downstream asked to wait, never negative.
    `ambiguous`: the effect may have happened in spite of the error.
    `counts`: a breaker counts it as a failure of the downstream.
    """

    category: Category
    code: str
    known: bool = True
    status: int | None = None
    retry_after: float | None = None
    ambiguous: bool = False
    counts: bool = False


OUR_OWN: Final = frozenset(
    {
        ErrorCode.CIRCUIT_OPEN,
        ErrorCode.RATE_LIMITED,
        ErrorCode.LEASE_LOST,
        ErrorCode.CANCELLED,
        ErrorCode.UNWANTED_RESULT,
        ErrorCode.ARGUMENTS_MISMATCH,
    }
)


def transient(
    code: str, *, ambiguous: bool = False, status: int | None = None, known: bool = True
) -> Diagnosis:
    """Return a transient diagnosis that a breaker counts, unless it is a 4xx or a rejection."""
    counts = code not in OUR_OWN and not (status is not None and 400 <= status < 500)
    return Diagnosis(Category.TRANSIENT, code, known, status, None, ambiguous, counts)


def permanent(code: str, *, status: int | None = None) -> Diagnosis:
    """Return a permanent diagnosis."""
    return Diagnosis(Category.PERMANENT, code, status=status)


UNRECOGNISED: Final = transient(ErrorCode.UNKNOWN, known=False)

BUG = permanent(ErrorCode.UNKNOWN)
INVALID = permanent(ErrorCode.VALIDATION_ERROR)
REFUSED_BY_DOWNSTREAM = permanent(ErrorCode.GW_4XX)
CANCELLED = permanent(ErrorCode.CANCELLED)
UNPARSABLE = permanent(ErrorCode.PARSE_ERROR)
NO_MEMORY = permanent(ErrorCode.MEMORY_ERROR)
FILE = permanent(ErrorCode.IO_ERROR)
FILE_BUSY = transient(ErrorCode.IO_ERROR)
UNTRUSTED = permanent(ErrorCode.GW_UNAVAILABLE)
UNREACHED = transient(ErrorCode.GW_UNAVAILABLE)
BROKEN = transient(ErrorCode.GW_UNAVAILABLE, ambiguous=True)
NEVER_SENT_IN_TIME = transient(ErrorCode.GW_TIMEOUT)
NO_ANSWER_IN_TIME = transient(ErrorCode.GW_TIMEOUT, ambiguous=True)
TROUBLE = transient(ErrorCode.GW_5XX)
THROTTLED = transient(ErrorCode.RATE_LIMITED)
