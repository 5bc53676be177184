import asyncio
import errno
import functools
import pickle
import socket
import sqlite3
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import httpx
import openai
import psycopg
import psycopg.errors
import pytest
import requests
import sqlalchemy
import sqlalchemy.exc
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import (
    Category,
)
from holdfast.resilience.categorize import Diagnosis, categorize, diagnose
from holdfast.resilience.codes import by_errno, by_result, by_sqlstate, by_status, by_status_word

with warnings.catch_warnings():
    # Python reports an invalid escape in the package whenever it has to compile it anew.
    warnings.simplefilter("ignore", DeprecationWarning)
    from google.genai import errors as genai_errors

NOW = datetime(2025, 10, 17, 12, 0, tzinfo=UTC).timestamp()
TRANSIENT, PERMANENT = Category.TRANSIENT, Category.PERMANENT
REQUEST = httpx.Request("POST", "http://127.0.0.1/convert")


def look(error: BaseException) -> Diagnosis:
    return diagnose(error, wall_now=NOW)


def told(error: BaseException) -> tuple[Category, str]:
    found = look(error)
    assert categorize(error) is found.category
    return found.category, found.code.value


def raised(action: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller asserts what it is
        action()
    return caught.value


def wrapped(error: BaseException, message: str = "the step failed") -> RuntimeError:
    wrapper = RuntimeError(message)
    wrapper.__cause__ = error
    return wrapper


def loose(message: str = "loose", **attributes: Any) -> Exception:
    """Make an error of a class that nobody knows, with attributes of its own."""
    error = type("Loose", (Exception,), {})(message)
    vars(error).update(attributes)
    return error


def foreign(package: str, *names: str, base: type[Exception] = Exception) -> type[Exception]:
    """Make a class as a library that is not installed here would have made it."""
    made = base
    for name in names:
        made = type(name, (made,), {"__module__": f"{package}.exceptions"})
    return made


# --- HTTP statuses --------------------------------------------------------------------------------


def status_error(status: int, **headers: str) -> Exception:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return raised(httpx.Response(status, headers=named, request=REQUEST).raise_for_status)


def requests_status_error(status: int) -> Exception:
    response = requests.Response()
    response.status_code = status
    return raised(response.raise_for_status)


def urllib_status_error(status: int) -> Exception:
    return urllib.error.HTTPError("http://127.0.0.1", status, "x", None, None)  # type: ignore[arg-type]


STATUS_ERRORS = [status_error, requests_status_error, urllib_status_error]


@pytest.mark.parametrize("carrier", STATUS_ERRORS)
@pytest.mark.parametrize(
    ("status", "category", "code", "ambiguous", "counts"),
    [
        (400, PERMANENT, "GW_4XX", False, False),
        (406, PERMANENT, "GW_4XX", False, False),
        (408, TRANSIENT, "GW_TIMEOUT", True, False),
        (409, PERMANENT, "GW_4XX", False, False),
        (413, PERMANENT, "GW_4XX", False, False),
        (415, PERMANENT, "GW_4XX", False, False),
        (425, TRANSIENT, "GW_UNAVAILABLE", False, False),
        (429, TRANSIENT, "RATE_LIMITED", False, False),
        (500, TRANSIENT, "GW_5XX", False, True),
        (501, PERMANENT, "GW_5XX", False, False),
        (502, TRANSIENT, "GW_5XX", True, True),
        (503, TRANSIENT, "GW_5XX", False, True),
        (504, TRANSIENT, "GW_5XX", True, True),
        (505, PERMANENT, "GW_5XX", False, False),
        (599, TRANSIENT, "GW_5XX", False, True),
    ],
)
def test_a_status_decides(carrier, status, category, code, ambiguous, counts):
    found = look(carrier(status))
    assert (found.category, found.code.value, found.status) == (category, code, status)
    assert (found.ambiguous, found.counts, found.known) == (ambiguous, counts, True)


def test_a_redirect_that_was_not_followed_is_permanent():
    assert told(status_error(302, location="/x")) == (PERMANENT, "GW_4XX")


def test_retry_after_comes_with_the_diagnosis():
    assert look(status_error(429, retry_after="7")).retry_after == 7.0
    assert look(status_error(503, retry_after="Fri, 17 Oct 2025 12:00:09 GMT")).retry_after == 9.0
    assert look(wrapped(status_error(429, retry_after="7"))).retry_after == 7.0
    assert look(status_error(503)).retry_after is None


def test_a_permanent_error_has_nothing_to_wait_for():
    assert look(status_error(404, retry_after="7")).retry_after is None


# --- providers -----------------------------------------------------------------------------------


def openai_status(status: int, **headers: str) -> Exception:
    def answer(request: httpx.Request) -> httpx.Response:
        body = {"error": {"message": "connection timeout", "code": None}}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.Response(status, headers=named, json=body, request=request)

    return raised(lambda: openai_call(httpx.MockTransport(answer)))


def openai_call(transport: httpx.BaseTransport) -> object:
    client = openai.OpenAI(
        api_key="k",
        base_url="http://127.0.0.1:1",
        max_retries=0,
        http_client=httpx.Client(transport=transport),
    )
    with client:
        return client.models.list()


@pytest.mark.parametrize(
    ("status", "kind", "category", "code"),
    [
        (400, openai.BadRequestError, PERMANENT, "GW_4XX"),
        (401, openai.AuthenticationError, PERMANENT, "GW_4XX"),
        (404, openai.NotFoundError, PERMANENT, "GW_4XX"),
        (429, openai.RateLimitError, TRANSIENT, "RATE_LIMITED"),
        (500, openai.InternalServerError, TRANSIENT, "GW_5XX"),
        (503, openai.InternalServerError, TRANSIENT, "GW_5XX"),
    ],
)
def test_openai_statuses(status, kind, category, code):
    error = openai_status(status)
    assert isinstance(error, kind)
    assert told(error) == (category, code)
    assert look(error).status == status


def test_openai_asks_for_time():
    assert look(openai_status(429, retry_after_ms="1500", retry_after="2")).retry_after == 1.5


@pytest.mark.parametrize(
    ("cause", "kind", "code", "ambiguous"),
    [
        (httpx.ConnectError("refused"), openai.APIConnectionError, "GW_UNAVAILABLE", False),
        (httpx.ReadError("broken"), openai.APIConnectionError, "GW_UNAVAILABLE", True),
        (httpx.ConnectTimeout("slow"), openai.APITimeoutError, "GW_TIMEOUT", False),
        (httpx.ReadTimeout("slow"), openai.APITimeoutError, "GW_TIMEOUT", True),
    ],
)
def test_openai_connection_errors_are_told_apart_by_their_cause(cause, kind, code, ambiguous):
    def answer(request: httpx.Request) -> httpx.Response:
        raise cause

    error = raised(lambda: openai_call(httpx.MockTransport(answer)))
    assert isinstance(error, kind)
    assert told(error) == (TRANSIENT, code)
    assert look(error).ambiguous is ambiguous


def genai_error(status: int, word: str) -> Exception:
    body = {"error": {"code": status, "status": word, "message": "connection timeout"}}
    response = httpx.Response(status, json=body, request=REQUEST)
    return raised(lambda: genai_errors.APIError.raise_for_response(response))


@pytest.mark.parametrize(
    ("status", "word", "kind", "category", "code"),
    [
        (400, "INVALID_ARGUMENT", genai_errors.ClientError, PERMANENT, "GW_4XX"),
        (403, "PERMISSION_DENIED", genai_errors.ClientError, PERMANENT, "GW_4XX"),
        (429, "RESOURCE_EXHAUSTED", genai_errors.ClientError, TRANSIENT, "RATE_LIMITED"),
        (500, "INTERNAL", genai_errors.ServerError, TRANSIENT, "GW_5XX"),
        (503, "UNAVAILABLE", genai_errors.ServerError, TRANSIENT, "GW_5XX"),
    ],
)
def test_gemini_statuses(status, word, kind, category, code):
    error = genai_error(status, word)
    assert isinstance(error, kind)
    assert told(error) == (category, code)
    assert look(error).status == status
    assert told(pickle.loads(pickle.dumps(error))) == (category, code)


def test_gemini_without_a_number_is_judged_by_its_word():
    error = genai_errors.APIError(0, {"error": {"status": "RESOURCE_EXHAUSTED"}})
    assert told(error) == (TRANSIENT, "RATE_LIMITED")


# --- databases -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "category", "code"),
    [
        (asyncpg.DeadlockDetectedError, TRANSIENT, "GW_5XX"),
        (asyncpg.SerializationError, TRANSIENT, "GW_5XX"),
        (asyncpg.TooManyConnectionsError, TRANSIENT, "GW_UNAVAILABLE"),
        (asyncpg.CannotConnectNowError, TRANSIENT, "GW_UNAVAILABLE"),
        (asyncpg.ConnectionDoesNotExistError, TRANSIENT, "GW_UNAVAILABLE"),
        (asyncpg.AdminShutdownError, TRANSIENT, "GW_UNAVAILABLE"),
        (asyncpg.LockNotAvailableError, TRANSIENT, "GW_TIMEOUT"),
        (asyncpg.QueryCanceledError, TRANSIENT, "GW_TIMEOUT"),
        (asyncpg.InvalidCachedStatementError, TRANSIENT, "GW_5XX"),
        (asyncpg.UniqueViolationError, PERMANENT, "VALIDATION_ERROR"),
        (asyncpg.ForeignKeyViolationError, PERMANENT, "VALIDATION_ERROR"),
        (asyncpg.InvalidTextRepresentationError, PERMANENT, "VALIDATION_ERROR"),
        (asyncpg.UndefinedTableError, PERMANENT, "GW_4XX"),
        (asyncpg.InvalidPasswordError, PERMANENT, "GW_4XX"),
        (asyncpg.InvalidCatalogNameError, PERMANENT, "GW_4XX"),
        (asyncpg.RaiseError, PERMANENT, "VALIDATION_ERROR"),
    ],
)
def test_asyncpg_errors(kind, category, code):
    assert told(kind("connection 404")) == (category, code)


