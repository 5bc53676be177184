import asyncio
import errno
import sqlite3
from unittest import mock

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.errors import NOW, PERMANENT, TRANSIENT, look, loose, raised, told, wrapped

from holdfast.errors import (
    AttemptTimeout,
    CircuitOpenError,
    ConcurrencyLimitError,
    DeadlineExceeded,
    ErrorCode,
    HoldfastError,
    Permanent,
    RateLimitedError,
    RetryLater,
)
from holdfast.resilience.categorize import categorize

REQUEST = httpx.Request("POST", "http://127.0.0.1/convert")


def status_error(status: int, **headers: str) -> Exception:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return raised(httpx.Response(status, headers=named, request=REQUEST).raise_for_status)


# --- the two lists of the retry strategy, line by line -----------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        *("429", "Error: 429 Rate Limit", "rate limit", "Rate limit exceeded", "Too Many Requests"),
        *("ETIMEDOUT", "connect ETIMEDOUT 10.0.0.1:443", "read ECONNRESET", "timeout"),
        *("Operation timeout after 30000ms", "503", "502", "504", "503 Service Unavailable"),
        *("Request failed with status code 502", "HTTP 504", "Deadlock", "deadlock detected"),
        *("lock timeout", "canceling statement due to lock timeout", "connection"),
        *("Connection terminated unexpectedly", "getaddrinfo ENOTFOUND nowhere.invalid"),
        *("HTTP 500 Internal Server Error", "429 Too Many Requests"),
    ],
)
def test_the_transient_messages_of_the_retry_strategy_are_retried(message):
    found = look(Exception(message))
    assert (found.category, found.known) == (TRANSIENT, True)


@pytest.mark.parametrize(
    "message",
    [
        *("401", "403", "unauthorized", "Unauthorized: token expired", "invalid api key"),
        *("Invalid API key provided", "400", "404", "404 Not Found", "400 Bad Request"),
        *("Request failed with status code 404", "validation error", "Validation error: age"),
        *("unique constraint", "UNIQUE constraint failed: t.id", "foreign key constraint"),
        'insert or update on table "a" violates foreign key constraint "b"',
        "[GoogleGenerativeAI Error]: API key not valid. Please pass a valid API key.",
    ],
)
def test_the_permanent_messages_of_the_retry_strategy_abort(message):
    found = look(Exception(message))
    assert (found.category, found.known) == (PERMANENT, True)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_the_transient_statuses_of_the_retry_strategy_are_retried(status):
    assert categorize(status_error(status)) is TRANSIENT


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_the_permanent_statuses_of_the_retry_strategy_abort(status):
    assert categorize(status_error(status)) is PERMANENT


@pytest.mark.parametrize("name", ["ETIMEDOUT", "ECONNRESET"])
def test_the_error_numbers_of_the_retry_strategy_are_retried_as_number_and_as_name(name):
    assert categorize(OSError(getattr(errno, name), "x")) is TRANSIENT
    assert categorize(loose(code=name)) is TRANSIENT


@pytest.mark.parametrize(
    "message", ["", "boom", "404 rows were left over", "item 503 of 900", "x" * 5000]
)
def test_an_unknown_error_is_transient_by_default(message):
    found = look(RuntimeError(message))
    assert (found.category, found.code, found.known) == (TRANSIENT, ErrorCode.UNKNOWN, False)
    assert (found.counts, found.ambiguous, found.status) == (True, False, None)


# --- words never decide over what is known -------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (ConnectionResetError("404 not found, unauthorized"), TRANSIENT),
        (TimeoutError("validation error"), TRANSIENT),
        (TypeError("connection timeout 503"), PERMANENT),
        (FileNotFoundError("connection timeout"), PERMANENT),
        (sqlite3.IntegrityError("connection timeout"), PERMANENT),
        (sqlite3.OperationalError("unauthorized"), TRANSIENT),
        (loose("connection timeout", status_code=404), PERMANENT),
        (loose("404 unauthorized", status_code=503), TRANSIENT),
        (loose("connection", sqlstate="23505"), PERMANENT),
        (loose("unique constraint", sqlstate="40P01"), TRANSIENT),
        (OSError(errno.ENOSPC, "connection timeout"), PERMANENT),
    ],
)
def test_a_message_does_not_decide_over_a_known_type_status_or_code(error, category):
    assert categorize(error) is category


def test_the_message_of_a_wrapper_does_not_decide_over_its_cause():
    assert categorize(wrapped(ConnectionResetError(), "404 unauthorized")) is TRANSIENT
    assert categorize(wrapped(status_error(404), "connection timeout")) is PERMANENT


