"""What an error means under a policy: its own rules first, then what is known of the error."""

import pytest

from holdfast.errors import (
    Category,
    CircuitOpenError,
    ErrorCode,
    ErrorInfo,
    HoldfastError,
    Permanent,
    RetryLater,
)
from holdfast.resilience.policy import RetryPolicy
from holdfast.resilience.policy_diagnosis import diagnose_under

TRANSIENT, PERMANENT = Category.TRANSIENT, Category.PERMANENT


class BankBusy(HoldfastError):
    code = "BANK_BUSY"


def under(error, declared=(), **policy):
    return diagnose_under(
        RetryPolicy(**policy),
        error,
        name="svc",
        wall_now=0.0,
        declared={info.code: info for info in declared},
    )


@pytest.mark.parametrize(
    "retry_on",
    [
        ConnectionError,
        (KeyError, ConnectionError),
        lambda error: isinstance(error, ConnectionError),
    ],
)
def test_only_errors_in_retry_on_are_tried_again(retry_on):
    assert under(ConnectionResetError(), retry_on=retry_on).category is TRANSIENT
    assert under(TimeoutError(), retry_on=retry_on).category is PERMANENT


def test_retry_on_can_name_what_would_be_permanent():
    assert under(TypeError("flaky")).category is PERMANENT
    found = under(TypeError("flaky"), retry_on=TypeError)
    assert (found.category, found.counts) == (TRANSIENT, True)


def test_an_error_outside_retry_on_still_counts_as_a_failure_of_the_downstream():
    found = under(ConnectionRefusedError(), retry_on=KeyError)
    assert (found.category, found.counts, found.code) == (PERMANENT, True, "GW_UNAVAILABLE")


@pytest.mark.parametrize(
    "error, category",
    [
        (RetryLater(5), TRANSIENT),
        (CircuitOpenError("inner"), TRANSIENT),
        (Permanent("DECLINED"), PERMANENT),
    ],
)
def test_holdfasts_own_errors_keep_their_category_outside_retry_on(error, category):
    assert under(error, retry_on=KeyError).category is category


def test_categorize_comes_before_retry_on():
    both = {"categorize": lambda error: PERMANENT, "retry_on": Exception}
    assert under(TimeoutError(), **both).category is PERMANENT
    undecided = {"categorize": lambda error: None, "retry_on": KeyError}
    assert under(TimeoutError(), **undecided).category is PERMANENT


def test_a_retry_on_function_that_raises_is_logged_and_stops_the_retries(caplog):
    def broken(error):
        raise LookupError("a mistake in the caller's own function")

    assert under(TimeoutError("late"), retry_on=broken).category is PERMANENT
    assert "svc: retry_on failed on TimeoutError('late')" in caplog.text


def test_a_declared_code_gives_the_category_where_the_policy_says_nothing():
    busy = ErrorInfo("BANK_BUSY", "The bank is busy.", 503, TRANSIENT)
    closed = ErrorInfo("BANK_BUSY", "The bank is closed.", 503, PERMANENT)
    assert under(BankBusy(), [busy]).category is TRANSIENT
    assert under(BankBusy(), [closed]).category is PERMANENT
    assert under(Permanent("BANK_BUSY"), [busy]).category is PERMANENT
    assert under(RetryLater(5, code="BANK_BUSY"), [closed]).category is TRANSIENT
    assert under(BankBusy(), [busy], categorize=lambda error: PERMANENT).category is PERMANENT


def test_without_rules_of_its_own_a_policy_changes_nothing():
    found = under(RuntimeError("?"))
    assert (found.category, found.code, found.known) == (TRANSIENT, ErrorCode.UNKNOWN, False)


@pytest.mark.parametrize("value", ["ConnectionError", (), (1,), (KeyboardInterrupt,), int, 5])
def test_a_retry_on_that_cannot_be_used_is_refused(value):
    with pytest.raises(TypeError, match="retry_on must be"):
        RetryPolicy(retry_on=value)