def test_a_deadlock_was_rolled_back_and_a_lost_connection_may_have_committed():
    assert look(asyncpg.DeadlockDetectedError("x")).ambiguous is False
    assert look(asyncpg.ConnectionDoesNotExistError("x")).ambiguous is True
    assert look(asyncpg.TransactionResolutionUnknownError("x")).ambiguous is True


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_asyncpg_refused(closed_port: int):
    async def connect() -> None:
        await asyncpg.connect(host="127.0.0.1", port=closed_port, user="u", password="p")

    error = raised(lambda: asyncio.run(connect()))
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous is False


@pytest.mark.parametrize(
    ("kind", "category", "code"),
    [
        (psycopg.errors.DeadlockDetected, TRANSIENT, "GW_5XX"),
        (psycopg.errors.SerializationFailure, TRANSIENT, "GW_5XX"),
        (psycopg.errors.TooManyConnections, TRANSIENT, "GW_UNAVAILABLE"),
        (psycopg.errors.QueryCanceled, TRANSIENT, "GW_TIMEOUT"),
        (psycopg.errors.IdleInTransactionSessionTimeout, TRANSIENT, "GW_TIMEOUT"),
        (psycopg.errors.UniqueViolation, PERMANENT, "VALIDATION_ERROR"),
        (psycopg.errors.NotNullViolation, PERMANENT, "VALIDATION_ERROR"),
        (psycopg.errors.SyntaxError, PERMANENT, "GW_4XX"),
        (psycopg.errors.InFailedSqlTransaction, PERMANENT, "GW_4XX"),
        (psycopg.errors.InvalidPassword, PERMANENT, "GW_4XX"),
        (psycopg.errors.DatabaseDropped, PERMANENT, "GW_4XX"),
        (psycopg.errors.ConnectionTimeout, TRANSIENT, "GW_TIMEOUT"),
        (psycopg.OperationalError, TRANSIENT, "GW_UNAVAILABLE"),
        (psycopg.ProgrammingError, PERMANENT, "VALIDATION_ERROR"),
        (psycopg.InternalError, TRANSIENT, "GW_5XX"),
    ],
)
def test_psycopg_errors(kind, category, code):
    assert told(kind("connection 404")) == (category, code)


