"""The error taxonomy: every code with its category, HTTP status and message.

The API, the job record, the log and the pages read the library's codes from `ERRORS`, and those of
an app from what it declares: `App("shop", errors=[ErrorInfo("CARD_DECLINED", "…")])`. A code is a
plain string; `ErrorCode` names the library's own. A message says what happened, and promises no
further attempt.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

__all__ = [
    "ERRORS",
    "AbandonedLimitError",
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
    "UnwantedResult",
    "error_code",
    "stored_code",
]


class Category(StrEnum):
    """Say whether trying again can help."""

    TRANSIENT = "TRANSIENT"
    PERMANENT = "PERMANENT"


class ErrorCode(StrEnum):
    """Name the failures that any app can meet; an app adds codes of its own as plain strings."""

    GW_4XX = "GW_4XX"
    GW_5XX = "GW_5XX"
    GW_TIMEOUT = "GW_TIMEOUT"
    GW_UNAVAILABLE = "GW_UNAVAILABLE"
    TOO_LARGE = "TOO_LARGE"
    IO_ERROR = "IO_ERROR"
    MEMORY_ERROR = "MEMORY_ERROR"
    PARSE_ERROR = "PARSE_ERROR"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    ARGUMENTS_MISMATCH = "ARGUMENTS_MISMATCH"
    NOT_READY = "NOT_READY"
    EXPIRED = "EXPIRED"
    INTAKE_PAUSED = "INTAKE_PAUSED"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    INVALID_STATE = "INVALID_STATE"
    TIMEOUT = "TIMEOUT"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    RATE_LIMITED = "RATE_LIMITED"
    TOO_MANY_JOBS = "TOO_MANY_JOBS"
    STORAGE_EXCEEDED = "STORAGE_EXCEEDED"
    LEASE_LOST = "LEASE_LOST"
    CANCELLED = "CANCELLED"
    UNWANTED_RESULT = "UNWANTED_RESULT"
    UNKNOWN = "UNKNOWN"


_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,99}")


def error_code(code: str) -> str:
    """Return `code`, as an `ErrorCode` where it is one of the library's.

    Raises:
        ValueError: it is not written like a code, `CARD_DECLINED`.
    """
    known = _BY_NAME.get(code)
    if known is not None:
        return known
    if not isinstance(code, str) or _CODE.fullmatch(code) is None:
        raise ValueError(
            f"an error code is at most 100 capital letters, digits and '_', and begins with a "
            f"letter, got {code!r}"
        )
    return code


def stored_code(code: str) -> str:
    """Return a code that was stored, as an `ErrorCode` where it is one of the library's."""
    return _BY_NAME.get(code, code)


_BY_NAME: dict[str, ErrorCode] = {code.value: code for code in ErrorCode}


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """Describe one code, the library's or an app's: `App("shop", errors=[ErrorInfo(...)])`.

    Args:
        code: capital letters, digits and `_`.
        message: one short line for people.
        http_status: what the API answers with.
        category: whether trying again can help.

    Raises:
        ValueError: the code, the message or the status cannot be used.
    """

    code: str
    message: str
    http_status: int = 422
    category: Category = Category.PERMANENT

    def __post_init__(self) -> None:
        error_code(self.code)
        if not self.message or not self.message.isprintable():
            raise ValueError(f"{self.code}: the message must be one line, got {self.message!r}")
        if not 400 <= self.http_status <= 599:
            raise ValueError(f"{self.code}: http_status must be 400 to 599: {self.http_status!r}")


