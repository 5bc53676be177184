"""What the numbers and short codes on an error mean: HTTP status, SQLSTATE, result code, errno."""

import errno
import socket
from functools import lru_cache
from typing import Final

from holdfast.errors import ErrorCode
from holdfast.resilience.diagnosis import (
    BROKEN,
    BUG,
    CANCELLED,
    FILE,
    FILE_BUSY,
    INVALID,
    NEVER_SENT_IN_TIME,
    NO_ANSWER_IN_TIME,
    NO_MEMORY,
    REFUSED_BY_DOWNSTREAM,
    THROTTLED,
    TROUBLE,
    UNREACHED,
    Diagnosis,
    permanent,
    transient,
)


@lru_cache(maxsize=512)
def by_status(status: int) -> Diagnosis | None:
    """Judge an HTTP status; None for one that is not an error."""
    if status == 429:
        return transient(ErrorCode.RATE_LIMITED, status=status)
    if status == 408:
        return transient(ErrorCode.GW_TIMEOUT, ambiguous=True, status=status)
    if status == 425:
        return transient(ErrorCode.GW_UNAVAILABLE, status=status)
    if status in (501, 505) or 300 <= status < 500:
        code = ErrorCode.GW_5XX if status >= 500 else ErrorCode.GW_4XX
        return permanent(code, status=status)
    if 500 <= status < 600:
        # 520 and 524 are a proxy's words for 502 and 504.
        return transient(ErrorCode.GW_5XX, ambiguous=status in (502, 504, 520, 524), status=status)
    return None


