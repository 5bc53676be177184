"""How a claim is shared out among lanes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.jobs.claim_rules import share_out


def shared(waiting, limit):
    """Share `limit` among lanes with so many waiting jobs; return how many each gave."""
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
def test_every_lane_gives_an_equal_share_and_the_rest_comes_from_who_has_more(
    waiting, limit, expected
):
    assert shared(waiting, limit) == expected


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(0, 100))
def test_all_is_taken_and_a_lane_that_still_waits_gave_its_equal_share(waiting, limit):
    taken = shared(waiting, limit)
    assert sum(taken) == min(limit, sum(waiting))
    for lane, count in enumerate(taken):
        assert count == waiting[lane] or count >= limit // len(waiting)
