"""Running totals over the last seconds."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.resilience.recent_counts import RecentCounts


def test_both_totals_grow_on_their_own():
    recent = RecentCounts(10)
    recent.add(0.0, calls=1)
    recent.add(0.1, calls=1, marked=1)
    recent.add(0.2, marked=1)
    assert (recent.calls, recent.marked) == (2, 2)


def test_a_call_as_old_as_the_window_is_outside():
    recent = RecentCounts(10)
    recent.add(0.0, calls=1, marked=1)
    recent.forget_before(9.4)
    assert (recent.calls, recent.marked) == (1, 1)
    recent.forget_before(10.0)
    assert (recent.calls, recent.marked) == (0, 0)


def test_after_a_long_idle_time_nothing_is_left():
    recent = RecentCounts(10)
    for moment in range(10):
        recent.add(float(moment), calls=5, marked=2)
    recent.add(1e7, calls=1)
    assert (recent.calls, recent.marked) == (1, 0)


def test_an_idle_time_of_exactly_one_turn_of_the_ring_leaves_nothing_behind():
    recent = RecentCounts(20)
    recent.add(0.5, calls=3, marked=3)
    recent.add(20.5, calls=1)
    assert (recent.calls, recent.marked) == (1, 0)


def test_a_moment_from_the_past_is_counted_as_of_now():
    recent = RecentCounts(10)
    recent.add(100.0, calls=1)
    recent.add(3.0, calls=1, marked=1)
    assert (recent.calls, recent.marked) == (2, 1)
    recent.forget_before(110.0)
    assert (recent.calls, recent.marked) == (0, 0)


def test_clearing_forgets_everything_and_counting_goes_on():
    recent = RecentCounts(10)
    recent.add(500.0, calls=3, marked=1)
    recent.clear()
    assert (recent.calls, recent.marked) == (0, 0)
    recent.add(501.0, calls=1)
    assert (recent.calls, recent.marked) == (1, 0)


@given(
    st.floats(0.5, 1000),
    st.floats(0, 1e6),
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 3), st.integers(0, 3)), max_size=80),
)
def test_totals_hold_all_of_the_last_19_twentieths_and_nothing_older_than_the_window(
    window, start, additions
):
    recent = RecentCounts(window)
    now, entries = start, []
    for share, calls, marked in additions:
        now += share * window
        recent.add(now, calls=calls, marked=marked)
        entries.append((now, calls, marked))
        slack = 1e-6 * window
        surely = [entry for entry in entries if entry[0] > now - window * 19 / 20 + slack]
        at_most = [entry for entry in entries if entry[0] > now - window - slack]
        assert sum(e[1] for e in surely) <= recent.calls <= sum(e[1] for e in at_most)
        assert sum(e[2] for e in surely) <= recent.marked <= sum(e[2] for e in at_most)
