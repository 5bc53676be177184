"""Every error has the same form, and reveals no internals."""

import pytest

from holdfast.errors import ErrorCode, HoldfastError, Permanent
from holdfast.http import ApiError
from holdfast.jobs.store_port import StoreBusy


@pytest.mark.parametrize(
    "method, path, status",
    [("GET", "/nothing", 404), ("DELETE", "/api/jobs", 405), ("PUT", "/healthz", 405)],
)
def test_a_404_has_the_common_form(serving, method, path, status):
    answer = serving.client.request(method, path)

    assert answer.status_code == status
    assert answer.json()["error"]["code"] == "VALIDATION_ERROR"
    assert answer.json()["error"]["message"].endswith(".")


def failing(serving, error):
    async def fail(*_, **__):
        raise error

    serving.engine.list = fail
    return serving.client.get("/api/jobs")


def test_a_bug_is_an_unknown_error_and_shows_no_trace(serving, caplog):
    answer = failing(serving, RuntimeError("/secret/path"))

    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "UNKNOWN")
    assert "secret" not in answer.text
    assert "/secret/path" in caplog.text


def test_an_unavailable_store_answers_with_retry_after(serving):
    answer = failing(serving, StoreBusy("locked by /some/file"))

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "IO_ERROR")
    assert answer.headers["retry-after"] == "1"
    assert "/some/file" not in answer.text


def test_an_error_of_ours_has_its_codes_status_and_line(serving):
    class Odd(HoldfastError):
        code = ErrorCode.EXPIRED

    answer = failing(serving, Odd("internal words"))

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "EXPIRED")
    assert "internal" not in answer.text


@pytest.mark.parametrize(
    "error, status, line",
    [
        (Permanent("SOURCE_GONE"), 404, "The grain is gone."),
        (Permanent("SOURCE_GONE", "All of it."), 404, "All of it."),
        (Permanent("CARD_DECLINED", "Ask your bank."), 422, "Ask your bank."),
        (Permanent("CARD_DECLINED"), 422, "Something unexpected went wrong."),
        (Permanent("EXPIRED", "Too late."), 404, "Too late."),
        (ApiError("CARD_DECLINED", "Ask your bank.", status=402), 402, "Ask your bank."),
    ],
)
def test_a_code_of_an_app_has_the_status_and_the_line_that_it_declares(
    serving, error, status, line
):
    answer = failing(serving, error)

    assert answer.status_code == status
    assert answer.json() == {"error": {"code": error.code, "message": line}}


@pytest.mark.parametrize(
    "method, path, allowed",
    [
        ("PUT", "/api/dead-letters/retry", "DELETE, GET, POST"),
        ("POST", "/api/jobs", "GET"),
        ("DELETE", "/api/jobs/x/retry", "POST"),
    ],
)
def test_a_405_lists_all_allowed_methods(serving, method, path, allowed):
    answer = serving.client.request(method, path)

    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "VALIDATION_ERROR")
    assert answer.headers["allow"] == allowed
