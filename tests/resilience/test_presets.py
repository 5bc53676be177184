"""The presets have their documented values."""

import pytest

from holdfast.resilience import presets
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import RateLimit, RetryPolicy
from holdfast.testing.randomness import FixedRandom


def _nominal(policy: RetryPolicy, count: int) -> list[float]:
    assert isinstance(policy.backoff, Exponential)
    return [policy.backoff.nominal(attempt) for attempt in range(1, count + 1)]


@pytest.mark.parametrize(
    "name,attempts,first,longest,threshold,timeout,open_for",
    [
        ("GEMINI_API", 3, 1, 8, 5, 30, 60),
        ("CHATMOCK_API", 3, 2, 16, 3, 120, 120),
        ("DATABASE", 5, 0.5, 4, 10, 10, 30),
    ],
)
def test_the_configuration_matrix_holds(
    name, attempts, first, longest, threshold, timeout, open_for
):
    policy = presets.get(name)
    assert policy.max_attempts == attempts
    assert policy.backoff.base == first
    assert policy.backoff.multiplier == 2
    assert policy.backoff.cap == longest
    assert policy.backoff.jitter == 0.3
    assert policy.attempt_timeout == timeout
    assert policy.breaker is not None
    assert policy.breaker.consecutive_failures == threshold
    assert policy.breaker.open_for == open_for
    assert policy.breaker.trial_calls == 1


def test_gemini_may_be_called_100_times_a_minute_and_1000_times_a_day():
    assert presets.GEMINI_API.rate == RateLimit(per_minute=100, per_day=1000)


def test_the_gateways_breaker_opens_where_half_of_the_calls_fail():
    assert presets.GATEWAY.breaker.rate_passed(20, 10)
    assert not presets.GATEWAY.breaker.rate_passed(20, 9)


def test_the_gateway_waits_5_15_45_seconds_within_a_fifth():
    assert _nominal(presets.GATEWAY, 3) == [5, 15, 45]
    lowest = [presets.GATEWAY.backoff.delay(n, FixedRandom(0.0)) for n in (1, 2, 3)]
    highest = [presets.GATEWAY.backoff.delay(n, FixedRandom(1.0)) for n in (1, 2, 3)]
    assert lowest == pytest.approx([4, 12, 36])
    assert highest == pytest.approx([6, 18, 54])


def test_grading_waits_2_to_the_n_up_to_300_seconds():
    assert _nominal(presets.GRADING, 9) == [2, 4, 8, 16, 32, 64, 128, 256, 300]


def test_grading_opens_above_half_of_20_calls_for_30_seconds_with_3_trials():
    breaker = presets.GRADING.breaker
    assert breaker is not None
    assert (breaker.window_calls, breaker.open_for, breaker.trial_calls) == (20, 30, 3)
    assert breaker.consecutive_failures is None
    assert not breaker.rate_passed(20, 10)
    assert breaker.rate_passed(20, 11)


def test_documents_wait_2_and_4_seconds_exactly():
    policy = presets.DOCUMENTS
    assert policy.max_attempts == 3
    assert [policy.backoff.delay(n, FixedRandom(1.0)) for n in (1, 2)] == [2, 4]


@pytest.mark.parametrize(
    "name", ["GEMINI_API", "CHATMOCK_API", "DATABASE", "GATEWAY", "DOCUMENTS", "GRADING"]
)
def test_every_preset_is_found_by_its_name(name):
    assert presets.get(name) is getattr(presets, name)


@pytest.mark.parametrize("name", ["REDIS", "gemini_api", ""])
def test_an_unknown_preset_is_refused_with_the_names_that_exist(name):
    with pytest.raises(ValueError, match=r"preset must be one of .*GEMINI_API") as refusal:
        presets.get(name)
    assert str(refusal.value).endswith(f"got {name!r}")
