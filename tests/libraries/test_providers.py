"""Errors of the providers' own packages, made by those packages."""

import pickle
import warnings

import httpx
import openai
import pytest
from tests.support.errors import PERMANENT, TRANSIENT, look, raised, told

with warnings.catch_warnings():
    # Python warns about an invalid escape in the package whenever it compiles it.
    warnings.simplefilter("ignore", DeprecationWarning)
    from google.genai import errors as genai_errors

REQUEST = httpx.Request("POST", "http://127.0.0.1/convert")


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


def test_openai_retry_after_is_read():
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
def test_openai_connection_errors_are_distinguished_by_their_cause(cause, kind, code, ambiguous):
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


def test_gemini_without_a_number_is_categorized_by_its_status_name():
    error = genai_errors.APIError(0, {"error": {"status": "RESOURCE_EXHAUSTED"}})
    assert told(error) == (TRANSIENT, "RATE_LIMITED")


def genai(details: object) -> genai_errors.APIError:
    return genai_errors.ClientError(429, details)


INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}


@pytest.mark.parametrize(
    ("details", "seconds"),
    [
        ({"error": {"code": 429, "details": [{"@type": "QuotaFailure"}, INFO]}}, 17.0),
        ([{"error": {"details": [{"retryDelay": "17.25s"}]}}], 17.25),
        ({"details": [INFO]}, 17.0),
        ({"error": {"details": [{"retryDelay": "soon"}]}}, None),
        ({"error": {"details": [{"retryDelay": 17}]}}, None),
        ({"error": {"details": "17s"}}, None),
        ({"error": {"message": "Please retry in 17s."}}, None),
    ],
)
def test_googles_retry_info_is_read(details, seconds):
    assert look(genai(details)).retry_after == seconds
