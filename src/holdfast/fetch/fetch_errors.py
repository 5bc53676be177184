"""The error codes of the fetcher, in words for the person who gave the address.

A message says nothing about addresses inside the network: who may type a URL may not learn from
the answer what a name means there. The exception's `__cause__` has the details for the log.
"""

import ssl
from enum import StrEnum

import httpcore

from holdfast.errors import Category, ErrorCode, ErrorInfo, HoldfastError, Permanent
from holdfast.resilience.categorize import categorize
from holdfast.resilience.error_attributes import inner_errors
from holdfast.resilience.retry_after import retry_after


class FetchCode(StrEnum):
    """Name the failures of a fetch. A server that answers 429 is the library's `RATE_LIMITED`."""

    URL_INVALID = "URL_INVALID"
    URL_REFUSED = "URL_REFUSED"
    HOST_NOT_FOUND = "HOST_NOT_FOUND"
    FETCH_FAILED = "FETCH_FAILED"
    FETCH_TIMEOUT = "FETCH_TIMEOUT"
    FETCH_TOO_LARGE = "FETCH_TOO_LARGE"
    FETCH_TOO_MANY_REDIRECTS = "FETCH_TOO_MANY_REDIRECTS"
    FETCH_4XX = "FETCH_4XX"
    FETCH_5XX = "FETCH_5XX"
    FETCH_BAD_ANSWER = "FETCH_BAD_ANSWER"


def _infos() -> tuple[ErrorInfo, ...]:
    code, permanent, transient = FetchCode, Category.PERMANENT, Category.TRANSIENT
    rows = (
        (code.URL_INVALID, 400, permanent, "This is not a web address that can be fetched."),
        (code.URL_REFUSED, 422, permanent, "This address is not on the public internet."),
        (code.HOST_NOT_FOUND, 502, transient, "No site was found under this name."),
        (code.FETCH_FAILED, 502, transient, "The connection to the site failed."),
        (code.FETCH_TIMEOUT, 504, transient, "The site took too long to answer."),
        (code.FETCH_TOO_LARGE, 413, permanent, "The site's answer is larger than the limit."),
        (
            code.FETCH_TOO_MANY_REDIRECTS,
            422,
            permanent,
            "The address leads to another one more often than is followed.",
        ),
        (code.FETCH_4XX, 422, permanent, "The site does not give out this page."),
        (code.FETCH_5XX, 502, transient, "The site ran into a problem of its own."),
        (code.FETCH_BAD_ANSWER, 502, transient, "The site's answer was cut off or damaged."),
    )
    return tuple(
        ErrorInfo(name, message, status, category) for name, status, category, message in rows
    )


FETCH_ERRORS: tuple[ErrorInfo, ...] = _infos()
"""Every `FetchCode`, for `App(errors=[*FETCH_ERRORS])`."""

_INFO = {info.code: info for info in FETCH_ERRORS}
_OTHER_CODES = {
    408: FetchCode.FETCH_TIMEOUT,
    425: FetchCode.FETCH_FAILED,
    429: ErrorCode.RATE_LIMITED,
}
"""The transient ones among the statuses 4xx."""
_STATUS_LINES = {
    401: "The site asks for a login.",
    403: "The site does not allow access to this page.",
    404: "The site has no page at this address.",
    410: "The site has removed this page.",
    429: "The site asks for fewer requests.",
}


class FetchError(HoldfastError):
    """Report that a fetch failed, and may succeed another time; see `PermanentFetchError`.

    Args:
        code: a `FetchCode`, or `ErrorCode.RATE_LIMITED`.
        message: one line for people; that of the code without it.
        status: the HTTP status, where the server answered with one that is an error, or with a
            redirect that is not followed.
        retry_after: seconds that the server asked to wait.

    Attributes:
        site: the host that failed, `example.org` or `example.org:8080`: the last one that was asked
            where redirects were followed. None where none was asked.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        # Not super(): in the permanent form that is `Permanent`, whose first argument is the code.
        HoldfastError.__init__(self, message or _INFO[code].message)
        self.code = code
        self.status = status
        self.retry_after = retry_after
        self.site: str | None = None

    @property
    def permanent(self) -> bool:
        """Whether trying again cannot help."""
        return isinstance(self, Permanent)

    def __str__(self) -> str:
        return str(self.args[0])


class PermanentFetchError(FetchError, Permanent):
    """Report that a fetch failed and would fail again."""


class HttpStatusError(Exception):
    """The status and the headers about waiting of an answer that is an error."""

    def __init__(self, status_code: int, headers: dict[str, str]) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code
        self.headers = headers


def failure(code: FetchCode, message: str = "", *, status: int | None = None) -> FetchError:
    """Return the error of a code, permanent or not as the code's category says."""
    permanent = _INFO[code].category is Category.PERMANENT
    return (PermanentFetchError if permanent else FetchError)(code, message, status=status)


def status_failure(answer: HttpStatusError, *, wall_now: float) -> FetchError:
    """Return the error for a status of 400 to 599; `wall_now` is in epoch seconds."""
    status = answer.status_code
    code = _OTHER_CODES.get(status)
    if code is None:
        code = FetchCode.FETCH_4XX if status < 500 else FetchCode.FETCH_5XX
    line = _STATUS_LINES.get(status) or _INFO[code].message
    message = f"{line[:-1]} (HTTP {status})."
    if categorize(answer) is Category.PERMANENT:
        return PermanentFetchError(code, message, status=status)
    wait = retry_after(answer, wall_now=wall_now)
    return FetchError(code, message, status=status, retry_after=wait)


def transport_failure(error: BaseException) -> FetchError:
    """Return the error for one of httpcore's or of the operating system's."""
    if isinstance(error, httpcore.TimeoutException):
        return failure(FetchCode.FETCH_TIMEOUT)
    if isinstance(error, httpcore.ProtocolError):
        return failure(FetchCode.FETCH_BAD_ANSWER)
    if any(isinstance(inner, ssl.SSLCertVerificationError) for inner in inner_errors(error)):
        line = "The site's certificate could not be verified."
        return PermanentFetchError(FetchCode.FETCH_FAILED, line)
    return failure(FetchCode.FETCH_FAILED)
