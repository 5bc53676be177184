"""The service's own error codes, and all that its jobs and its gateway can answer with."""

from collections.abc import Mapping
from types import MappingProxyType

from holdfast.errors import ERRORS, ErrorCode, ErrorInfo, Permanent

NOT_PDF = "NOT_PDF"
INVALID_MAPPING = "INVALID_MAPPING"
FILE_NOT_FOUND = "FILE_NOT_FOUND"

DECLARED = (
    ErrorInfo(NOT_PDF, "Only PDF files are supported.", 400),
    ErrorInfo(INVALID_MAPPING, "The chosen mapping does not exist or is not valid.", 400),
    ErrorInfo(FILE_NOT_FOUND, "The source file is no longer there; upload it again.", 404),
)

ALL_ERRORS: Mapping[str, ErrorInfo] = MappingProxyType(
    {**ERRORS, **{info.code: info for info in DECLARED}}
)
"""Holdfast's codes and the service's own, by code."""


_WILL_RETRY = " We’ll retry"

LINES: Mapping[str, str] = MappingProxyType(
    {
        ErrorCode.GW_4XX: "Couldn’t convert this file with the selected mapping.",
        ErrorCode.GW_5XX: f"Converter service is having an issue.{_WILL_RETRY} shortly.",
        ErrorCode.GW_UNAVAILABLE: f"Converter service is having an issue.{_WILL_RETRY} shortly.",
        ErrorCode.GW_TIMEOUT: f"Conversion is taking too long.{_WILL_RETRY}.",
        ErrorCode.RATE_LIMITED: f"Converter service is busy.{_WILL_RETRY} shortly.",
        ErrorCode.IO_ERROR: f"Temporary storage issue.{_WILL_RETRY}.",
        ErrorCode.NOT_READY: "Conversion not finished yet.",
        ErrorCode.EXPIRED: "File was removed by retention. Re-upload to regenerate.",
        ErrorCode.FORBIDDEN: "This file isn’t yours.",
    }
)
"""Lines for the people who convert files; the log has the technical reason."""


def line_of(code: str, *, is_retried: bool = True) -> str:
    """Return the line of `code`; one that is not tried again does not promise to be."""
    return LINES[code] if is_retried else LINES[code].partition(_WILL_RETRY)[0]


def file_not_found() -> Permanent:
    """Return the error of a job whose PDF is gone."""
    return Permanent(FILE_NOT_FOUND, ALL_ERRORS[FILE_NOT_FOUND].message)
