import copy
import pickle
import re
from http import HTTPStatus

import pytest

from holdfast import errors
from holdfast.errors import (
    ERRORS,
    AttemptTimeout,
    Category,
    CircuitOpenError,
    ConcurrencyLimitError,
    DeadlineExceeded,
    ErrorCode,
    ErrorInfo,
    HoldfastError,
    Permanent,
    RateLimitedError,
    RetryLater,
    error_code,
    stored_code,
)

CODES = (
    "GW_4XX GW_5XX GW_TIMEOUT GW_UNAVAILABLE TOO_LARGE IO_ERROR MEMORY_ERROR PARSE_ERROR "
    "VALIDATION_ERROR ARGUMENTS_MISMATCH NOT_READY EXPIRED INTAKE_PAUSED UNAUTHENTICATED FORBIDDEN "
    "INVALID_STATE TIMEOUT CIRCUIT_OPEN RATE_LIMITED TOO_MANY_JOBS STORAGE_EXCEEDED LEASE_LOST "
    "CANCELLED UNWANTED_RESULT UNKNOWN"
)


def test_the_librarys_codes_are_not_specific_to_an_app():
    assert [code.value for code in ErrorCode] == CODES.split()


def test_every_code_has_one_row_under_its_own_name():
    assert set(ERRORS) == set(ErrorCode)
    assert all(info.code is code for code, info in ERRORS.items())


def test_the_table_cannot_be_changed():
    with pytest.raises(TypeError):
        ERRORS[ErrorCode.UNKNOWN] = ERRORS[ErrorCode.EXPIRED]  # type: ignore[index]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("TOO_LARGE", 413),
        ("IO_ERROR", 500),
        ("NOT_READY", 409),
        ("EXPIRED", 404),
        ("UNAUTHENTICATED", 401),
        ("FORBIDDEN", 403),
        ("INVALID_STATE", 409),
        ("RATE_LIMITED", 429),
        ("INTAKE_PAUSED", 503),
    ],
)
def test_statuses_named_by_the_contract_hold(code, status):
    assert ERRORS[ErrorCode(code)].http_status == status


def test_every_status_is_a_real_error_status():
    assert all(HTTPStatus(info.http_status) >= 400 for info in ERRORS.values())


def test_only_the_codes_that_the_contract_retries_are_retried():
    retried = {code for code, info in ERRORS.items() if info.category is Category.TRANSIENT}
    assert retried == {
        "IO_ERROR",
        "UNKNOWN",
        "UNWANTED_RESULT",
        "ARGUMENTS_MISMATCH",
        "GW_5XX",
        "GW_TIMEOUT",
        "GW_UNAVAILABLE",
        "CIRCUIT_OPEN",
        "RATE_LIMITED",
        "LEASE_LOST",
        "INTAKE_PAUSED",
        "TOO_MANY_JOBS",
    }


@pytest.mark.parametrize("code", ErrorCode)
def test_a_message_is_one_short_line(code):
    message = ERRORS[code].message
    assert re.fullmatch(r"[A-Z][^\n]{10,70}\.", message)
    assert "Traceback" not in message
    assert "/" not in message
    assert code.value not in message


@pytest.mark.parametrize("code", ErrorCode)
def test_no_message_promises_another_attempt(code):
    assert "again" not in ERRORS[code].message


def test_every_code_has_a_different_message():
    assert len({info.message for info in ERRORS.values()}) == len(ErrorCode)


OURS = [
    CircuitOpenError("gemini", 1_700_000_060.25),
    CircuitOpenError("gemini"),
    AttemptTimeout("gemini", 30.0),
    DeadlineExceeded("gemini", 45),
    RateLimitedError("gemini", 1_700_000_060.0),
    RateLimitedError("gemini"),
    ConcurrencyLimitError("gemini", 8),
    Permanent(ErrorCode.GW_4XX, "unsupported mapping"),
    Permanent("PARSE_ERROR"),
    Permanent("CARD_DECLINED", "Ask your bank."),
    RetryLater(2.5),
    RetryLater(0, "the index is being rebuilt"),
    RetryLater(0, code="BANK_BUSY"),
    HoldfastError("plain"),
]


@pytest.mark.parametrize("error", OURS, ids=repr)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_our_errors_survive_pickling(error, protocol):
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.args == error.args
    assert vars(again) == vars(error)
    assert again.code == error.code


@pytest.mark.parametrize("error", OURS, ids=repr)
def test_our_errors_can_be_copied(error):
    again = copy.copy(error)
    assert again is not error
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_pickling_keeps_notes():
    error = AttemptTimeout("gemini", 1.0)
    error.add_note("second try")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["second try"]


class _Demanding(HoldfastError):
    code = ErrorCode.LEASE_LOST

    def __init__(self, *, job: str) -> None:
        super().__init__(f"{job} was taken away")
        self.job = job