def test_psycopg_refused(closed_port: int):
    target = f"host=127.0.0.1 port={closed_port} user=u dbname=d"
    error = raised(lambda: psycopg.connect(target, connect_timeout=2))
    assert isinstance(error, psycopg.OperationalError)
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous is False


def test_psycopg_connection_lost_in_the_middle_may_have_committed():
    error = psycopg.OperationalError("server closed the connection unexpectedly")
    assert look(error).ambiguous is True


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = str(tmp_path / "work.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()
    return path


@contextmanager
def locked(path: str) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        yield


INSERT = "INSERT INTO t VALUES (1)"


def test_sqlite_locked_is_transient(database: str):
    with locked(database), closing(sqlite3.connect(database, timeout=0)) as connection:
        error = raised(lambda: connection.execute(INSERT))
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")
    assert look(error).ambiguous is False


def test_sqlite_mistakes_are_permanent(database: str, tmp_path: Path):
    (tmp_path / "garbage").write_bytes(b"no database at all " * 100)
    with (
        closing(sqlite3.connect(database)) as good,
        closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as read_only,
        closing(sqlite3.connect(tmp_path / "garbage")) as garbage,
    ):
        for action, code in (
            (lambda: good.execute(INSERT), "VALIDATION_ERROR"),
            (lambda: good.execute("SELECT * FROM none"), "VALIDATION_ERROR"),
            (lambda: good.execute("INSERT INTO t VALUES ('x')"), "VALIDATION_ERROR"),
            (lambda: good.execute("SELECT ?", (1, 2)), "VALIDATION_ERROR"),
            (lambda: read_only.execute("DELETE FROM t"), "IO_ERROR"),
            (lambda: garbage.execute("SELECT * FROM t"), "IO_ERROR"),
        ):
            assert told(raised(action)) == (PERMANENT, code)


def test_sqlite_that_cannot_open_its_file_is_tried_again(tmp_path: Path):
    error = raised(lambda: sqlite3.connect(tmp_path / "none" / "work.db"))
    assert told(error) == (TRANSIENT, "IO_ERROR")


def test_apsw_errors(database: str):
    with closing(apsw.Connection(database)) as connection:
        for statement in (INSERT, "SELECT * FROM none"):
            error = raised(functools.partial(connection.execute, statement))
            assert told(error) == (PERMANENT, "VALIDATION_ERROR")
        with closing(apsw.Connection(database)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            error = raised(functools.partial(connection.execute, INSERT))
    assert isinstance(error, apsw.BusyError)
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")


def test_sqlalchemy_wraps_what_the_driver_said(database: str):
    engine = sqlalchemy.create_engine(f"sqlite:///{database}", connect_args={"timeout": 0})

    def run(statement: str) -> None:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(statement))

    unique = raised(lambda: run(INSERT))
    missing = raised(lambda: run("SELECT * FROM none"))
    with locked(database):
        busy = raised(lambda: run(INSERT))
    engine.dispose()
    assert isinstance(unique, sqlalchemy.exc.IntegrityError)
    assert told(unique) == (PERMANENT, "VALIDATION_ERROR")
    assert isinstance(missing, sqlalchemy.exc.OperationalError)
    assert told(missing) == (PERMANENT, "VALIDATION_ERROR")
    assert isinstance(busy, sqlalchemy.exc.OperationalError)
    assert told(busy) == (TRANSIENT, "GW_TIMEOUT")
    assert look(busy).ambiguous is False


def test_sqlalchemy_without_a_cause_is_read_by_what_it_carries():
    deadlock = psycopg.errors.DeadlockDetected("x")
    error = sqlalchemy.exc.DBAPIError("SELECT", {}, deadlock)
    assert told(error) == (TRANSIENT, "GW_5XX")


def test_sqlalchemy_pool_that_is_used_up_has_sent_nothing():
    error = sqlalchemy.exc.TimeoutError("QueuePool limit")
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")
    assert look(error).ambiguous is False


# --- libraries met by shape alone ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "category", "code"),
    [
        ("UNAVAILABLE", TRANSIENT, "GW_UNAVAILABLE"),
        ("DEADLINE_EXCEEDED", TRANSIENT, "GW_TIMEOUT"),
        ("RESOURCE_EXHAUSTED", TRANSIENT, "RATE_LIMITED"),
        ("NOT_FOUND", PERMANENT, "GW_4XX"),
        ("CANCELLED", PERMANENT, "CANCELLED"),
    ],
)
def test_grpc_tells_its_code_when_called(word, category, code):
    answer = Enum("StatusCode", {word: (1, "x")})[word]  # type: ignore[misc]
    error = foreign("grpc", "RpcError")("connection")
    vars(error)["code"] = lambda: answer
    assert told(error) == (category, code)


