"""How owners share the places of a downstream."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.jobs.claim_sharing import Turn
from holdfast.jobs.downstreams.record import DownstreamSettings
from holdfast.jobs.owner_places import OwnerPlaces, levels

NAMES = st.sampled_from(["", "ann", "ann/x", "ann/x/1", "ann0", "bob/x", "bob/y", "cid"])


def places(concurrency=4, spare=1, **running):
    settings = DownstreamSettings("gateway", concurrency=concurrency, spare=spare)
    return OwnerPlaces.of(settings, Counter(running).elements())


def choose(held, waiting, wanted, turn=None, skipped=()):
    """Choose among the `waiting` owners; return those chosen, and how often the store was asked."""
    search, asked = held.choose(wanted, turn, skipped.__contains__), 0
    try:
        start = next(search)
        while True:
            asked += 1
            start = search.send(min((name for name in waiting if name >= start), default=None))
    except StopIteration as ended:
        return ended.value, asked


def test_slashes_make_levels():
    assert levels("office/ann") == ["office", "office/ann"]
    assert levels("ann") == ["ann"]


@pytest.mark.parametrize(
    "owner, running, full",
    [
        ("ann", {"ann": 2}, None),
        ("ann", {"ann": 3}, "ann"),
        ("bob", {"ann": 3}, None),
        ("office/ann", {"office/ann": 1}, None),
        ("office/ann", {"office/ann": 2}, "office/ann"),
        ("office/ann", {"office/bob": 2, "office/cid": 1}, "office"),
        ("", {"": 9}, None),
    ],
)
def test_an_owner_and_each_level_of_its_name_leave_one_of_four_places(owner, running, full):
    assert places(**running).full_level(owner) == full


def test_every_owner_may_hold_one_place_however_many_are_spare():
    assert places(concurrency=2, spare=5).full_level("a/b/c/d") is None


def test_owners_are_chosen_in_the_order_of_names_after_the_one_served_last():
    waiting = ["ann", "bob", "cid"]
    assert choose(places(), waiting, 2, Turn("ann", 1))[0] == ["bob", "cid"]
    assert choose(places(), waiting, 3, Turn("bob", 1))[0] == ["cid", "ann", "bob"]
    assert choose(places(), waiting, 3)[0] == waiting


def test_an_owner_that_is_skipped_is_not_chosen():
    assert choose(places(), ["ann", "bob"], 2, skipped=["ann"])[0] == ["bob"]


def test_a_full_office_is_passed_at_one_step_however_many_owners_it_has():
    waiting = [f"office/{number:04d}" for number in range(1000)] + ["zoe"]
    held = places(**{"office/a": 2, "office/b": 1})
    assert choose(held, waiting, 1) == (["zoe"], 2)


@given(
    st.dictionaries(NAMES, st.integers(0, 3)),
    st.sets(NAMES),
    st.integers(0, 9),
    st.none() | st.builds(Turn, NAMES, st.integers(0, 9)),
)
def test_no_level_is_filled_beyond_its_limit_and_all_who_may_start_are_chosen(
    running, waiting, wanted, turn
):
    held, before = places(concurrency=5, spare=1, **running), Counter()
    for owner, number in running.items():
        before.update(levels(owner) * number)
    chosen, _ = choose(held, waiting, wanted, turn)
    assert len(chosen) == len(set(chosen)) <= wanted
    assert set(chosen) <= waiting
    after = before + Counter(level for owner in chosen for level in levels(owner))
    for level in after:
        if level and after[level] > before[level]:
            assert after[level] <= max(1, 5 - (level.count("/") + 1))
    if len(chosen) < wanted:
        assert all(held.full_level(owner) for owner in waiting - set(chosen))