def test_a_subclass_with_a_constructor_of_its_own_survives_pickling():
    again = pickle.loads(pickle.dumps(_Demanding(job="j1")))
    assert (again.job, str(again), again.code) == ("j1", "j1 was taken away", ErrorCode.LEASE_LOST)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            CircuitOpenError("gemini", 12.5),
            "CIRCUIT_OPEN",
            "gemini: the circuit is open until 12.5",
        ),
        (CircuitOpenError("gemini"), "CIRCUIT_OPEN", "gemini: the circuit is open"),
        (AttemptTimeout("gemini", 0.25), "TIMEOUT", "cut off after 0.25 s"),
        (DeadlineExceeded("gemini", 45.0), "TIMEOUT", "deadline of 45 s"),
        (RateLimitedError("gemini", 7.0), "RATE_LIMITED", "gemini: the rate limit"),
        (ConcurrencyLimitError("gemini", 8), "RATE_LIMITED", "all 8 places"),
        (Permanent("GW_4XX", "no such mapping"), "GW_4XX", "no such mapping"),
        (Permanent(ErrorCode.EXPIRED), "EXPIRED", "has been removed"),
        (Permanent("CARD_DECLINED", "Ask your bank."), "CARD_DECLINED", "Ask your bank."),
        (Permanent("CARD_DECLINED"), "CARD_DECLINED", "CARD_DECLINED"),
        (RetryLater(2.5), "GW_UNAVAILABLE", "2.5 s"),
        (RetryLater(2.5, "busy"), "GW_UNAVAILABLE", "busy"),
        (RetryLater(2.5, "busy", code="BANK_BUSY"), "BANK_BUSY", "busy"),
    ],
)
def test_our_errors_have_their_code_and_a_message(error, code, said):
    assert isinstance(error, HoldfastError)
    assert error.code == code
    assert said in str(error)


def test_fields_are_readable():
    assert (OURS[0].name, OURS[0].retry_at) == ("gemini", 1_700_000_060.25)
    assert (OURS[2].name, OURS[2].seconds) == ("gemini", 30.0)
    assert (OURS[3].name, OURS[3].seconds) == ("gemini", 45)
    assert (OURS[5].name, OURS[5].retry_at) == ("gemini", None)
    assert (OURS[6].name, OURS[6].limit) == ("gemini", 8)
    assert OURS[10].after == 2.5


@pytest.mark.parametrize("kind", [AttemptTimeout, DeadlineExceeded])
def test_a_cut_off_is_caught_as_a_timeout_without_an_errno(kind):
    error = kind("gemini", 1.0)
    assert isinstance(error, TimeoutError)
    assert error.errno is None


@pytest.mark.parametrize("code", ["no_such", "9X", "A B", "A" * 101, "", None, 404])
def test_permanent_refuses_a_malformed_code_and_names_it(code):
    with pytest.raises(ValueError, match=re.escape(repr(code))):
        Permanent(code, "message")


def test_a_code_of_the_library_given_as_text_is_its_enum_member():
    assert error_code("TIMEOUT") is ErrorCode.TIMEOUT
    assert stored_code("TIMEOUT") is ErrorCode.TIMEOUT
    assert Permanent("TIMEOUT").code is ErrorCode.TIMEOUT
    assert stored_code("whatever was stored") == "whatever was stored"


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"code": "lower"}, "lower"),
        ({"message": ""}, "one line"),
        ({"message": "two\nlines"}, "one line"),
        ({"http_status": 200}, "200"),
    ],
)
def test_a_declared_code_that_cannot_be_used_is_refused(fields, wrong):
    with pytest.raises(ValueError, match=wrong):
        ErrorInfo(**{"code": "CARD_DECLINED", "message": "Ask your bank.", **fields})


def test_a_declared_code_is_permanent_and_422_by_default():
    plain = ErrorInfo("CARD_DECLINED", "Ask your bank.")

    assert (plain.http_status, plain.category) == (422, Category.PERMANENT)


def test_no_message_of_the_library_mentions_files():
    assert [info.code for info in ERRORS.values() if "file" in info.message.lower()] == []


@pytest.mark.parametrize("after", [-1, -0.001, float("nan"), float("inf"), 10**400])
def test_retry_later_refuses_an_invalid_delay(after):
    with pytest.raises(ValueError, match="after must be finite and not negative"):
        RetryLater(after)


@pytest.mark.parametrize("after", ["3", None, True])
def test_retry_later_refuses_a_delay_that_is_not_a_number(after):
    with pytest.raises(TypeError, match=re.escape(repr(after))):
        RetryLater(after)


def test_the_export_list_is_complete():
    made_here = {
        name
        for name, value in vars(errors).items()
        if getattr(value, "__module__", None) == errors.__name__ and not name.startswith("_")
    }
    assert set(errors.__all__) == made_here | {"ERRORS"}
