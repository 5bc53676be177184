"""Why a file or a request is rejected: the reasons, their codes, statuses and lines for people."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from holdfast import ErrorCode
from holdfast_conversion.error_codes import INVALID_MAPPING, NOT_PDF


class Reason(StrEnum):
    """Name each reason; the child process reports one of these and nothing else."""

    EMPTY = "EMPTY"
    NOT_PDF = "NOT_PDF"
    DAMAGED = "DAMAGED"
    ENCRYPTED = "ENCRYPTED"
    CRASHED = "CRASHED"
    KILLED = "KILLED"
    KILLED_AGAIN = "KILLED_AGAIN"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    OUT_OF_CPU = "OUT_OF_CPU"
    TOO_MANY_PAGES = "TOO_MANY_PAGES"
    OUTPUT_TOO_LARGE = "OUTPUT_TOO_LARGE"
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    BODY_CUT = "BODY_CUT"
    BODY_SLOW = "BODY_SLOW"
    UNKNOWN_MAPPING = "UNKNOWN_MAPPING"
    BAD_KEY = "BAD_KEY"
    NOT_ACCEPTABLE = "NOT_ACCEPTABLE"
    WRONG_TYPE = "WRONG_TYPE"
    KEY_REUSED = "KEY_REUSED"
    BUSY = "BUSY"
    SLOW = "SLOW"
    STOPPED = "STOPPED"
    STORAGE = "STORAGE"


@dataclass(frozen=True, slots=True)
class Meaning:
    """A reason in the answer: HTTP status, code, and one short line for people."""

    status: int
    code: str
    message: str

    @property
    def is_final(self) -> bool:
        """Whether the same request would fail the same way."""
        return self.status < 500 and self.status != 408


def _table() -> Mapping[Reason, Meaning]:
    code = ErrorCode
    rows = {
        Reason.EMPTY: (400, NOT_PDF, "The file is empty."),
        Reason.NOT_PDF: (400, NOT_PDF, "This is not a PDF."),
        Reason.DAMAGED: (400, code.PARSE_ERROR, "This PDF is damaged and cannot be read."),
        Reason.ENCRYPTED: (400, code.PARSE_ERROR, "This PDF needs a password to be read."),
        Reason.CRASHED: (
            400,
            code.PARSE_ERROR,
            "This PDF cannot be read: it breaks the reader, which was ended safely.",
        ),
        Reason.KILLED: (503, code.GW_UNAVAILABLE, "The conversion was stopped; try again."),
        Reason.KILLED_AGAIN: (
            400,
            code.PARSE_ERROR,
            "This PDF cannot be read: the system ended its reader again and again.",
        ),
        Reason.OUT_OF_MEMORY: (
            400,
            code.MEMORY_ERROR,
            "This PDF cannot be read within the memory allowed for one file.",
        ),
        Reason.OUT_OF_CPU: (
            400,
            code.TIMEOUT,
            "This PDF cannot be read within the computing time allowed for one file.",
        ),
        Reason.TOO_MANY_PAGES: (413, code.TOO_LARGE, "This PDF has more pages than allowed."),
        Reason.OUTPUT_TOO_LARGE: (413, code.TOO_LARGE, "The XML of this PDF would be too large."),
        Reason.BODY_TOO_LARGE: (413, code.TOO_LARGE, "The file is larger than allowed."),
        Reason.BODY_CUT: (400, code.VALIDATION_ERROR, "The upload ended before the file did."),
        Reason.BODY_SLOW: (408, code.TIMEOUT, "The upload stood still for too long."),
        Reason.UNKNOWN_MAPPING: (
            400,
            INVALID_MAPPING,
            "Unknown mapping; choose layout, text or metadata.",
        ),
        Reason.BAD_KEY: (
            400,
            code.VALIDATION_ERROR,
            "The Idempotency-Key must be 1 to 255 visible ASCII characters.",
        ),
        Reason.NOT_ACCEPTABLE: (406, code.VALIDATION_ERROR, "The answer can only be XML."),
        Reason.WRONG_TYPE: (415, NOT_PDF, "The content type must be application/pdf."),
        Reason.KEY_REUSED: (
            422,
            code.VALIDATION_ERROR,
            "This Idempotency-Key was used with another file or mapping.",
        ),
        Reason.BUSY: (503, code.GW_UNAVAILABLE, "The converter is busy; please try again."),
        Reason.SLOW: (503, code.GW_TIMEOUT, "The conversion took too long; please try again."),
        Reason.STOPPED: (503, code.GW_UNAVAILABLE, "The conversion was stopped; try again."),
        Reason.STORAGE: (500, code.IO_ERROR, "The converter could not store the file."),
    }
    return MappingProxyType({reason: Meaning(*row) for reason, row in rows.items()})


MEANINGS: Mapping[Reason, Meaning] = _table()
"""How each `Reason` is answered."""


_BY_CHANCE = frozenset({Reason.CRASHED, Reason.KILLED_AGAIN})
"""Reasons that need not be the file's fault: the next request converts again."""


class Rejection(Exception):
    """Reject a file or a request for a `reason`; `detail` is for the log only."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason
        self.detail = detail

    @property
    def meaning(self) -> Meaning:
        """How the reason is answered."""
        return MEANINGS[self.reason]

    @property
    def is_kept(self) -> bool:
        """Whether the same file would be refused for the same reason again."""
        return self.meaning.is_final and self.reason not in _BY_CHANCE