# --- our own errors ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "category", "counts", "ambiguous", "retry_after"),
    [
        (CircuitOpenError("g", NOW + 30), TRANSIENT, False, False, 30.0),
        (RateLimitedError("g", NOW + 5), TRANSIENT, False, False, 5.0),
        (ConcurrencyLimitError("g", 3), TRANSIENT, False, False, None),
        (AttemptTimeout("g", 3), TRANSIENT, True, True, None),
        (DeadlineExceeded("g", 3), TRANSIENT, True, True, None),
        (Permanent("GW_5XX", "timeout"), PERMANENT, False, False, None),
        (Permanent("UNKNOWN", "timeout"), PERMANENT, False, False, None),
        (RetryLater(4), TRANSIENT, False, False, 4.0),
        (RetryLater(4, code="PARSE_ERROR"), TRANSIENT, False, False, 4.0),
        (RetryLater(4, code="UNKNOWN"), TRANSIENT, False, False, 4.0),
        (RetryLater(4, code="BANK_BUSY"), TRANSIENT, False, False, 4.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_our_own_errors_have_their_declared_category(
    error, category, counts, ambiguous, retry_after
):
    found = look(error)
    assert (found.category, found.code, found.known) == (category, error.code, True)
    assert (found.counts, found.ambiguous, found.retry_after) == (counts, ambiguous, retry_after)


def test_our_error_around_a_foreign_one_keeps_its_verdict_and_shows_the_status():
    try:
        raise Permanent("GW_4XX", "no such mapping") from status_error(503)
    except Permanent as error:
        found = look(error)
    assert (found.category, found.code.value, found.status) == (PERMANENT, "GW_4XX", 503)


def test_retry_later_counts_as_the_failure_that_caused_it():
    for cause, counts, ambiguous in (
        (status_error(502), True, True),
        (status_error(429), False, False),
        (ValueError("not yet"), False, False),
    ):
        try:
            raise RetryLater(4) from cause
        except RetryLater as error:
            found = look(error)
        assert (found.counts, found.ambiguous, found.retry_after) == (counts, ambiguous, 4.0)


def test_a_rejection_of_ours_inside_a_wrapper_does_not_count():
    found = look(wrapped(CircuitOpenError("g", NOW + 30)))
    assert (found.code, found.counts, found.retry_after) == (ErrorCode.CIRCUIT_OPEN, False, 30.0)


def test_a_rejection_was_never_sent_even_with_another_cause():
    error = CircuitOpenError("g")
    error.__cause__ = status_error(502)
    assert (look(error).ambiguous, look(error).counts) == (False, False)


@pytest.mark.parametrize(
    ("code", "category"),
    [("LEASE_LOST", TRANSIENT), ("GW_TIMEOUT", TRANSIENT), ("PARSE_ERROR", PERMANENT)],
)
def test_an_error_of_ours_with_a_code_is_judged_by_the_table(code, category):
    error = HoldfastError("connection")
    error.code = ErrorCode(code)
    found = look(error)
    assert (found.category, found.code) == (category, ErrorCode(code))
    assert found.ambiguous is (code == "GW_TIMEOUT")
    assert found.counts is (code == "GW_TIMEOUT")


def test_an_error_of_ours_without_a_code_is_judged_like_any_other():
    assert look(HoldfastError("boom")).known is False
    assert categorize(HoldfastError("unauthorized")) is PERMANENT
    odd = HoldfastError("boom")
    odd.code = 7  # type: ignore[assignment]
    assert look(odd).known is False


def test_an_error_with_a_code_of_an_app_is_transient_unless_it_is_permanent():
    busy = HoldfastError("boom")
    busy.code = "BANK_BUSY"
    assert (look(busy).category, look(busy).code, look(busy).known) == (TRANSIENT, busy.code, True)
    assert categorize(Permanent("BANK_BUSY")) is PERMANENT


# --- causes and groups ---------------------------------------------------------------------------


def test_an_unknown_wrapper_takes_the_verdict_of_its_cause():
    found = look(wrapped(wrapped(status_error(404))))
    assert (found.category, found.status) == (PERMANENT, 404)
    assert categorize(wrapped(ConnectionRefusedError())) is TRANSIENT


def test_a_known_wrapper_keeps_its_own_verdict():
    error = TypeError("bad call")
    error.__cause__ = ConnectionResetError()
    assert categorize(error) is PERMANENT


def test_the_message_of_a_cause_counts_after_that_of_the_wrapper():
    assert categorize(wrapped(ValueError("invalid api key"))) is PERMANENT
    assert categorize(wrapped(ValueError("invalid api key"), "timeout")) is TRANSIENT


def test_an_earlier_handled_error_gives_no_diagnosis():
    def fail() -> None:
        try:
            raise TypeError("earlier")
        except TypeError:
            raise RuntimeError("later")  # noqa: B904 - the missing "from" is the point

    error = raised(fail)
    assert isinstance(error.__context__, TypeError)
    assert look(error).known is False


def test_a_circle_of_causes_ends():
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert look(first).known is False


def test_an_error_that_carries_itself_ends():
    error = loose("boom")
    vars(error)["orig"] = error
    error.args = (error,)
    assert look(error).known is False


def test_a_chain_is_followed_only_so_far():
    error: Exception = status_error(404)
    for _ in range(10):
        error = wrapped(error)
    assert categorize(error) is PERMANENT
    for _ in range(5000):
        error = wrapped(error)
    assert look(error).known is False


def test_one_permanent_member_makes_a_group_permanent():
    inner = ExceptionGroup("inner", [TimeoutError(), status_error(404)])
    found = look(ExceptionGroup("outer", [ConnectionResetError(), inner]))
    assert (found.category, found.code.value, found.status) == (PERMANENT, "GW_4XX", 404)


def test_a_permanent_member_is_found_in_a_long_group():
    members = [TimeoutError() for _ in range(500)]
    assert categorize(ExceptionGroup("g", [*members, TypeError()])) is PERMANENT


def test_a_group_of_transient_members_adds_up():
    found = look(ExceptionGroup("g", [ValueError("x"), RetryLater(3), ConnectionResetError()]))
    assert (found.category, found.known) == (TRANSIENT, True)
    assert (found.ambiguous, found.counts, found.retry_after) == (True, True, 3.0)


def test_a_group_of_rejections_does_not_count():
    found = look(ExceptionGroup("g", [CircuitOpenError("a"), status_error(429)]))
    assert (found.category, found.counts) == (TRANSIENT, False)


def test_a_group_with_nothing_known_is_transient_by_default():
    assert look(ExceptionGroup("g", [ValueError("x")])).known is False


def test_a_cancelled_member_makes_a_group_permanent():
    group = BaseExceptionGroup("g", [asyncio.CancelledError(), TimeoutError()])
    assert told(group) == (PERMANENT, "CANCELLED")


def test_a_group_as_a_cause_is_read():
    assert categorize(wrapped(ExceptionGroup("g", [TypeError()]))) is PERMANENT


# --- nothing breaks it ---------------------------------------------------------------------------


class _Hostile(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError("no attributes")


class _Pretending:
    @property  # type: ignore[misc]
    def __class__(self):
        raise RuntimeError("no class")


class _Raising(Exception):
    @property
    def response(self) -> object:
        raise RuntimeError("The .response property has not been set.")

    status_code = code = status = sqlstate = errno = retry_after = headers = details = response


class _Answering(Exception):
    def __getattr__(self, name: str) -> object:
        return _Answering(name)


@pytest.mark.parametrize("kind", [_Hostile, _Raising, _Answering])
def test_a_hostile_error_is_unknown_and_no_more(kind):
    found = look(kind("x"))
    assert (found.category, found.known, found.retry_after) == (TRANSIENT, False, None)


def test_values_that_pretend_to_be_others_are_not_believed():
    for value in (_Pretending(), mock.Mock(spec=int), mock.Mock(spec=str), mock.MagicMock()):
        error = loose("boom", status_code=value, sqlstate=value, errno=value, retry_after=value)
        vars(error).update(response=value, orig=value, headers=value, details=value, code=value)
        error.args = (value,)
        found = look(error)
        assert (found.known, found.retry_after) == (False, None)


def test_a_class_without_a_proper_module_is_taken_as_it_is():
    odd = type("Odd", (Exception,), {"__module__": None})
    assert look(odd("boom")).known is False


NAMES = st.sampled_from(
    [
        *("response", "status_code", "http_status", "status", "code", "sqlstate", "pgcode"),
        *("result", "errno", "orig", "reason", "retry_after", "headers", "details"),
        *("x_errorcode", "other"),
    ]
)
KINDS = st.sampled_from(
    [Exception, ValueError, OSError, ConnectionError, HoldfastError, sqlite3.OperationalError]
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=20),
        st.binary(max_size=10),
        st.builds(ValueError, st.text(max_size=20)),
        st.builds(object),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=20), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(
    kind=KINDS,
    arguments=st.lists(VALUES, max_size=3),
    attributes=st.dictionaries(NAMES, VALUES, max_size=4),
    cause=st.none() | st.builds(OSError, st.integers(), st.text(max_size=10)),
)
def test_no_arguments_and_no_attributes_break_it(kind, arguments, attributes, cause):
    error = type("Any", (kind,), {})(*arguments)
    for name, value in attributes.items():
        vars(error)[name] = value
    error.__cause__ = cause
    found = look(error)
    assert found.category is categorize(error)
    assert found.retry_after is None or found.retry_after >= 0
    assert not (found.counts and found.category is PERMANENT)
    assert found.known or found.category is TRANSIENT
