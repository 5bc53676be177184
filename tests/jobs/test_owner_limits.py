"""Limits of owners as values, and how many more jobs a claim may start."""

import pytest

from holdfast import OwnerLimits, RateLimit
from holdfast.jobs.downstreams.claim_permits import RateSpent
from holdfast.jobs.owner_limits import MOST, RemainingStarts, dump_rate, load_limits

NOW = 1_800_000_000.0


@pytest.mark.parametrize("name", ["concurrency", "waiting", "storage_bytes"])
@pytest.mark.parametrize(
    "value, error", [(0, ValueError), (-1, ValueError), ("5", TypeError), (True, TypeError)]
)
def test_a_limit_must_be_a_whole_number_above_zero(name, value, error):
    with pytest.raises(error, match=name):
        OwnerLimits(**{name: value})


@pytest.mark.parametrize("value", [5, "5 per minute", {"per_minute": 5}])
def test_a_rate_must_be_a_rate_limit(value):
    with pytest.raises(TypeError, match="rate"):
        OwnerLimits(rate=value)


def test_what_is_too_large_for_the_stores_is_refused():
    with pytest.raises(ValueError, match="concurrency"):
        OwnerLimits(concurrency=MOST + 1)
    with pytest.raises(ValueError, match="storage_bytes"):
        OwnerLimits(storage_bytes=2**53 + 1)


def test_only_concurrency_and_rate_concern_claims():
    assert OwnerLimits(concurrency=1).limits_claims
    assert OwnerLimits(rate=RateLimit(per_day=1)).limits_claims
    assert not OwnerLimits(waiting=1, storage_bytes=1).limits_claims


@pytest.mark.parametrize("rate", [None, RateLimit(per_minute=3), RateLimit(1, 2, 3, spread=True)])
def test_stored_limits_are_read_as_they_were(rate):
    assert load_limits(1, dump_rate(rate), 2, 3) == OwnerLimits(1, rate, 2, 3)


def test_running_reserved_and_started_jobs_take_room():
    starts = RemainingStarts(NOW)
    starts.add("ann", OwnerLimits(concurrency=5), 1, ())
    assert starts.remaining("ann") == 4
    starts.reserve("ann", 2)
    assert starts.remaining("ann") == 2
    starts.release("ann", 1)
    assert starts.remaining("ann") == 3
    starts.start(["ann", None])
    assert starts.remaining("ann") == 3
    assert starts.wake_at is None


def test_an_owner_above_a_lowered_limit_has_no_room():
    starts = RemainingStarts(NOW)
    starts.add("ann", OwnerLimits(concurrency=2), 7, ())
    assert starts.remaining("ann") == 0


def test_no_owner_and_no_limits_leave_any_room():
    starts = RemainingStarts(NOW)
    assert starts.knows("")
    assert not starts.knows("ann")
    starts.add("ann", OwnerLimits(), 100, ())
    assert starts.remaining("") == starts.remaining("ann") == MOST


def test_the_smaller_of_rate_and_concurrency_counts_and_a_spent_rate_says_when_to_look_again():
    starts = RemainingStarts(NOW)
    limits = OwnerLimits(concurrency=5, rate=RateLimit(per_minute=3))
    starts.add("ann", limits, 0, [RateSpent(1.0, int(NOW) - 10, 1)])
    assert starts.remaining("ann") == 2
    starts.start(["ann", "ann"])
    assert starts.remaining("ann") == 0
    assert starts.wake_at == NOW + 1
    assert starts.spending() == [("ann", 1.0, int(NOW), 2, int(NOW) - 60)]
