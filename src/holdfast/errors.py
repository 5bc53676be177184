"""The one error taxonomy: every code with its category, retry rule, HTTP status and message.

The API, the job record, the log and the page all read `ERRORS`. A message says what happened and
nothing that stops being true once the last attempt has failed; `ErrorInfo.waiting_message` adds
the promise of another attempt for the time while one is really scheduled.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

__all__ = [
    "ERRORS",
    "AttemptTimeout",
    "Category",
    "CircuitOpenError",
    "ConcurrencyLimitError",
    "DeadlineExceeded",
    "ErrorCode",
    "ErrorInfo",
    "HoldfastError",
    "Permanent",
    "RateLimitedError",
    "RetryLater",
    "RetryRule",
]


class Category(StrEnum):
    """Say whether trying again can help."""

    TRANSIENT = "TRANSIENT"
    PERMANENT = "PERMANENT"


class RetryRule(StrEnum):
    """Say how often an error with this code is tried again without a person."""

    NEVER = "NEVER"
    ONCE = "ONCE"
    POLICY = "POLICY"


class ErrorCode(StrEnum):
    """Name every failure that a user of the package, the API or the pages can meet."""

    NOT_PDF = "NOT_PDF"
    TOO_LARGE = "TOO_LARGE"
    INVALID_MAPPING = "INVALID_MAPPING"
    GW_4XX = "GW_4XX"
    GW_5XX = "GW_5XX"
    GW_TIMEOUT = "GW_TIMEOUT"
    GW_UNAVAILABLE = "GW_UNAVAILABLE"
    IO_ERROR = "IO_ERROR"
    MEMORY_ERROR = "MEMORY_ERROR"
    PARSE_ERROR = "PARSE_ERROR"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    NOT_READY = "NOT_READY"
    EXPIRED = "EXPIRED"
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    FORBIDDEN = "FORBIDDEN"
    INVALID_STATE = "INVALID_STATE"
    TIMEOUT = "TIMEOUT"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    RATE_LIMITED = "RATE_LIMITED"
    LEASE_LOST = "LEASE_LOST"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """Describe one code; `message` is one short line for people."""

    code: ErrorCode
    category: Category
    retry: RetryRule
    http_status: int
    message: str

    @property
    def waiting_message(self) -> str:
        """Return the line to show while another attempt is scheduled."""
        if self.retry is RetryRule.NEVER:
            return self.message
        return f"{self.message} It will be tried again automatically."


def _table() -> Mapping[ErrorCode, ErrorInfo]:
    code, never, once, policy = ErrorCode, RetryRule.NEVER, RetryRule.ONCE, RetryRule.POLICY
    rows = [
        (code.NOT_PDF, never, 400, "This is not a PDF; only PDF files can be converted."),
        (code.TOO_LARGE, never, 413, "This file is larger than the limit allows."),
        (code.INVALID_MAPPING, never, 400, "The chosen mapping does not exist or is not valid."),
        (code.GW_4XX, never, 422, "The service could not work with this file or request."),
        (code.GW_5XX, policy, 502, "The service ran into a problem of its own."),
        (code.GW_TIMEOUT, policy, 504, "The service took too long to answer."),
        (code.GW_UNAVAILABLE, policy, 503, "The service cannot be reached at the moment."),
        (code.IO_ERROR, once, 500, "The file could not be read or stored."),
        (code.MEMORY_ERROR, never, 500, "There was not enough memory for this file."),
        (code.PARSE_ERROR, never, 422, "The content of this file could not be read."),
        (code.VALIDATION_ERROR, never, 422, "The data is not in the form that is needed."),
        (code.NOT_READY, never, 409, "The result is not ready yet; please come back shortly."),
        (code.EXPIRED, never, 404, "The result has been removed; upload the file again."),
        (code.FILE_NOT_FOUND, never, 404, "The source file is no longer there; upload it again."),
        (code.FORBIDDEN, never, 403, "This is not yours to see or change."),
        (code.INVALID_STATE, never, 409, "This cannot be done in the present state."),
        (code.TIMEOUT, never, 504, "This took longer than the time allowed for it."),
        (code.CIRCUIT_OPEN, policy, 503, "The service keeps failing, so calls to it are paused."),
        (code.RATE_LIMITED, policy, 429, "There were too many requests in a short time."),
        (code.LEASE_LOST, policy, 503, "The worker lost touch with this job."),
        (code.CANCELLED, never, 409, "This was cancelled."),
        (code.UNKNOWN, once, 500, "Something unexpected went wrong."),
    ]
    # The category follows from the rule, so that no row can contradict itself.
    return MappingProxyType(
        {
            code: ErrorInfo(
                code=code,
                category=Category.PERMANENT if retry is never else Category.TRANSIENT,
                retry=retry,
                http_status=http_status,
                message=message,
            )
            for code, retry, http_status, message in rows
        }
    )


ERRORS: Mapping[ErrorCode, ErrorInfo] = _table()
"""Every `ErrorCode` with what is known of it."""


class HoldfastError(Exception):
    """Be the base of every error that Holdfast raises itself."""

    code: ErrorCode = ErrorCode.UNKNOWN

    def __reduce__(self) -> tuple[Any, ...]:
        # By default an exception is rebuilt by calling its class with `args`, which breaks for
        # every constructor that takes more than its message; these cross process boundaries.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(
    kind: type[HoldfastError], args: tuple[object, ...], state: dict[str, Any]
) -> HoldfastError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class CircuitOpenError(HoldfastError):
    """Refuse a call because the breaker `name` is open; `retry_at` is epoch seconds or None."""

    code = ErrorCode.CIRCUIT_OPEN

    def __init__(self, name: str, retry_at: float | None = None) -> None:
        super().__init__(f"{name}: the circuit is open{_until(retry_at)}")
        self.name = name
        self.retry_at = retry_at


class AttemptTimeout(HoldfastError, TimeoutError):
    """Report that one attempt of `name` was cut off after `seconds`."""

    code = ErrorCode.TIMEOUT

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"{name}: the attempt was cut off after {seconds:g} s")
        self.name = name
        self.seconds = seconds


class DeadlineExceeded(HoldfastError, TimeoutError):
    """Report that the whole call of `name`, retries and all, was cut off after `seconds`."""

    code = ErrorCode.TIMEOUT

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"{name}: the deadline of {seconds:g} s has passed")
        self.name = name
        self.seconds = seconds


class RateLimitedError(HoldfastError):
    """Refuse a call beyond the rate limit of `name`; `retry_at` is epoch seconds or None."""

    code = ErrorCode.RATE_LIMITED

    def __init__(self, name: str, retry_at: float | None = None) -> None:
        super().__init__(f"{name}: the rate limit is used up{_until(retry_at)}")
        self.name = name
        self.retry_at = retry_at


class ConcurrencyLimitError(HoldfastError):
    """Refuse a call because `limit` calls of `name` are running already."""

    code = ErrorCode.RATE_LIMITED

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(f"{name}: all {limit} places for calls at a time are taken")
        self.name = name
        self.limit = limit


class Permanent(HoldfastError):
    """Raise from an operation or a job to say: do not try this again.

    `code` is an `ErrorCode` or its name. Without a `message` the table's line is used.
    """

    def __init__(self, code: ErrorCode | str, message: str = "") -> None:
        try:
            self.code = ErrorCode(code)
        except ValueError:
            raise ValueError(f"unknown error code: {code!r}") from None
        super().__init__(message or ERRORS[self.code].message)


class RetryLater(HoldfastError):
    """Raise from an operation or a job to say: try again, no sooner than `after` seconds."""

    code = ErrorCode.GW_UNAVAILABLE

    def __init__(self, after: float, message: str = "") -> None:
        if isinstance(after, bool) or not isinstance(after, int | float):
            raise TypeError(f"after must be a number of seconds, not {after!r}")
        if not 0 <= after <= sys.float_info.max:
            raise ValueError(f"after must be finite and not negative, not {after!r}")
        super().__init__(message or f"try again in {after:g} s")
        self.after = float(after)


def _until(retry_at: float | None) -> str:
    return "" if retry_at is None else f" until {retry_at:.3f} (epoch seconds)"
