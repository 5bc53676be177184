"""How a claim is shared out among lanes, and that of a lane among its owners."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.jobs.claim_sharing import TURN, Turn, in_turn, share_out, take_turns, turn_after


def shared(waiting, limit):
    """Share `limit` among lanes with so many waiting jobs; return the number from each."""
    gave = [0] * len(waiting)

    def take(lane, wanted):
        taken = min(wanted, waiting[lane] - gave[lane])
        gave[lane] += taken
        return taken

    share_out(range(len(waiting)), limit, take)
    return gave


@pytest.mark.parametrize(
    "waiting, limit, expected",
    [
        ([100, 100], 10, [5, 5]),
        ([100, 1], 10, [9, 1]),
        ([1, 2, 100], 30, [1, 2, 27]),
        ([100, 100, 100], 2, [1, 1, 0]),
        ([100, 100, 100], 7, [3, 2, 2]),
        ([0, 3], 10, [0, 3]),
        ([5], 0, [0]),
        ([], 5, []),
    ],
)
def test_lanes_have_equal_shares_and_longer_ones_fill_the_rest(waiting, limit, expected):
    assert shared(waiting, limit) == expected


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(0, 100))
def test_the_limit_is_used_and_a_lane_with_jobs_left_gave_its_equal_share(waiting, limit):
    taken = shared(waiting, limit)
    assert sum(taken) == min(limit, sum(waiting))
    for lane, count in enumerate(taken):
        assert count == waiting[lane] or count >= limit // len(waiting)


def in_turns(waiting, limit, turn=None):
    """Share `limit` among owners with so many waiting jobs; return how many each gave, in order."""
    gave = {}

    def take(owner, wanted):
        taken = min(wanted, waiting[owner] - gave.get(owner, 0))
        gave[owner] = gave.get(owner, 0) + taken
        return taken

    take_turns(in_turn(waiting, turn), turn, limit, take)
    return {owner: taken for owner, taken in gave.items() if taken}


@pytest.mark.parametrize(
    "waiting, limit, turn, expected",
    [
        ({"a": 100}, 10, Turn("a", 50), {"a": 10}),
        ({"a": 100, "b": 10}, 1, Turn("a", 10), {"b": 1}),
        ({"a": 100, "b": 10}, 1, Turn("a", 9), {"a": 1}),
        ({"a": 100, "b": 10}, 4, Turn("a", 8), {"a": 2, "b": 2}),
        ({"a": 100, "b": 10}, 1, Turn("b", 10), {"a": 1}),
        ({"a": 100, "b": 100}, 30, None, {"a": 15, "b": 15}),
        ({"a": 100, "b": 1, "c": 100}, 61, None, {"a": 30, "b": 1, "c": 30}),
        ({"": 100, "a": 100, "b": 100}, 20, Turn("a", 10), {"b": 10, "": 10}),
    ],
)
def test_owners_give_a_turn_each_or_an_equal_share(waiting, limit, turn, expected):
    assert in_turns(waiting, limit, turn) == expected
    assert list(in_turns(waiting, limit, turn)) == list(expected)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 40), min_size=1),
    st.integers(1, 100),
    st.builds(Turn, st.sampled_from("abcdefg"), st.integers(0, 20)),
)
def test_the_limit_is_used_and_an_owner_with_jobs_left_had_a_turn_or_is_next(waiting, limit, turn):
    taken = in_turns(waiting, limit, turn)
    assert sum(taken.values()) == min(limit, sum(waiting.values()))
    order = in_turn(waiting, turn)
    last = max(order.index(owner) for owner in taken)
    for owner in order[1:last]:
        assert taken[owner] == waiting[owner] or taken[owner] >= TURN


def test_the_turn_goes_on_until_another_owner_is_served():
    turn = turn_after(None, {"a": 4})
    assert turn == Turn("a", 4)
    assert turn_after(turn, {"a": 3}) == Turn("a", 7)
    assert turn_after(turn, {"a": 6, "b": 2}) == Turn("b", 2)
    assert turn_after(Turn("b", 10), {"a": 2}) == Turn("a", 2)
