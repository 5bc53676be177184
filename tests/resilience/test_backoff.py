"""Delays: the formula, the jitter's share, the cap."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.resilience.backoff import Exponential, WaitFunction
from holdfast.testing.randomness import FixedRandom, seeded_rng

seconds = st.floats(min_value=0, max_value=1e6)
multipliers = st.floats(min_value=1, max_value=100)
shares = st.floats(min_value=0, max_value=1)
attempts = st.integers(min_value=1, max_value=5000)
seeds = st.integers(min_value=0, max_value=2**32)


def test_with_a_base_of_one_second_the_delays_are_1_2_4_before_jitter():
    backoff = Exponential(base=1)
    assert [backoff.nominal(attempt) for attempt in (1, 2, 3)] == [1, 2, 4]


def test_without_jitter_the_delays_are_the_nominal_ones():
    backoff = Exponential(base=5, multiplier=3, cap=60, jitter=0)
    assert [backoff.delay(attempt, Random()) for attempt in (1, 2, 3, 4, 5)] == [5, 15, 45, 60, 60]


def test_the_defaults_are_those_of_the_contract():
    assert Exponential() == Exponential(base=1, multiplier=2, cap=60, jitter=0.2)


def test_jitter_reaches_both_ends_of_its_share():
    backoff = Exponential(base=10, cap=100, jitter=0.3)
    assert backoff.delay(1, FixedRandom(0.0)) == pytest.approx(7)
    assert backoff.delay(1, FixedRandom(0.5)) == pytest.approx(10)
    assert backoff.delay(1, FixedRandom(1.0)) == pytest.approx(13)


def test_full_jitter_is_drawn_from_zero_to_the_nominal_delay():
    backoff = Exponential(base=8, cap=100, jitter="full")
    drawn = [backoff.delay(1, FixedRandom(share)) for share in (0.0, 0.25, 1.0)]
    assert drawn == [0, 2, 8]


def test_full_jitter_is_spread_evenly():
    rng = seeded_rng(7)
    backoff = Exponential(base=1, jitter="full")
    drawn = [backoff.delay(1, rng) for _ in range(4000)]
    assert sum(drawn) / len(drawn) == pytest.approx(0.5, abs=0.03)
    assert sum(delay < 0.25 for delay in drawn) / len(drawn) == pytest.approx(0.25, abs=0.03)


def test_the_same_seed_gives_the_same_delays_and_another_one_others():
    backoff = Exponential()
    drawn = [[backoff.delay(n, seeded_rng(seed)) for n in (1, 2, 3)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


@given(seconds, multipliers, seconds, shares, attempts, seeds)
def test_jitter_stays_inside_its_share_and_under_the_cap(
    base, multiplier, cap, jitter, attempt, seed
):
    backoff = Exponential(base, multiplier, cap, jitter)
    nominal = backoff.nominal(attempt)
    delay = backoff.delay(attempt, Random(seed))
    slack = 1e-9 * nominal + 1e-300
    assert nominal * (1 - jitter) - slack <= delay <= nominal * (1 + jitter) + slack
    assert 0 <= delay <= cap


@given(seconds, multipliers, seconds, attempts, seeds)
def test_full_jitter_is_never_negative_and_never_above_the_cap(
    base, multiplier, cap, attempt, seed
):
    backoff = Exponential(base, multiplier, cap, "full")
    assert 0 <= backoff.delay(attempt, Random(seed)) <= min(backoff.nominal(attempt), cap)


@given(seconds, multipliers, seconds, st.integers(min_value=1, max_value=3000))
def test_nominal_delays_never_shrink_and_follow_the_formula(base, multiplier, cap, attempt):
    backoff = Exponential(base, multiplier, cap)
    assert backoff.nominal(attempt) <= backoff.nominal(attempt + 1)
    if attempt <= 20:
        assert backoff.nominal(attempt) == min(base * multiplier ** (attempt - 1), cap)


def test_a_power_beyond_any_float_is_the_cap():
    assert Exponential(base=1, multiplier=10, cap=60).nominal(100_000) == 60
    assert Exponential(base=1e9, multiplier=1e9, cap=60).nominal(35) == 60, "an infinite product"


def test_a_base_of_zero_stays_zero():
    assert Exponential(base=0, multiplier=10).nominal(100_000) == 0


@pytest.mark.parametrize(
    "arguments,error,named",
    [
        ({"base": -1}, ValueError, "base must be at least 0, got -1"),
        ({"base": float("nan")}, ValueError, "base must be finite, got nan"),
        ({"base": "1s"}, TypeError, "base must be a number, got '1s'"),
        ({"multiplier": 0.5}, ValueError, "multiplier must be at least 1, got 0.5"),
        ({"cap": -3}, ValueError, "cap must be at least 0, got -3"),
        ({"cap": float("inf")}, ValueError, "cap must be finite, got inf"),
        ({"base": 1e10, "cap": 1e11}, ValueError, "base must be at most 9e+09, got 10000000000.0"),
        ({"cap": 1e11}, ValueError, "cap must be at most 9e+09, got 100000000000.0"),
        ({"multiplier": 10**30}, ValueError, f"multiplier must be at most 9e+09, got {10**30}"),
        ({"jitter": 1.2}, ValueError, "jitter must be at most 1, got 1.2"),
        ({"jitter": -0.1}, ValueError, "jitter must be at least 0, got -0.1"),
        ({"jitter": "half"}, ValueError, "jitter must be a share or \"full\", got 'half'"),
        ({"jitter": None}, TypeError, "jitter must be a number, got None"),
    ],
)
def test_a_bad_backoff_is_refused_with_its_field_and_value(arguments, error, named):
    with pytest.raises(error) as refusal:
        Exponential(**arguments)
    assert str(refusal.value) == named


def test_a_function_of_the_callers_decides_up_to_its_cap():
    waits = WaitFunction(lambda attempt: 5 * attempt, cap=12)
    assert [waits.delay(attempt, Random(1)) for attempt in (1, 2, 3)] == [5, 10, 12]


@pytest.mark.parametrize("returned", [-1, float("nan"), "5", None])
def test_a_function_without_a_usable_delay_is_logged_and_the_default_is_used(returned, caplog):
    waits = WaitFunction(lambda attempt: returned)
    assert waits.delay(3, FixedRandom(0.5)) == Exponential().delay(3, FixedRandom(0.5))
    assert "the wait function failed on attempt 3" in caplog.text


def test_a_function_that_raises_is_logged_and_the_default_is_used(caplog):
    waits = WaitFunction(lambda attempt: 1 // 0, cap=2)
    assert waits.delay(3, FixedRandom(0.5)) == 2
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("arguments", [{"function": 5}, {"function": len, "cap": -1}])
def test_a_wait_function_that_cannot_be_used_is_refused(arguments):
    with pytest.raises((TypeError, ValueError)):
        WaitFunction(**arguments)