def _table() -> Mapping[str, ErrorInfo]:
    code, permanent, transient = ErrorCode, Category.PERMANENT, Category.TRANSIENT
    rows = {
        code.GW_4XX: (422, permanent, "The service could not work with this request."),
        code.GW_5XX: (502, transient, "The service ran into a problem of its own."),
        code.GW_TIMEOUT: (504, transient, "The service took too long to answer."),
        code.GW_UNAVAILABLE: (503, transient, "The service cannot be reached at the moment."),
        code.TOO_LARGE: (413, permanent, "This is larger than the limit allows."),
        code.IO_ERROR: (500, transient, "Data could not be read or stored."),
        code.MEMORY_ERROR: (500, permanent, "There was not enough memory for this."),
        code.PARSE_ERROR: (422, permanent, "The content could not be read."),
        code.VALIDATION_ERROR: (422, permanent, "The data is not in the form that is needed."),
        code.ARGUMENTS_MISMATCH: (
            409,
            transient,
            "This waits for a program that can read what was stored for it.",
        ),
        code.NOT_READY: (409, permanent, "The result is not ready yet; please come back shortly."),
        code.EXPIRED: (404, permanent, "The result has been removed."),
        code.INTAKE_PAUSED: (
            503,
            transient,
            "No new work is taken in just now; please come back later.",
        ),
        code.UNAUTHENTICATED: (401, permanent, "This API key is not valid."),
        code.FORBIDDEN: (403, permanent, "This is not yours to see or change."),
        code.INVALID_STATE: (409, permanent, "This cannot be done in the present state."),
        code.TIMEOUT: (504, permanent, "This took longer than the time allowed for it."),
        code.CIRCUIT_OPEN: (
            503,
            transient,
            "The service keeps failing, so calls to it are paused.",
        ),
        code.RATE_LIMITED: (429, transient, "There were too many requests in a short time."),
        code.TOO_MANY_JOBS: (
            429,
            transient,
            "You have as many unfinished jobs as you may; please wait a while.",
        ),
        code.STORAGE_EXCEEDED: (
            507,
            permanent,
            "Your storage is full; please delete something first.",
        ),
        code.LEASE_LOST: (503, transient, "The worker lost touch with this job."),
        code.CANCELLED: (409, permanent, "This was cancelled."),
        code.UNWANTED_RESULT: (502, transient, "The answer was not the one that was needed."),
        code.UNKNOWN: (500, transient, "Something unexpected went wrong."),
    }
    return MappingProxyType(
        {
            name: ErrorInfo(name, message, status, category)
            for name, (status, category, message) in rows.items()
        }
    )


ERRORS: Mapping[str, ErrorInfo] = _table()
"""Every `ErrorCode` with what is known of it."""


class HoldfastError(Exception):
    """The base of every error that Holdfast raises itself."""

    code: str = ErrorCode.UNKNOWN

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


class AbandonedLimitError(ConcurrencyLimitError):
    """Refuse a blocking call because `limit` earlier ones of `name` are abandoned and still run."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(name, limit)
        self.args = (
            f"{name}: {limit} attempts that are over their time still block a thread each. Give "
            "the client a time-out of its own, or end the operation when holdfast.cancelled() is "
            "true; RetryService(max_abandoned=...) allows more",
        )


class Permanent(HoldfastError):
    """Raise from an operation or a job to say: do not try this again.

    Args:
        code: an `ErrorCode`, or a code of your own; it need not be declared.
        message: one line for people. Without it the code's own line is used: the library's, or
            what the job's app has declared.

    Raises:
        ValueError: the code is not written like one.
    """

    def __init__(self, code: str, message: str = "") -> None:
        self.code = error_code(code)
        known = ERRORS.get(self.code)
        super().__init__(message or ("" if known is None else known.message))

    def __str__(self) -> str:
        return super().__str__() or self.code


class RetryLater(HoldfastError):
    """Raise from an operation or a job to say: try again, no sooner than `after` seconds.

    Args:
        after: seconds.
        message: one line for people.
        code: an `ErrorCode`, or a code of your own; it need not be declared.

    Raises:
        TypeError: `after` is not a number.
        ValueError: `after` is negative or not finite, or the code is not written like one.
    """

    def __init__(
        self, after: float, message: str = "", *, code: str = ErrorCode.GW_UNAVAILABLE
    ) -> None:
        if isinstance(after, bool) or not isinstance(after, int | float):
            raise TypeError(f"after must be a number of seconds, not {after!r}")
        if not 0 <= after <= sys.float_info.max:
            raise ValueError(f"after must be finite and not negative, not {after!r}")
        super().__init__(message or f"try again in {after:g} s")
        self.code = error_code(code)
        self.after = float(after)


class UnwantedResult(HoldfastError):
    """Report that an attempt returned `value`, which the policy's `retry_result` refuses."""

    code = ErrorCode.UNWANTED_RESULT

    def __init__(self, value: object) -> None:
        super().__init__(ERRORS[self.code].message)
        self.value = value


def _until(retry_at: float | None) -> str:
    return "" if retry_at is None else f" until {retry_at:.3f} (epoch seconds)"
