"""The ids that jobs are given when the caller gives them none."""

import pytest

from holdfast.jobs.client.ids import IN_A_ROW, in_a_row, new_ids

NOW = 1_700_000_000.0
MADE = new_ids(4, NOW)


def test_new_ids_differ_and_grow_with_time():
    earlier, later = new_ids(500, NOW), new_ids(500, NOW + 0.001)
    assert len(set(earlier + later)) == 1000
    assert max(earlier) < min(later)
    assert {len(one) for one in earlier} == {32}
    assert new_ids(0, NOW) == []


def test_two_calls_at_the_same_moment_have_no_stem_in_common():
    assert new_ids(1, NOW)[0][:22] != new_ids(1, NOW)[0][:22]


def test_new_ids_are_in_a_row():
    assert in_a_row(MADE)
    assert in_a_row(MADE[:1])


def test_more_than_have_room_in_one_row_begin_another():
    many = new_ids(IN_A_ROW + 2, NOW)
    assert len(set(many)) == IN_A_ROW + 2
    assert in_a_row(many[:IN_A_ROW])
    assert in_a_row(many[IN_A_ROW:])
    assert not in_a_row(many)


OTHERS = {
    "none": [],
    "not from the first on": MADE[1:],
    "backwards": MADE[::-1],
    "with a gap": [MADE[0], MADE[2]],
    "one twice": [MADE[0], MADE[0]],
    "one of a caller's among them": [*MADE, "custom"],
    "one too long": [MADE[0], MADE[1] + "a"],
    "of two calls": [MADE[0], new_ids(2, NOW)[1]],
    "a caller's own": [f"job-{number}" for number in range(3)],
}


@pytest.mark.parametrize("how", OTHERS)
def test_others_are_not(how):
    assert not in_a_row(OTHERS[how])