def test_a_code_that_raises_when_called_says_nothing():
    error = foreign("grpc", "RpcError")("boom")
    vars(error)["code"] = lambda: 1 / 0
    assert look(error).known is False


def test_a_strangers_code_is_never_called():
    called: list[int] = []
    assert look(loose(code=lambda: called.append(1))).known is False
    assert called == []


@pytest.mark.parametrize(
    ("response", "category", "code"),
    [
        ({"ResponseMetadata": {"HTTPStatusCode": 404}}, PERMANENT, "GW_4XX"),
        ({"ResponseMetadata": {"HTTPStatusCode": 503}}, TRANSIENT, "GW_5XX"),
        (
            {"Error": {"Code": "ThrottlingException"}, "ResponseMetadata": {"HTTPStatusCode": 400}},
            TRANSIENT,
            "RATE_LIMITED",
        ),
        ({"Error": {"Code": "NoSuchKey"}, "ResponseMetadata": {}}, TRANSIENT, "UNKNOWN"),
        ({"Error": None, "ResponseMetadata": None}, TRANSIENT, "UNKNOWN"),
    ],
)
def test_amazons_code_is_more_exact_than_its_status(response, category, code):
    assert told(loose("boom", response=response)) == (category, code)


def test_a_connector_that_never_connected_is_not_ambiguous():
    kind = foreign("aiohttp", "ClientConnectorError", base=OSError)
    found = look(kind(errno.EHOSTUNREACH, "no route"))
    assert (found.category, found.code.value, found.ambiguous) == (
        TRANSIENT,
        "GW_UNAVAILABLE",
        False,
    )


