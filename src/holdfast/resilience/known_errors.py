"""What is known of an exception by its type and, where nothing else is known, by its message.

Libraries are met by the package and name of their classes and never imported. Where it is unclear
whether an error will pass, it is called transient: a few attempts too many cost little, a job
given up for a passing fault costs a person's time. Where it is unclear whether the effect may
have happened, it is called ambiguous.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from holdfast.resilience.codes import by_status
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
    UNPARSABLE,
    UNREACHED,
    UNTRUSTED,
    Diagnosis,
)
from holdfast.resilience.error_attributes import name_of, package_of


@dataclass(frozen=True, slots=True)
class KnownType:
    """What is known by the type alone; a `vague` one yields to what the instance shows.

    `network`: the type is of the connection to the downstream, so only a network error inside it
    says more; a missing socket file is a downstream that is not up, not a missing file.
    """

    diagnosis: Diagnosis
    vague: bool = False
    network: bool = False


def _firm(diagnosis: Diagnosis, names: str) -> dict[str, KnownType]:
    return dict.fromkeys(names.split(), KnownType(diagnosis))


def _vague(diagnosis: Diagnosis, names: str, *, network: bool = True) -> dict[str, KnownType]:
    return dict.fromkeys(names.split(), KnownType(diagnosis, vague=True, network=network))


_HTTPX = {
    **_firm(NEVER_SENT_IN_TIME, "ConnectTimeout PoolTimeout"),
    **_firm(NO_ANSWER_IN_TIME, "ReadTimeout WriteTimeout TimeoutException"),
    **_vague(UNREACHED, "ConnectError ProxyError ConnectionNotAvailable"),
    **_vague(BROKEN, "ReadError WriteError CloseError NetworkError"),
    **_vague(BROKEN, "ProtocolError RemoteProtocolError DecodingError"),
    **_firm(INVALID, "UnsupportedProtocol InvalidURL"),
    **_firm(REFUSED_BY_DOWNSTREAM, "TooManyRedirects"),
}

_AMQP = {
    **_vague(BROKEN, "AMQPConnectionError ConnectionClosed ChannelClosed"),
    **_firm(UNREACHED, "ChannelInvalidStateError ChannelLockedResource DeliveryError"),
    **_firm(REFUSED_BY_DOWNSTREAM, "AuthenticationError ProbableAuthenticationError"),
    **_firm(REFUSED_BY_DOWNSTREAM, "ConnectionNotAllowed ConnectionCommandInvalid"),
    **_firm(REFUSED_BY_DOWNSTREAM, "ConnectionNotImplemented MethodNotImplemented"),
    **_firm(REFUSED_BY_DOWNSTREAM, "ChannelAccessRefused ChannelNotFoundEntity"),
    **_firm(REFUSED_BY_DOWNSTREAM, "ChannelPreconditionFailed DuplicateConsumerTag"),
}

TYPES: Final[dict[str, dict[str, KnownType]]] = {
    "builtins": {
        **_firm(BUG, "TypeError AttributeError NameError ImportError SyntaxError"),
        **_firm(BUG, "NotImplementedError RecursionError AssertionError"),
        **_firm(BUG, "KeyError IndexError LookupError ArithmeticError ZeroDivisionError"),
        **_firm(NO_MEMORY, "MemoryError"),
        **_firm(CANCELLED, "KeyboardInterrupt SystemExit GeneratorExit"),
        **_firm(FILE, "FileNotFoundError PermissionError FileExistsError"),
        **_firm(FILE, "IsADirectoryError NotADirectoryError"),
        **_firm(FILE_BUSY, "BlockingIOError InterruptedError"),
        **_firm(NO_ANSWER_IN_TIME, "TimeoutError"),
        **_firm(UNREACHED, "ConnectionRefusedError"),
        **_firm(BROKEN, "ConnectionResetError ConnectionAbortedError BrokenPipeError"),
        **_vague(BROKEN, "ConnectionError"),
    },
    "asyncio": {
        **_firm(CANCELLED, "CancelledError"),
        **_vague(BROKEN, "IncompleteReadError"),
    },
    "concurrent": _firm(CANCELLED, "CancelledError"),
    "subprocess": _firm(NO_ANSWER_IN_TIME, "TimeoutExpired"),
    "xml": _firm(UNPARSABLE, "ParseError"),
    "socket": {**_vague(UNREACHED, "gaierror"), **_firm(UNREACHED, "herror")},
    # The errno of an SSLError is a number of its own kind and must not be read as one of the
    # system's, so these are firm.
    "ssl": {
        **_firm(UNTRUSTED, "SSLCertVerificationError"),
        **_firm(BROKEN, "SSLError"),
    },
    "http": {
        **_vague(BROKEN, "IncompleteRead BadStatusLine RemoteDisconnected"),
        **_firm(INVALID, "InvalidURL"),
    },
    "urllib": _vague(BROKEN, "URLError"),
    "httpx": _HTTPX,
    "httpcore": _HTTPX,
    "httpx2": _HTTPX,
    "httpcore2": _HTTPX,
    "requests": {
        **_firm(NEVER_SENT_IN_TIME, "ConnectTimeout"),
        **_firm(NO_ANSWER_IN_TIME, "ReadTimeout Timeout"),
        **_vague(BROKEN, "ConnectionError SSLError ProxyError"),
        **_vague(BROKEN, "ChunkedEncodingError ContentDecodingError"),
        **_vague(TROUBLE, "RetryError"),
        **_firm(INVALID, "MissingSchema InvalidSchema InvalidURL InvalidHeader"),
        **_firm(REFUSED_BY_DOWNSTREAM, "TooManyRedirects"),
    },
    "urllib3": {
        **_firm(NEVER_SENT_IN_TIME, "ConnectTimeoutError"),
        **_firm(NO_ANSWER_IN_TIME, "ReadTimeoutError TimeoutError"),
        **_vague(UNREACHED, "NewConnectionError NameResolutionError"),
        **_vague(BROKEN, "MaxRetryError ProtocolError SSLError ProxyError IncompleteRead"),
    },
    "aiohttp": {
        **_firm(NEVER_SENT_IN_TIME, "ConnectionTimeoutError"),
        **_firm(NO_ANSWER_IN_TIME, "ServerTimeoutError SocketTimeoutError"),
        **_firm(UNTRUSTED, "ClientConnectorCertificateError"),
        **_vague(UNREACHED, "ClientConnectorError ClientConnectorDNSError"),
        **_vague(BROKEN, "ClientConnectionError ClientPayloadError"),
        **_firm(INVALID, "InvalidURL"),
        **_firm(REFUSED_BY_DOWNSTREAM, "TooManyRedirects"),
    },
    "anyio": _vague(BROKEN, "BrokenResourceError ClosedResourceError EndOfStream"),
    "websockets": _vague(BROKEN, "ConnectionClosed"),
    "openai": {
        **_vague(NO_ANSWER_IN_TIME, "APITimeoutError"),
        **_vague(BROKEN, "APIConnectionError"),
    },
    "aiormq": _AMQP,
    "aio_pika": _AMQP,
    "redis": {
        **_firm(REFUSED_BY_DOWNSTREAM, "AuthenticationError NoPermissionError"),
        **_firm(NO_ANSWER_IN_TIME, "TimeoutError"),
        **_vague(UNREACHED, "BusyLoadingError"),
        **_vague(BROKEN, "ConnectionError"),
    },
    "botocore": {
        **_firm(NEVER_SENT_IN_TIME, "ConnectTimeoutError"),
        **_firm(NO_ANSWER_IN_TIME, "ReadTimeoutError"),
        **_vague(UNREACHED, "EndpointConnectionError"),
        **_vague(BROKEN, "ConnectionClosedError HTTPClientError"),
        **_firm(REFUSED_BY_DOWNSTREAM, "NoCredentialsError"),
    },
    "asyncpg": _firm(TROUBLE, "InvalidCachedStatementError"),
    "psycopg": _vague(NEVER_SENT_IN_TIME, "ConnectionTimeout"),
    "psycopg_pool": _firm(NEVER_SENT_IN_TIME, "PoolTimeout"),
    "sqlalchemy": _firm(NEVER_SENT_IN_TIME, "TimeoutError"),
}
"""What is known of a class by its package and name."""

ANYWHERE: Final[dict[str, KnownType]] = {
    **_firm(INVALID, "ValidationError RequestValidationError ParamValidationError"),
    # The names of PEP 249, which every database driver and most mappers use.
    **_vague(INVALID, "IntegrityError DataError ProgrammingError", network=False),
    **_vague(INVALID, "NotSupportedError", network=False),
    **_vague(BROKEN, "OperationalError", network=False),
    **_vague(TROUBLE, "InternalError", network=False),
}
"""What is known of a class by its name alone, in any package."""


@lru_cache(maxsize=1024)  # bounded: types made at run time must not be kept for ever
def by_type(kind: type) -> KnownType | None:
    """Judge a type by its nearest known ancestor."""
    for ancestor in kind.__mro__:
        name = name_of(ancestor)
        found = TYPES.get(package_of(ancestor), {}).get(name) or ANYWHERE.get(name)
        if found is not None:
            return found
    return None


def is_from(kind: type, package: str) -> bool:
    """Return whether a type or one of its ancestors was made by a package."""
    return any(package_of(each) == package for each in kind.__mro__)


_REASONS = (
    "bad request|unauthori[sz]ed|payment required|forbidden|not found|method not|not acceptable|"
    "request time|conflict|gone|unsupported|unprocessable|locked|too early|too many|rate limit|"
    "internal server|not implemented|bad gateway|service|gateway time|client error|server error"
)
# A number counts as a status only where it is introduced or followed as one: "404 rows" is not.
_STATUS: Final = re.compile(
    r"(?:\bhttp(?:/\d(?:\.\d)?)?|\bstatus(?:[ _]?code)?|\bcode|\berror)[\s:=#(\[]{0,4}([45]\d\d)\b"
    r"|^[\s(\[]*([45]\d\d)[\s)\]]*(?:$|[:;,.\-]\s)"
    rf"|\b([45]\d\d)[\s)\]:\-]+(?:{_REASONS})"
)
_NUMBER: Final = re.compile(r"[45]\d\d")


def _phrases(diagnosis: Diagnosis, *lines: str) -> tuple[Diagnosis, tuple[str, ...]]:
    return diagnosis, tuple(phrase.strip() for line in lines for phrase in line.split("|"))


# In order of precedence: precise phrases before general ones.
_PHRASES: Final = (
    _phrases(
        THROTTLED,
        "rate limit | rate-limit | ratelimit | too many requests | quota exceeded | throttl",
        "resource exhausted | resource_exhausted",
    ),
    _phrases(
        REFUSED_BY_DOWNSTREAM,
        "unauthorized | unauthorised | invalid api key | invalid_api_key | api key not valid",
        "incorrect api key | forbidden | permission denied | access denied",
        "authentication failed",
    ),
    _phrases(
        INVALID,
        "validation error | unique constraint | foreign key constraint | duplicate key",
        "not null constraint | check constraint",
    ),
    _phrases(
        TROUBLE, "deadlock | lock timeout | lock wait timeout | could not serialize | is locked"
    ),
    _phrases(
        UNREACHED,
        "connection refused | econnrefused | enotfound | eai_again | getaddrinfo",
        "name or service not known | name resolution",
    ),
    _phrases(NO_ANSWER_IN_TIME, "timeout | timed out | etimedout | time-out | deadline exceeded"),
    _phrases(
        TROUBLE,
        "service unavailable | temporarily unavailable | internal server error | bad gateway",
        "overloaded",
    ),
    _phrases(BROKEN, "connection | econnreset | broken pipe | epipe"),
)


@lru_cache(maxsize=256)
def by_words(text: str) -> Diagnosis | None:
    """Judge a message in lower case. This is the weakest evidence and is asked last."""
    # Failures repeat, so the last few messages are remembered.
    status = _STATUS.search(text) if _NUMBER.search(text) else None
    if status is not None:
        found = by_status(int(status[status.lastindex or 0]))
        # It is a guess from a text, not a status that a server sent.
        return None if found is None else replace(found, status=None)
    for diagnosis, phrases in _PHRASES:
        for phrase in phrases:
            if phrase in text:
                return diagnosis
    return None


_NEVER_CONNECTED: Final = re.compile("connection refused|connection failed|could not connect")


def never_connected(text: str) -> bool:
    """Return whether a database driver's message shows that nothing could have been sent."""
    return _NEVER_CONNECTED.search(text) is not None
