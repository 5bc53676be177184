"""The next start under a rate follows from the starts that were given before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import RateLimit
from holdfast.jobs.rate_port import GivenStarts, kept_starts, lookback, next_start


def starts_of(limit, arrivals):
    """Return the starts that callers get who arrive at these times, as a store gives them."""
    starts = {}
    for now in arrivals:
        count = len(starts)
        earlier = {number: starts[number] for number in lookback(limit, count)}
        given_starts = GivenStarts(count, starts.get(count), earlier)
        starts[count + 1] = next_start(limit, given_starts, now)
    return list(starts.values())


@pytest.mark.parametrize(
    ("limit", "arrivals", "starts"),
    [
        (RateLimit(per_minute=2), [0, 0, 0, 61], [0, 0, 60, 61]),
        (RateLimit(per_minute=2, per_day=3), [0, 0, 0, 0], [0, 0, 60, 86_400]),
        (RateLimit(per_minute=30, spread=True), [0, 0, 10], [0, 2, 10]),
        (RateLimit(per_second=1), [5, 1, 1], [5, 6, 7]),
    ],
)
def test_starts_under_a_limit(limit, arrivals, starts):
    assert starts_of(limit, arrivals) == starts


def test_only_the_starts_that_decide_are_looked_up():
    limit = RateLimit(per_minute=100, per_day=1000)
    assert lookback(limit, 99) == []
    assert lookback(limit, 100) == [1]
    assert lookback(limit, 1500) == [1401, 501]
    assert kept_starts(limit) == 1000


@given(st.integers(1, 5), st.integers(1, 9), st.lists(st.floats(-5, 30), min_size=1, max_size=60))
def test_no_window_ever_holds_more_starts_than_the_limit(per_second, per_minute, steps):
    limit = RateLimit(per_second=per_second, per_minute=per_minute)
    now, arrivals = 0.0, []
    for step in steps:
        now += step  # back too: the clock may be set
        arrivals.append(now)
    starts = starts_of(limit, arrivals)
    assert starts == sorted(starts)
    for period, most in limit.periods:
        for place in range(len(starts) - most):
            assert starts[place + most] - starts[place] >= period * (1 - 1e-9)
