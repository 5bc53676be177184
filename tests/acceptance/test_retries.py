"""Retries, leases and limits of running jobs, as a person would check them by hand.

docs/explanation/proof.md says which line is held by which test; what a person sees of them on the
page is looked at in Chromium, see tests/browser.
"""

from datetime import datetime

import pytest
from tests.acceptance.house import GOOD, NO_BREAKER, Calls, seeing
from tests.apps.conversion.service import pdf

from holdfast.testing.downstream import hang, slow, status

CONCURRENCY = 2
LEASE = 2.0


@pytest.fixture(scope="module")
def house(build_house, gateway):
    built = build_house(
        GATEWAY_URL=gateway.url,
        RETRY_BASE_DELAY="100",
        RETRY_MAX_DELAY="60000",
        WORKER_CONCURRENCY=str(CONCURRENCY),
        LEASE_MS=str(int(LEASE * 1000)),
        LEASE_EXTEND_MS="200",
        **NO_BREAKER,
    )
    with built as house:
        yield house


def test_a_502_is_retried_with_backoff(house, gateway):
    gateway.script(status(502), status(502), GOOD, path="/convert")

    job = house.wait(house.convert(pdf("bad gateway")))

    assert (job["status"], job["attemptCount"]) == ("complete", 3)
    assert house.codes(job["id"]) == ["GW_5XX", "GW_5XX", None]
    first, second, _ = house.attempts(job["id"])
    assert 80 <= first["retryAfterMs"] <= 120
    assert 240 <= second["retryAfterMs"] <= 360
    waited = moment(second["startedAt"]) - moment(first["finishedAt"])
    assert waited.total_seconds() * 1000 >= first["retryAfterMs"] - 1


def moment(text):
    return datetime.fromisoformat(text)


def test_after_three_failures_a_job_is_failed_for_good(house, gateway):
    gateway.script(status(503), path="/convert")
    before = len(gateway.requests)

    job = house.wait(house.convert(pdf("never well")))

    assert (job["status"], job["isDeadLetter"], job["canRetry"]) == ("failed", True, True)
    assert (job["attemptCount"], job["maxAttempts"]) == (3, 3)
    assert len(gateway.requests) - before == 3
    letters = house.admin().get("/api/dead-letters").json()["deadLetters"]
    assert job["id"] in [letter["id"] for letter in letters]


def test_between_attempts_a_job_says_which_one_comes_next_and_when(house, gateway):
    # A wait that the gateway asks for, long enough to be looked at.
    gateway.script(status(503, retry_after=30), path="/convert")
    job_id = house.convert(pdf("waits"))

    job = house.until(lambda: (job := house.job(job_id))["retryAfter"] and job)

    assert (job["status"], job["attemptCount"], job["maxAttempts"]) == ("queued", 1, 3)
    assert job["error"] is None
    assert (moment(job["retryAfter"]) - moment(job["lastAttemptAt"])).total_seconds() >= 30
    assert house.codes(job_id) == ["GW_5XX"]
    assert house.client.post(f"/api/jobs/{job_id}/cancel").status_code == 200


def test_a_retry_by_hand_brings_a_job_back_to_the_queue(house, gateway):
    gateway.script(status(500), path="/convert")
    job_id = house.convert(pdf("by hand"))
    assert house.wait(job_id)["status"] == "failed"
    gateway.script(GOOD, path="/convert")

    answer = house.client.post(f"/api/jobs/{job_id}/retry")

    assert answer.status_code == 200
    assert answer.json()["job"]["error"] is None
    assert house.wait(job_id, "complete")["manualRetryCount"] == 1
    assert "retry" in house.events(job_id)


def test_a_job_that_takes_many_leases_keeps_its_own(house, gateway):
    second = house.add_worker()  # would take the job if its lease were lost
    try:
        gateway.script(slow(3 * LEASE, GOOD), path="/convert")
        before = len(gateway.requests)

        job = house.wait(house.convert(pdf("long")))

        assert (job["status"], job["attemptCount"]) == ("complete", 1)
        assert len(gateway.requests) - before == 1
        assert len(house.results_of(job["id"])) == 1
    finally:
        house.dismiss(second)


def test_no_more_jobs_run_at_once_than_the_setting_allows(house, gateway):
    calls = Calls()
    gateway.script(seeing(calls, slow(0.2, GOOD)), path="/convert")

    ids = [house.convert(pdf(f"at once {number}")) for number in range(8)]

    assert {house.wait(job_id)["status"] for job_id in ids} == {"complete"}
    assert (calls.most, calls.total) == (CONCURRENCY, 8)


def test_a_job_whose_worker_is_killed_during_a_retry_is_picked_up_again(house, gateway):
    gateway.script(status(500), hang(), GOOD, path="/convert")
    before = len(gateway.requests)
    job_id = house.convert(pdf("orphaned"))
    gateway.wait_for_requests(before + 2, 20)
    (worker,) = house.workers

    worker.kill()
    house.add_worker()

    job = house.wait(job_id)
    assert job["status"] == "complete"
    assert house.codes(job_id) == ["GW_5XX", "LEASE_LOST", None]
    assert job["attemptCount"] == 3
    assert len(house.results_of(job_id)) == 1
    house.dismiss(worker)
