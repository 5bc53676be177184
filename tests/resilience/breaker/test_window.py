"""Windows: the number of calls and of failures in them."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from holdfast.resilience.breaker.window import CountWindow, TimeWindow, window_for
from holdfast.resilience.policy import BreakerPolicy


def test_a_window_of_calls_holds_the_last_ones_only():
    window = CountWindow(3)
    for failed in (True, True, False):
        window.record(failed, 0.0)
    assert window.totals(0.0) == (3, 2)
    window.record(False, 0.0)
    assert window.totals(0.0) == (3, 1)


def test_a_window_of_calls_does_not_care_how_much_time_passes():
    window = CountWindow(3)
    window.record(True, 0.0)
    assert window.totals(1e9) == (1, 1)


@given(st.integers(1, 30), st.lists(st.booleans() | st.none(), max_size=120))
def test_a_window_of_calls_agrees_with_a_plain_list(size, outcomes):
    window, oracle = CountWindow(size), deque[bool](maxlen=size)
    for outcome in outcomes:
        if outcome is None:
            window.clear()
            oracle.clear()
        else:
            window.record(outcome, 0.0)
            oracle.append(outcome)
        assert window.totals(0.0) == (len(oracle), sum(oracle))


def test_a_window_of_time_drops_old_calls_even_when_nothing_is_added():
    window = TimeWindow(60)
    for _ in range(5):
        window.record(True, 0.0)
    window.record(False, 30.0)
    assert window.totals(30.0) == (6, 5)
    assert window.totals(60.0) == (1, 0)
    assert window.totals(90.0) == (0, 0)


def test_a_window_of_time_is_empty_after_a_long_idle_time():
    window = TimeWindow(60)
    for moment in range(60):
        window.record(True, float(moment))
    window.record(False, 1e6)
    assert window.totals(1e6) == (1, 0)


def test_clearing_a_window_of_time_forgets_everything():
    window = TimeWindow(60)
    window.record(True, 1.0)
    window.clear()
    assert window.totals(1.0) == (0, 0)


def test_the_policy_chooses_the_window():
    assert window_for(BreakerPolicy()) is None
    assert isinstance(window_for(BreakerPolicy(failure_rate=0.5)), CountWindow)
    timed = BreakerPolicy(failure_rate=0.5, window_seconds=120)
    assert isinstance(window_for(timed), TimeWindow)


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 3)), max_size=60),
    st.sampled_from([{"window_calls": 7}, {"window_seconds": 10.0}]),
)
def test_a_window_that_is_stored_and_loaded_for_each_call_counts_as_one_in_memory(calls, kind):
    policy = BreakerPolicy(failure_rate=0.5, **kind)
    kept, entries, now = window_for(policy), (), 0.0
    assert kept is not None
    for failed, wait in calls:
        now += wait
        kept.record(failed, now)
        loaded = window_for(policy, entries)
        assert loaded is not None
        loaded.record(failed, now)
        entries = loaded.entries()
        assert loaded.totals(now) == kept.totals(now)
        assert entries == kept.entries()