@pytest.mark.parametrize(
    ("attributes", "known"),
    [
        ({"status_code": 503}, True),
        ({"status": 503}, True),
        ({"code": "503"}, True),
        ({"http_status": 503}, True),
        ({"pgcode": "40001"}, True),
        ({"errno": errno.ECONNRESET}, True),
        ({"status_code": 200}, False),
        ({"status_code": True}, False),
        ({"status_code": 5030}, False),
        ({"status_code": "\uff15\uff10\uff13"}, False),
        ({"code": 301}, False),
        ({"code": 1006}, False),
        ({"code": -1}, False),
        ({"code": "e3q8"}, False),
        ({"status": ["503"]}, False),
        ({"sqlstate": "40"}, False),
        ({"sqlstate": 40001}, False),
        ({"sqlstate": "00000"}, False),
        ({"errno": "ECONNRESET"}, False),
        ({"errno": 99_999}, False),
        ({"response": object()}, False),
        ({"response": {}}, False),
        ({"reason": "404", "orig": "x"}, False),
        ({"result": 5}, False),
        ({"some_errorcode": 5}, True),
        ({"some_errorcode": 0}, False),
        ({"some_errorcode": "5"}, False),
    ],
)
def test_attributes_are_believed_only_in_their_own_shape(attributes, known):
    assert look(loose("boom", **attributes)).known is known


# --- the tables --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 100, 200, 204, 299, 600, 1006])
def test_a_status_that_is_no_error_says_nothing(status):
    assert by_status(status) is None


@given(st.integers(400, 499))
def test_of_the_4xx_only_three_pass_and_none_counts(status):
    found = by_status(status)
    assert found is not None
    assert (found.category is TRANSIENT) == (status in (408, 425, 429))
    assert found.counts is False


@given(st.integers(500, 599))
def test_of_the_5xx_all_pass_but_two_and_count(status):
    found = by_status(status)
    assert found is not None
    assert (found.category is TRANSIENT) == found.counts == (status not in (501, 505))


