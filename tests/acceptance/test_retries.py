"""Retries, leases and limits of running jobs.

docs/explanation/proof.md lists which requirement is tested by which test; tests/browser tests the
pages in Chromium.
"""

from datetime import datetime

import pytest
from tests.acceptance.deployment import GOOD, NO_BREAKER, Calls, counting
from tests.apps.conversion.service import pdf

from holdfast.testing.downstream import hang, slow, status

CONCURRENCY = 2
LEASE = 2.0


@pytest.fixture(scope="module")
def deployment(build_deployment, gateway):
    built = build_deployment(
        GATEWAY_URL=gateway.url,
        RETRY_BASE_DELAY="100",
        RETRY_MAX_DELAY="60000",
        WORKER_CONCURRENCY=str(CONCURRENCY),
        GATEWAY_CONCURRENCY="100",  # so that the one user of these tests may fill the worker
        LEASE_MS=str(int(LEASE * 1000)),
        LEASE_EXTEND_MS="200",
        **NO_BREAKER,
    )
    with built as deployment:
        yield deployment


def test_a_502_is_retried_with_backoff(deployment, gateway):
    gateway.script(status(502), status(502), GOOD, path="/convert")

    job = deployment.wait(deployment.convert(pdf("bad gateway")))

    assert (job["status"], job["attemptCount"]) == ("complete", 3)
    assert deployment.codes(job["id"]) == ["GW_5XX", "GW_5XX", None]
    first, second, _ = deployment.attempts(job["id"])
    assert 80 <= first["retryAfterMs"] <= 120
    assert 240 <= second["retryAfterMs"] <= 360
    waited = moment(second["startedAt"]) - moment(first["finishedAt"])
    assert waited.total_seconds() * 1000 >= first["retryAfterMs"] - 1


def moment(text):
    return datetime.fromisoformat(text)


def test_after_three_failures_a_job_fails_permanently(deployment, gateway):
    gateway.script(status(503), path="/convert")
    before = len(gateway.requests)

    job = deployment.wait(deployment.convert(pdf("never well")))

    assert (job["status"], job["isDeadLetter"], job["canRetry"]) == ("failed", True, True)
    assert (job["attemptCount"], job["maxAttempts"]) == (3, 3)
    assert len(gateway.requests) - before == 3
    letters = deployment.admin().get("/api/dead-letters").json()["deadLetters"]
    assert job["id"] in [letter["id"] for letter in letters]


def test_between_attempts_a_job_has_the_number_and_time_of_the_next_one(deployment, gateway):
    # A Retry-After that is long enough to observe.
    gateway.script(status(503, retry_after=30), path="/convert")
    job_id = deployment.convert(pdf("waits"))

    job = deployment.until(lambda: (job := deployment.job(job_id))["retryAfter"] and job)

    assert (job["status"], job["attemptCount"], job["maxAttempts"]) == ("queued", 1, 3)
    assert job["error"] is None
    assert (moment(job["retryAfter"]) - moment(job["lastAttemptAt"])).total_seconds() >= 30
    assert deployment.codes(job_id) == ["GW_5XX"]
    assert deployment.client.post(f"/api/jobs/{job_id}/cancel").status_code == 200


def test_a_manual_retry_requeues_a_job(deployment, gateway):
    gateway.script(status(500), path="/convert")
    job_id = deployment.convert(pdf("by hand"))
    assert deployment.wait(job_id)["status"] == "failed"
    gateway.script(GOOD, path="/convert")

    answer = deployment.client.post(f"/api/jobs/{job_id}/retry")

    assert answer.status_code == 200
    assert answer.json()["job"]["error"] is None
    assert deployment.wait(job_id, "complete")["manualRetryCount"] == 1
    assert "retry" in deployment.events(job_id)


def test_a_job_that_runs_for_many_lease_times_keeps_its_lease(deployment, gateway):
    second = deployment.add_worker()  # would take the job if its lease were lost
    try:
        gateway.script(slow(3 * LEASE, GOOD), path="/convert")
        before = len(gateway.requests)

        job = deployment.wait(deployment.convert(pdf("long")))

        assert (job["status"], job["attemptCount"]) == ("complete", 1)
        assert len(gateway.requests) - before == 1
        assert len(deployment.results_of(job["id"])) == 1
    finally:
        deployment.dismiss(second)


def test_no_more_jobs_run_at_once_than_the_setting_allows(deployment, gateway):
    calls = Calls()
    gateway.script(counting(calls, slow(0.2, GOOD)), path="/convert")

    ids = [deployment.convert(pdf(f"at once {number}")) for number in range(8)]

    assert {deployment.wait(job_id)["status"] for job_id in ids} == {"complete"}
    assert (calls.most, calls.total) == (CONCURRENCY, 8)


def test_a_job_whose_worker_is_killed_during_a_retry_is_picked_up_again(deployment, gateway):
    gateway.script(status(500), hang(), GOOD, path="/convert")
    before = len(gateway.requests)
    job_id = deployment.convert(pdf("orphaned"))
    gateway.wait_for_requests(before + 2, 20)
    (worker,) = deployment.workers

    worker.kill()
    deployment.add_worker()

    job = deployment.wait(job_id)
    assert job["status"] == "complete"
    assert deployment.codes(job_id) == ["GW_5XX", "LEASE_LOST", None]
    assert job["attemptCount"] == 3
    assert len(deployment.results_of(job_id)) == 1
    deployment.dismiss(worker)
