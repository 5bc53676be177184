"""The counters and rates of `holdfast top`."""

from dataclasses import replace

from holdfast import JobStatus
from holdfast.cli.fleet_snapshot import FleetSnapshot, Rates
from holdfast.jobs.views import LaneCounts, OutcomeCounts, Stats
from holdfast.outbox import Backlog


def snapshot(at, *, ready=0, complete=0, failed=0):
    outcomes = (
        OutcomeCounts("mail", JobStatus.COMPLETE, 1, complete),
        OutcomeCounts("mail", JobStatus.FAILED, 3, failed),
    )
    stats = Stats((LaneCounts("post", None, "mail", ready=ready),), outcomes, {}, {"post": 90.0})
    return FleetSnapshot(at, stats, (), (), Backlog(0, 0, 0.0), frozenset({"quiet"}))


def test_rates_are_jobs_per_second_between_two_snapshots():
    before, after = snapshot(100.0, ready=5, complete=10), snapshot(102.0, complete=16, failed=2)
    assert Rates.between(before, after) == Rates(arrived=1.5, completed=3.0, failed=1.0)


def test_without_time_between_there_is_no_rate_and_deletions_are_no_arrivals():
    assert Rates.between(snapshot(100.0), snapshot(100.0)) is None
    fewer = Rates.between(snapshot(100.0, ready=5), snapshot(101.0))
    assert fewer == Rates(0.0, 0.0, 0.0)


def test_queues_have_the_age_of_their_oldest_job_and_paused_ones_are_listed_when_empty():
    post, quiet = snapshot(100.0, ready=2).queue_records()
    assert (post["queue"], post["oldest"], post["ready"]) == ("post", 10.0, 2)
    assert (quiet["queue"], quiet["state"], quiet["oldest"]) == ("quiet", "paused", None)


def test_a_clock_that_goes_back_gives_no_negative_age():
    (post, _) = replace(snapshot(100.0), at=80.0).queue_records()
    assert post["oldest"] == 0.0