@pytest.mark.parametrize(
    ("state", "category", "ambiguous"),
    [
        *((state, TRANSIENT, False) for state in ("08001", "08004", "25006", "25P03", "26000")),
        *((state, TRANSIENT, False) for state in ("40001", "40P01", "53100", "53200", "53300")),
        *((state, TRANSIENT, False) for state in ("55006", "55P03", "57014", "57P03", "57P05")),
        *((state, TRANSIENT, False) for state in ("58030", "72000", "XX000", "HYT01")),
        *((state, TRANSIENT, True) for state in ("08000", "08003", "08006", "08007", "40003")),
        *((state, TRANSIENT, True) for state in ("57P01", "57P02", "HYT00")),
        *((state, PERMANENT, False) for state in ("0A000", "22001", "22P02", "23503", "23505")),
        *((state, PERMANENT, False) for state in ("25P02", "28000", "28P01", "3D000", "40002")),
        *((state, PERMANENT, False) for state in ("42601", "42P01", "42501", "44000", "54000")),
        *((state, PERMANENT, False) for state in ("55000", "57P04", "P0001", "XX001", "XX002")),
    ],
)
def test_sqlstates(state, category, ambiguous):
    found = by_sqlstate(state)
    assert found is not None
    assert (found.category, found.ambiguous) == (category, ambiguous)


@pytest.mark.parametrize("state", ["", "40", "00000", "01000", "02000", "ZZ999", "400011", "HY000"])
def test_a_sqlstate_that_names_no_failure_we_know_says_nothing(state):
    assert by_sqlstate(state) is None


@pytest.mark.parametrize(
    ("name", "category"),
    [
        *((name, TRANSIENT) for name in ("BUSY", "LOCKED", "IOERR", "PROTOCOL", "INTERRUPT")),
        *((name, TRANSIENT) for name in ("SCHEMA", "ABORT", "CANTOPEN", "BUSY_SNAPSHOT")),
        *((name, TRANSIENT) for name in ("IOERR_FSYNC", "LOCKED_SHAREDCACHE", "BUSY_RECOVERY")),
        *((name, PERMANENT) for name in ("ERROR", "CONSTRAINT", "MISMATCH", "READONLY", "FULL")),
        *((name, PERMANENT) for name in ("CORRUPT", "NOTADB", "AUTH", "PERM", "TOOBIG", "NOMEM")),
        *((name, PERMANENT) for name in ("MISUSE", "RANGE", "NOLFS", "CONSTRAINT_UNIQUE")),
    ],
)
def test_result_codes_plain_and_extended(name, category):
    found = by_result(getattr(sqlite3, f"SQLITE_{name}"))
    assert found is not None
    assert found.category is category
    assert found.ambiguous is False


@pytest.mark.parametrize("result", [0, -1, 2, 100, 101, 255])
def test_a_result_that_is_no_known_failure_says_nothing(result):
    assert by_result(result) is None


@pytest.mark.parametrize(
    ("names", "category", "code"),
    [
        ("ENOENT EACCES EPERM EISDIR ENOTDIR ENOSPC EROFS EDQUOT", PERMANENT, "IO_ERROR"),
        ("EIO EAGAIN EBUSY EINTR EMFILE", TRANSIENT, "IO_ERROR"),
        ("ENOMEM", PERMANENT, "MEMORY_ERROR"),
        ("ETIMEDOUT", TRANSIENT, "GW_TIMEOUT"),
        ("ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ENOTCONN", TRANSIENT, "GW_UNAVAILABLE"),
        ("ENETDOWN ENETUNREACH EHOSTUNREACH EADDRNOTAVAIL", TRANSIENT, "GW_UNAVAILABLE"),
    ],
)
def test_error_numbers_by_the_system_and_by_name(names, category, code):
    for name in names.split():
        number = getattr(errno, name)
        assert told(OSError(number, "x")) == (category, code)
        found = by_errno(number)
        assert found is not None
        assert (found.category, found.code.value) == (category, code)
        assert by_status_word(name) is found


@pytest.mark.parametrize(
    "word", ["", "E", "ENOSUCH", "E_NOENT", "errorcode", "e3q8", "Unavailable"]
)
def test_a_word_that_is_no_code_says_nothing(word):
    assert by_status_word(word) is None
