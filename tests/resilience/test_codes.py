import errno
import sqlite3
import urllib.error
from enum import Enum

import httpx
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from tests.support.errors import PERMANENT, TRANSIENT, foreign, look, loose, raised, told, wrapped

from holdfast.resilience.codes import by_errno, by_result, by_sqlstate, by_status, by_status_word

REQUEST = httpx.Request("POST", "http://127.0.0.1/convert")


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
def test_the_code_of_a_grpc_error_is_a_method(word, category, code):
    answer = Enum("StatusCode", {word: (1, "x")})[word]  # type: ignore[misc]
    error = foreign("grpc", "RpcError")("connection")
    vars(error)["code"] = lambda: answer
    assert told(error) == (category, code)


def test_a_code_that_raises_when_called_gives_no_diagnosis():
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
def test_a_status_that_is_not_an_error_gives_no_diagnosis(status):
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
def test_an_unknown_sqlstate_gives_no_diagnosis(state):
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
def test_an_unknown_result_gives_no_diagnosis(result):
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
def test_an_unknown_code_is_ignored(word):
    assert by_status_word(word) is None
