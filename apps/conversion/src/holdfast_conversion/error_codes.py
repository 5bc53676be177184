"""The service's own error codes, and all that its jobs and its gateway can answer with."""

from collections.abc import Mapping
from types import MappingProxyType

from holdfast.errors import ERRORS, ErrorInfo, Permanent

NOT_PDF = "NOT_PDF"
INVALID_MAPPING = "INVALID_MAPPING"
FILE_NOT_FOUND = "FILE_NOT_FOUND"

DECLARED = (
    ErrorInfo(NOT_PDF, "This is not a PDF; only PDF files can be converted.", 400),
    ErrorInfo(INVALID_MAPPING, "The chosen mapping does not exist or is not valid.", 400),
    ErrorInfo(FILE_NOT_FOUND, "The source file is no longer there; upload it again.", 404),
)

ALL_ERRORS: Mapping[str, ErrorInfo] = MappingProxyType(
    {**ERRORS, **{info.code: info for info in DECLARED}}
)
"""Holdfast's codes and the service's own, by code."""


def file_not_found() -> Permanent:
    """Return the error of a job whose PDF is gone."""
    return Permanent(FILE_NOT_FOUND, ALL_ERRORS[FILE_NOT_FOUND].message)
