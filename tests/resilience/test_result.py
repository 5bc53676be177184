"""The result of a guarded call."""

import pytest

from holdfast.errors import Category
from holdfast.resilience.result import Ended, FailedAttempt, FirstTry, RetryResult, StopReason


def _first_try(value: object, total_time: float) -> FirstTry[object]:
    result: FirstTry[object] = FirstTry()
    result.value = value
    result.total_time = total_time
    return result


def test_a_first_try_is_ok_and_unwraps_to_its_value():
    result = _first_try("answer", 0.5)
    assert isinstance(result, RetryResult)
    assert result.ok
    assert result.unwrap() == "answer"
    assert (result.value, result.error, result.attempts) == ("answer", None, 1)
    assert (result.total_time, result.history, result.retry_at) == (0.5, (), None)
    assert result.stop_reason is StopReason.SUCCESS
    assert not result.breaker_triggered


def test_a_late_success_is_ok_and_keeps_its_history():
    record = FailedAttempt(1, TimeoutError(), Category.TRANSIENT, 1.0, 0.1)
    result = Ended("answer", None, 2, 1.5, StopReason.SUCCESS, (record,))
    assert isinstance(result, RetryResult)
    assert result.ok
    assert result.unwrap() == "answer"
    assert result.history == (record,)


def test_none_is_a_value_like_any_other():
    assert _first_try(None, 0.0).ok
    assert _first_try(None, 0.0).unwrap() is None


def test_a_result_with_an_error_is_not_ok_and_unwrapping_raises_that_very_error():
    error = ValueError("no")
    result: RetryResult[str] = Ended(None, error, 2, 1.0, StopReason.ATTEMPTS, ())
    assert not result.ok
    with pytest.raises(ValueError, match="no") as raised:
        result.unwrap()
    assert raised.value is error


@pytest.mark.parametrize("reason", list(StopReason))
def test_the_breaker_triggered_only_where_it_was_the_reason(reason):
    result: RetryResult[str] = Ended(None, ValueError(), 1, 0.0, reason, ())
    assert result.breaker_triggered is (reason is StopReason.BREAKER)


def test_the_stop_reasons_of_the_contract_exist():
    named = ["SUCCESS", "ATTEMPTS", "PERMANENT", "BREAKER", "DEADLINE", "BUDGET", "RATE_LIMIT"]
    assert [StopReason[name].value for name in named] == named


def test_the_representation_shows_the_outcome():
    good = repr(_first_try(7, 0.25))
    assert good == "RetryResult(value=7, attempts=1, stop_reason=SUCCESS, total_time=0.250000)"
    bad = repr(Ended(None, ValueError("no"), 3, 0.0, StopReason.ATTEMPTS, ()))
    assert "error=ValueError('no'), attempts=3, stop_reason=ATTEMPTS" in bad


def test_a_failed_attempt_keeps_number_error_category_delay_and_duration():
    error = TimeoutError()
    record = FailedAttempt(2, error, Category.TRANSIENT, 1.5, 0.25)
    assert (record.number, record.error, record.category) == (2, error, Category.TRANSIENT)
    assert (record.delay, record.duration) == (1.5, 0.25)
