"""Codes, categories and words of the fetcher's errors, alone and inside jobs."""

import pickle
import socket

import httpcore
import pytest

from holdfast import App, Category, ErrorCode, JobContext, RetryPolicy, categorize
from holdfast.errors import HoldfastError, Permanent
from holdfast.fetch import FETCH_ERRORS, FetchCode, FetchError, PermanentFetchError
from holdfast.fetch.fetch_errors import HttpStatusError, failure, status_failure, transport_failure
from holdfast.resilience.categorize import diagnose
from holdfast.resilience.policy_diagnosis import diagnose_under

PERMANENT = {
    FetchCode.URL_INVALID,
    FetchCode.URL_REFUSED,
    FetchCode.FETCH_TOO_LARGE,
    FetchCode.FETCH_TOO_MANY_REDIRECTS,
    FetchCode.FETCH_4XX,
}
DECLARED = App("reader", errors=[*FETCH_ERRORS]).errors


def in_a_job(error):
    """Diagnose as a worker does whose app has declared the codes."""
    return diagnose_under(RetryPolicy(), error, name="read", wall_now=0.0, declared=DECLARED)


def test_every_code_has_a_line_for_people():
    assert [info.code for info in FETCH_ERRORS] == list(FetchCode)
    for info in FETCH_ERRORS:
        assert info.message.endswith(".")
        assert info.code not in info.message


@pytest.mark.parametrize("code", FetchCode)
def test_a_failure_has_the_category_of_its_code_everywhere(code):
    error = failure(code)
    category = Category.PERMANENT if code in PERMANENT else Category.TRANSIENT

    assert error.code == code
    assert error.permanent is (code in PERMANENT)
    assert isinstance(error, HoldfastError)
    assert isinstance(error, Permanent) is error.permanent
    assert categorize(error) is category
    assert in_a_job(error).category is category
    assert in_a_job(error).code == code


STATUSES = {
    400: (FetchCode.FETCH_4XX, True),
    401: (FetchCode.FETCH_4XX, True),
    404: (FetchCode.FETCH_4XX, True),
    408: (FetchCode.FETCH_TIMEOUT, False),
    410: (FetchCode.FETCH_4XX, True),
    425: (FetchCode.FETCH_FAILED, False),
    429: (ErrorCode.RATE_LIMITED, False),
    499: (FetchCode.FETCH_4XX, True),
    500: (FetchCode.FETCH_5XX, False),
    501: (FetchCode.FETCH_5XX, True),
    502: (FetchCode.FETCH_5XX, False),
    503: (FetchCode.FETCH_5XX, False),
    505: (FetchCode.FETCH_5XX, True),
    599: (FetchCode.FETCH_5XX, False),
}


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_is_judged_as_everywhere_in_the_library(status):
    cause = HttpStatusError(status, {})
    error = status_failure(cause, wall_now=0.0)
    error.__cause__ = cause

    assert (error.code, error.permanent) == STATUSES[status]
    assert error.status == status
    assert f"(HTTP {status})." in str(error)
    expected = Category.PERMANENT if error.permanent else Category.TRANSIENT
    assert categorize(error) is categorize(cause) is expected
    assert in_a_job(error).category is expected


def test_only_failures_of_the_site_itself_count_for_a_breaker():
    def counts(status):
        return diagnose(status_failure(HttpStatusError(status, {}), wall_now=0.0), wall_now=0.0)

    assert not counts(404).counts
    assert not counts(429).counts
    assert counts(503).counts


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("value, seconds", [("7", 7.0), ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0)])
def test_the_wait_that_a_site_asks_for_reaches_the_retry(status, value, seconds):
    error = status_failure(HttpStatusError(status, {"retry-after": value}), wall_now=10.0)

    assert error.retry_after == seconds
    assert in_a_job(error).retry_after == seconds


@pytest.mark.parametrize(
    "raised, code, permanent",
    [
        (httpcore.ConnectTimeout(), FetchCode.FETCH_TIMEOUT, False),
        (httpcore.ReadTimeout(), FetchCode.FETCH_TIMEOUT, False),
        (httpcore.ConnectError(), FetchCode.FETCH_FAILED, False),
        (httpcore.ReadError(), FetchCode.FETCH_FAILED, False),
        (ConnectionResetError(), FetchCode.FETCH_FAILED, False),
        (httpcore.RemoteProtocolError(), FetchCode.FETCH_BAD_ANSWER, False),
    ],
)
def test_errors_of_the_transport_have_codes(raised, code, permanent):
    error = transport_failure(raised)

    assert (error.code, error.permanent) == (code, permanent)


def test_what_may_have_been_carried_out_is_known_from_the_cause():
    def ambiguous(cause):
        error = transport_failure(cause)
        error.__cause__ = cause
        return in_a_job(error).ambiguous

    assert ambiguous(httpcore.ReadTimeout())
    assert ambiguous(httpcore.ReadError())
    assert not ambiguous(httpcore.ConnectTimeout())
    assert not ambiguous(httpcore.ConnectError())


def test_a_name_that_is_not_found_is_no_mistake_of_the_caller():
    error = failure(FetchCode.HOST_NOT_FOUND)
    error.__cause__ = socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert in_a_job(error).category is Category.TRANSIENT


@pytest.mark.parametrize("kind", [FetchError, PermanentFetchError])
def test_an_error_crosses_a_process_boundary(kind):
    error = pickle.loads(
        pickle.dumps(kind(FetchCode.FETCH_5XX, "A line.", status=503, retry_after=3.0))
    )

    assert type(error) is kind
    assert (error.code, str(error), error.status) == (FetchCode.FETCH_5XX, "A line.", 503)
    assert error.retry_after == 3.0


@pytest.mark.parametrize(
    "code, attempts", [(FetchCode.URL_REFUSED, 1), (FetchCode.HOST_NOT_FOUND, 3)]
)
def test_a_job_that_fails_by_it_keeps_its_code_and_its_words(holdfast_engine, code, attempts):
    app = App("reader", errors=[*FETCH_ERRORS])

    @app.job(retry=RetryPolicy(max_attempts=3))
    async def read(ctx: JobContext, url: str) -> None:
        raise failure(code)

    engine = holdfast_engine(app)
    job = engine.enqueue(read, "http://example.com")
    engine.run_until_idle()

    record = engine.get(job)
    assert record.attempt_count == attempts
    assert record.last_error.code == code
    assert record.last_error.message == DECLARED[code].message
