"""Why a file or a request is rejected: the reasons, their statuses, codes and lines for people."""

from enum import Enum

from holdfast import ErrorCode as Code
from holdfast_conversion import error_codes


class Reason(Enum):
    """Name each reason; the child process reports one of these names and nothing else.

    Attributes:
        status: the HTTP status of the answer.
        code: its error code.
        message: one short line for people.
    """

    EMPTY = 400, error_codes.NOT_PDF, "The file is empty."
    NOT_PDF = 400, error_codes.NOT_PDF, "This is not a PDF."
    DAMAGED = 400, Code.PARSE_ERROR, "This PDF is damaged and cannot be read."
    ENCRYPTED = 400, Code.PARSE_ERROR, "This PDF needs a password to be read."
    CRASHED = (
        400,
        Code.PARSE_ERROR,
        "This PDF cannot be read: it breaks the reader, which was ended safely.",
    )
    KILLED = 503, Code.GW_UNAVAILABLE, "The conversion was stopped; try again."
    KILLED_AGAIN = (
        400,
        Code.PARSE_ERROR,
        "This PDF cannot be read: the system ended its reader again and again.",
    )
    OUT_OF_MEMORY = (
        400,
        Code.MEMORY_ERROR,
        "This PDF cannot be read within the memory allowed for one file.",
    )
    OUT_OF_CPU = (
        400,
        Code.TIMEOUT,
        "This PDF cannot be read within the computing time allowed for one file.",
    )
    TOO_MANY_PAGES = 413, Code.TOO_LARGE, "This PDF has more pages than allowed."
    OUTPUT_TOO_LARGE = 413, Code.TOO_LARGE, "The XML of this PDF would be too large."
    BODY_TOO_LARGE = 413, Code.TOO_LARGE, "The file is larger than allowed."
    BODY_CUT = 400, Code.VALIDATION_ERROR, "The upload ended before the file did."
    BODY_SLOW = 408, Code.TIMEOUT, "The upload stood still for too long."
    UNKNOWN_MAPPING = (
        400,
        error_codes.INVALID_MAPPING,
        "Unknown mapping; choose layout, text or metadata.",
    )
    BAD_KEY = (
        400,
        Code.VALIDATION_ERROR,
        "The Idempotency-Key must be 1 to 255 visible ASCII characters.",
    )
    NOT_ACCEPTABLE = 406, Code.VALIDATION_ERROR, "The answer can only be XML."
    WRONG_TYPE = 415, error_codes.NOT_PDF, "The content type must be application/pdf."
    KEY_REUSED = (
        422,
        Code.VALIDATION_ERROR,
        "This Idempotency-Key was used with another file or mapping.",
    )
    SLOW = 400, Code.TIMEOUT, "This PDF cannot be read within the time allowed for one file."
    BUSY = 429, Code.RATE_LIMITED, "The converter is busy; please try again."
    STOPPED = 503, Code.GW_UNAVAILABLE, "The conversion was stopped; try again."  # noqa: PIE796 - numbered below
    STORAGE = 500, Code.IO_ERROR, "The converter could not store the file."

    status: int
    code: str
    message: str

    def __new__(cls, status: int, code: str, message: str) -> "Reason":
        """Give each reason a number as its value: two reasons with one row would be the same."""
        reason = object.__new__(cls)
        reason._value_ = len(cls.__members__)
        reason.status, reason.code, reason.message = status, code, message
        return reason

    @property
    def is_final(self) -> bool:
        """Whether the same request would fail the same way."""
        return self.status < 500 and self.status not in (408, 429)


_BY_CHANCE = frozenset({Reason.CRASHED, Reason.KILLED_AGAIN, Reason.SLOW})
"""Reasons that need not be the file's fault: the next request converts again."""


class Rejection(Exception):
    """Reject a file or a request for a `reason`; `detail` is for the log only."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.name}: {detail}" if detail else reason.name)
        self.reason = reason
        self.detail = detail

    @property
    def is_kept(self) -> bool:
        """Whether the same file would be refused for the same reason again."""
        return self.reason.is_final and self.reason not in _BY_CHANCE
