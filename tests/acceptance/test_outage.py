"""Outages of the gateway: jobs wait, or fail at once in fail-fast mode, and continue afterwards."""

import pytest
from tests.acceptance.deployment import GOOD
from tests.apps.conversion.service import pdf

from holdfast.testing.downstream import ScriptedDownstream, status

JOBS = 50
THRESHOLD = 3
CONCURRENCY = 5
SETTINGS = {
    "RETRY_BASE_DELAY": "50",
    "RETRY_MAX_DELAY": "200",
    "CIRCUIT_THRESHOLD": str(THRESHOLD),
    "WORKER_CONCURRENCY": str(CONCURRENCY),
}


@pytest.fixture
def absent():
    """A gateway that does not listen yet."""
    server = ScriptedDownstream(GOOD)
    server.start()
    server.close()
    yield server
    server.close()


@pytest.mark.timeout(300)
def test_during_an_outage_of_the_gateway_jobs_wait_and_then_drain(build_deployment, absent):
    with build_deployment(GATEWAY_URL=absent.url, CIRCUIT_TIMEOUT="1200", **SETTINGS) as deployment:
        ids = [deployment.convert(pdf(f"waits {number}")) for number in range(JOBS)]
        wait_for_trials(deployment, 3)
        jobs = [deployment.job(each) for each in ids]
        assert {job["status"] for job in jobs} <= {"queued", "processing"}
        assert {job["error"] for job in jobs} == {None}

        absent.start()
        done = [deployment.wait(each, seconds=180) for each in ids]

        assert {job["status"] for job in done} == {"complete"}
        assert deployment.downstream()["state"] == "CLOSED"
        assert sorted(name.partition(".")[0] for name in deployment.files("results")) == sorted(ids)
        # The last attempt of each job succeeded. All others failed in the outage and count: those
        # that had begun when the breaker opened, and the trials, which go round the waiting jobs.
        failed = [code for each in ids for code in deployment.codes(each) if code is not None]
        assert set(failed) == {"GW_UNAVAILABLE"}
        assert sum(job["attemptCount"] - 1 for job in done) == len(failed)
        assert len(failed) >= THRESHOLD + 3


def wait_for_trials(deployment, count):
    """Wait until the breaker has opened again after trials, `count` times."""
    admin, cooldowns = deployment.admin(), set()

    def has_tried():
        (found,) = admin.get("/api/downstreams").json()["downstreams"]
        cooldowns.add(found["openUntil"])
        return len(cooldowns - {None}) > count

    deployment.until(has_tried, seconds=120)


def test_in_fail_fast_mode_jobs_fail_at_once_and_can_be_retried_later(build_deployment, gateway):
    settings = {**SETTINGS, "CIRCUIT_TIMEOUT": "20000", "CIRCUIT_MODE": "fail_fast"}
    with build_deployment(GATEWAY_URL=gateway.url, **settings) as deployment:
        gateway.script(status(500), path="/convert")
        gateway.script(status(503), path="/health")
        # Enough failures to open the breaker.
        first = deployment.wait(deployment.convert(pdf("opens it")))
        deployment.until(lambda: deployment.downstream()["state"] == "OPEN")
        calls = convert_calls(gateway)

        job = deployment.wait(deployment.convert(pdf("met by an open breaker")))

        assert (first["status"], first["error"]["code"]) == ("failed", "GW_5XX")
        assert (job["status"], job["error"]["code"]) == ("failed", "GW_5XX")
        assert job["canRetry"]
        assert convert_calls(gateway) == calls
        # The gateway works again: the probe succeeds, and a manual retry is a successful trial.
        gateway.script(GOOD, path="/convert")
        gateway.script(GOOD, path="/health")
        deployment.until(lambda: deployment.downstream()["state"] != "OPEN")
        for each in (job, first):
            assert deployment.client.post(f"/api/jobs/{each['id']}/retry").status_code == 200
            assert deployment.wait(each["id"])["status"] == "complete"


def convert_calls(gateway):
    return sum(request.path == "/convert" for request in gateway.requests)


def test_an_open_breaker_holds_new_jobs_until_the_probe_succeeds(build_deployment, gateway):
    with build_deployment(
        GATEWAY_URL=gateway.url, CIRCUIT_TIMEOUT="60000", **SETTINGS
    ) as deployment:
        gateway.script(status(502), path="/convert")
        gateway.script(status(503), path="/health")
        deployment.convert(pdf("finds it broken"))
        deployment.until(lambda: deployment.downstream()["state"] == "OPEN")

        job_id = deployment.convert(pdf("comes while it is open"))

        job, found = deployment.job(job_id), deployment.downstream()
        assert (job["status"], job["held"], job["attemptCount"]) == ("queued", True, 0)
        assert (found["name"], found["state"], found["held"]) == ("gateway", "OPEN", True)
        gateway.script(GOOD, path="/convert")
        gateway.script(GOOD, path="/health")
        # Before its minute is over, because the probe succeeded.
        assert deployment.wait(job_id, "complete", seconds=45)["attemptCount"] == 1