_WORDS: Final[dict[str, Diagnosis]] = {
    # The canonical codes of gRPC and Google's APIs.
    "CANCELLED": CANCELLED,
    "UNKNOWN": TROUBLE,
    "INTERNAL": TROUBLE,
    "ABORTED": TROUBLE,
    "DEADLINE_EXCEEDED": NO_ANSWER_IN_TIME,
    "RESOURCE_EXHAUSTED": THROTTLED,
    "UNAVAILABLE": BROKEN,
    **dict.fromkeys(
        (
            *("INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "NOT_FOUND"),
            *("ALREADY_EXISTS", "PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED"),
            "DATA_LOSS",
        ),
        REFUSED_BY_DOWNSTREAM,
    ),
    # Amazon answers these with status 400.
    **dict.fromkeys(
        (
            *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
            *("SlowDown", "RequestLimitExceeded", "TooManyRequestsException"),
            *("BandwidthLimitExceeded", "ProvisionedThroughputExceededException"),
        ),
        THROTTLED,
    ),
    "rate_limit_exceeded": THROTTLED,
    "RequestTimeout": NO_ANSWER_IN_TIME,
    "RequestTimeoutException": NO_ANSWER_IN_TIME,
}


def by_status_word(word: str) -> Diagnosis | None:
    """Judge a code that is a word: gRPC's and Google's, Amazon's, or the name of an errno."""
    found = _WORDS.get(word)
    if found is None and word[:1] == "E":
        number = getattr(errno, word, None) if word.isalnum() else None
        found = by_errno(number) if isinstance(number, int) else None
    return found


_SQLSTATES: Final[dict[str, Diagnosis]] = {
    "0A": REFUSED_BY_DOWNSTREAM,
    "08": BROKEN,
    "08001": UNREACHED,
    "08004": UNREACHED,
    "22": INVALID,
    "23": INVALID,
    # A read-only answer to a write is what the old primary sends after a failover.
    "25006": UNREACHED,
    "25P03": NEVER_SENT_IN_TIME,
    "25P04": NEVER_SENT_IN_TIME,
    # The prepared statement is gone: a pooler has switched the connection under us.
    "26": TROUBLE,
    "40": TROUBLE,
    "40002": INVALID,
    "40003": BROKEN,
    "44": INVALID,
    # The server lacks memory, disk or connections: its operator's matter, and it passes.
    "53": UNREACHED,
    "54": INVALID,
    "55006": NEVER_SENT_IN_TIME,
    "55P03": NEVER_SENT_IN_TIME,
    "57": BROKEN,
    # Cancelled by a statement timeout: rolled back, so nothing has happened.
    "57014": NEVER_SENT_IN_TIME,
    "57P03": UNREACHED,
    "57P04": REFUSED_BY_DOWNSTREAM,
    "57P05": UNREACHED,
    "58": TROUBLE,
    "72": TROUBLE,
    "HYT00": NO_ANSWER_IN_TIME,
    "HYT01": NEVER_SENT_IN_TIME,
    "P0": INVALID,
    "XX": TROUBLE,
    "XX001": FILE,
    "XX002": FILE,
    **dict.fromkeys(
        (
            *("0B", "0F", "0L", "0P", "0Z", "20", "21", "24", "25", "27", "28", "2B", "2D"),
            *("2F", "34", "38", "39", "3B", "3D", "3F", "42", "55", "F0"),
        ),
        REFUSED_BY_DOWNSTREAM,
    ),
}


def by_sqlstate(state: str) -> Diagnosis | None:
    """Judge a SQLSTATE: the five characters first, then their class of two."""
    if len(state) != 5:
        return None
    return _SQLSTATES.get(state) or _SQLSTATES.get(state[:2])


_RESULTS: Final[dict[int, Diagnosis]] = {
    1: INVALID,  # ERROR: bad SQL, no such table
    3: FILE,  # PERM
    4: TROUBLE,  # ABORT: rolled back by another statement
    5: NEVER_SENT_IN_TIME,  # BUSY
    6: NEVER_SENT_IN_TIME,  # LOCKED
    7: NO_MEMORY,  # NOMEM
    8: FILE,  # READONLY
    9: NEVER_SENT_IN_TIME,  # INTERRUPT
    10: FILE_BUSY,  # IOERR
    11: FILE,  # CORRUPT
    12: INVALID,  # NOTFOUND
    13: FILE,  # FULL
    14: FILE_BUSY,  # CANTOPEN: a wrong path, or no file handle left just now
    15: NEVER_SENT_IN_TIME,  # PROTOCOL: lost the race for the WAL's locks
    17: TROUBLE,  # SCHEMA: changed under the statement, which is prepared again next time
    18: INVALID,  # TOOBIG
    19: INVALID,  # CONSTRAINT
    20: INVALID,  # MISMATCH
    21: BUG,  # MISUSE
    22: FILE,  # NOLFS
    23: REFUSED_BY_DOWNSTREAM,  # AUTH
    25: BUG,  # RANGE
    26: FILE,  # NOTADB
}


def by_result(result: int) -> Diagnosis | None:
    """Judge a result code of the embedded database, plain or extended."""
    return _RESULTS.get(result & 0xFF) if result > 0 else None


def _errnos(diagnosis: Diagnosis, names: str) -> dict[int, Diagnosis]:
    # Not every system knows every name.
    numbers = (getattr(errno, name, None) for name in names.split())
    return {number: diagnosis for number in numbers if number is not None}


_ERRNOS: Final[dict[int, Diagnosis]] = {
    **_errnos(FILE, "ENOENT EACCES EPERM EISDIR ENOTDIR EEXIST ENOTEMPTY ENAMETOOLONG ELOOP"),
    **_errnos(FILE, "ENOSPC EROFS EDQUOT EFBIG EXDEV"),
    **_errnos(FILE_BUSY, "EIO EAGAIN EWOULDBLOCK EBUSY EINTR ETXTBSY ESTALE EMFILE ENFILE"),
    **_errnos(FILE_BUSY, "EDEADLK ENOLCK"),
    **_errnos(NO_MEMORY, "ENOMEM"),
    **_errnos(NO_ANSWER_IN_TIME, "ETIMEDOUT"),
    **_errnos(UNREACHED, "ECONNREFUSED EADDRNOTAVAIL"),
    # An established connection can end with these too, so the request may have gone out.
    **_errnos(BROKEN, "ECONNRESET ECONNABORTED EPIPE ENOTCONN ESHUTDOWN ENETDOWN ENETUNREACH"),
    **_errnos(BROKEN, "ENETRESET EHOSTDOWN EHOSTUNREACH ENOBUFS EPROTO"),
}


def by_errno(number: int) -> Diagnosis | None:
    """Judge an error number of the operating system."""
    return _ERRNOS.get(number)


_CALLERS_FAULT: Final = frozenset(
    getattr(socket, name)
    for name in ("EAI_BADFLAGS", "EAI_FAMILY", "EAI_SERVICE", "EAI_SOCKTYPE")
    if hasattr(socket, name)
)


def by_resolver(number: int) -> Diagnosis:
    """Judge the number of a `socket.gaierror`; an unknown host may be known in a moment."""
    return INVALID if number in _CALLERS_FAULT else UNREACHED
