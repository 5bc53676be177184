import email.message
import math
import urllib.error
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import httpx
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CircuitOpenError, RateLimitedError, RetryLater
from holdfast.resilience.retry_after import LONGEST_WAIT, retry_after

NOW = datetime(2025, 10, 17, 12, 0, tzinfo=UTC).timestamp()
REQUEST = httpx.Request("GET", "http://127.0.0.1/")


def from_httpx(headers: dict[str, str]) -> httpx.HTTPStatusError:
    response = httpx.Response(429, headers=headers, request=REQUEST)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    return caught.value


def from_requests(headers: dict[str, str]) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = 503
    response.headers.update(headers)
    with pytest.raises(requests.HTTPError) as caught:
        response.raise_for_status()
    return caught.value


def from_urllib(headers: dict[str, str]) -> urllib.error.HTTPError:
    message = email.message.Message()
    for name, value in headers.items():
        message[name] = value
    return urllib.error.HTTPError("http://127.0.0.1/", 503, "busy", message, None)


class _Loose(Exception):
    def __init__(self, **attributes: object) -> None:
        super().__init__("loose")
        vars(self).update(attributes)


def asked(error: BaseException) -> float | None:
    return retry_after(error, wall_now=NOW)


@pytest.mark.parametrize("carrier", [from_httpx, from_requests, from_urllib])
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        (" 1.5 ", 1.5),
        ("Fri, 17 Oct 2025 12:00:30 GMT", 30.0),
        ("Friday, 17-Oct-25 12:00:30 GMT", 30.0),
        ("Fri Oct 17 12:00:30 2025", 30.0),
        ("Fri, 17 Oct 2025 14:00:30 +0200", 30.0),
        ("Fri, 17 Oct 2025 11:59:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_WAIT),
        ("99999999999999999999", LONGEST_WAIT),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("1e9", None),
        ("1_000", None),
        ("soon", None),
        ("", None),
        ("120, 120", None),
        ("Fri, 99 Oct 2025 12:00:30 GMT", None),
    ],
)
def test_the_header_is_read_as_seconds_or_date(carrier, value, seconds):
    assert asked(carrier({"Retry-After": value})) == seconds


@pytest.mark.parametrize("carrier", [from_httpx, from_requests, from_urllib])
def test_without_a_header_nothing_was_asked(carrier):
    assert asked(carrier({})) is None


def test_milliseconds_are_more_exact_and_come_first():
    assert asked(from_httpx({"retry-after-ms": "1500", "retry-after": "2"})) == 1.5


def test_a_bad_number_of_milliseconds_falls_back_to_seconds():
    headers = {"retry-after-ms": "Fri, 17 Oct 2025 12:00:30 GMT", "retry-after": "2"}
    assert asked(from_httpx(headers)) == 2.0


@pytest.mark.parametrize("name", ["Retry-After", "retry-after", "RETRY-AFTER"])
def test_a_plain_dictionary_of_headers_is_read_in_any_case(name):
    assert asked(_Loose(headers={b"x": 1, name: b"7"})) == 7.0


@pytest.mark.parametrize(
    "headers", [None, 3, "Retry-After: 3", [("Retry-After", "3")], {"other": "3"}, object()]
)
def test_headers_of_another_shape_are_left_alone(headers):
    assert asked(_Loose(headers=headers)) is None


class _Trap:
    def get(self, name: str) -> str:
        raise KeyError(name)


def test_headers_that_raise_are_left_alone():
    assert asked(_Loose(headers=_Trap())) is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (3, 3.0),
        (0, 0.0),
        (2.5, 2.5),
        ("4", 4.0),
        (timedelta(minutes=1), 60.0),
        (datetime.fromtimestamp(NOW + 9, UTC), 9.0),
        (datetime.fromtimestamp(NOW + 9, timezone(timedelta(hours=-5))), 9.0),
        (datetime.fromtimestamp(NOW + 9, UTC).replace(tzinfo=None), 9.0),
        (datetime.fromtimestamp(NOW - 9, UTC), 0.0),
        (10**400, LONGEST_WAIT),
        (timedelta(seconds=-1), None),
        (-1, None),
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
        (True, None),
        (None, None),
        (object(), None),
        (b"\xff", None),
    ],
)
def test_the_attribute_is_read_as_number_text_duration_or_date(value, seconds):
    assert asked(_Loose(retry_after=value)) == seconds


def test_an_unusable_attribute_leaves_the_decision_to_the_header():
    assert asked(_Loose(retry_after="soon", headers={"Retry-After": "3"})) == 3.0


def test_a_property_that_raises_is_left_alone():
    class Raising(Exception):
        @property
        def retry_after(self) -> float:
            raise RuntimeError("not set")

    assert asked(Raising()) is None


def test_our_own_errors_have_a_retry_after():
    assert asked(RetryLater(12)) == 12.0
    assert asked(RetryLater(0)) == 0.0
    assert asked(CircuitOpenError("gemini", NOW + 60)) == 60.0
    assert asked(RateLimitedError("gemini", NOW - 1)) == 0.0
    assert asked(CircuitOpenError("gemini")) is None
    assert asked(CircuitOpenError("gemini", math.nan)) is None


def test_endlessly_nested_retry_info_is_ignored():
    endless: dict[str, object] = {}
    endless["error"] = endless
    assert asked(_Loose(details=endless)) is None


@pytest.mark.parametrize("metadata", [{"HTTPHeaders": {"retry-after": "6"}}, None, "text"])
def test_amazons_answer_carries_its_headers_inside(metadata):
    error = _Loose(response={"ResponseMetadata": metadata})
    assert asked(error) == (6.0 if isinstance(metadata, dict) else None)


def test_a_cause_is_asked_where_the_error_itself_is_silent():
    outer = RuntimeError("failed")
    outer.__cause__ = ValueError("between")
    outer.__cause__.__cause__ = from_httpx({"Retry-After": "8"})
    assert asked(outer) == 8.0


def test_the_outermost_retry_after_counts():
    outer = RetryLater(2)
    outer.__cause__ = from_httpx({"Retry-After": "8"})
    assert asked(outer) == 2.0


def test_a_circle_of_causes_ends():
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert asked(first) is None


def test_a_long_chain_is_followed_only_so_far():
    error: Exception = from_httpx({"Retry-After": "8"})
    for _ in range(100):
        wrapper = RuntimeError("wrapped")
        wrapper.__cause__ = error
        error = wrapper
    assert asked(error) is None


def test_of_a_group_the_longest_wait_holds():
    group = ExceptionGroup("g", [RetryLater(3), ValueError("x"), RetryLater(5), RetryLater(4)])
    assert asked(group) == 5.0
    assert asked(ExceptionGroup("g", [ValueError("x")])) is None


@given(st.integers(min_value=0, max_value=300 * 86_400))
def test_a_date_in_the_header_is_the_moment_it_names(seconds):
    date = format_datetime(datetime.fromtimestamp(NOW + seconds, UTC), usegmt=True)
    assert asked(_Loose(headers={"Retry-After": date})) == seconds


@given(
    st.one_of(st.text(), st.binary(), st.floats(), st.integers(), st.datetimes(), st.timedeltas())
)
def test_the_wait_from_any_header_is_within_its_limits(value):
    for error in (_Loose(retry_after=value), _Loose(headers={"retry-after": value})):
        wait = asked(error)
        assert wait is None or 0 <= wait <= LONGEST_WAIT
