"""The gateway is away: jobs wait, or fail at once where that is asked for, and then go on."""

import pytest
from tests.acceptance.house import GOOD
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
    """A gateway at an address where nobody listens yet."""
    server = ScriptedDownstream(GOOD)
    server.start()
    server.close()
    yield server
    server.close()


@pytest.mark.timeout(300)
def test_while_the_gateway_is_away_jobs_wait_and_then_drain_by_themselves(build_house, absent):
    with build_house(GATEWAY_URL=absent.url, CIRCUIT_TIMEOUT="1200", **SETTINGS) as house:
        ids = [house.convert(pdf(f"waits {number}")) for number in range(JOBS)]
        wait_for_trials(house, 3)
        jobs = [house.job(each) for each in ids]
        assert {job["status"] for job in jobs} <= {"queued", "processing"}
        assert {job["error"] for job in jobs} == {None}

        absent.start()
        done = [house.wait(each, seconds=180) for each in ids]

        assert {job["status"] for job in done} == {"complete"}
        assert house.downstream()["state"] == "CLOSED"
        assert sorted(name.partition(".")[0] for name in house.files("results")) == sorted(ids)
        # The last attempt of each job went well, so the others that count failed during the outage:
        # only those that had begun when the breaker opened. The failed trials cost no attempt.
        failed = [code for each in ids for code in house.codes(each) if code is not None]
        counted = sum(job["attemptCount"] - 1 for job in done)
        assert set(failed) == {"GW_UNAVAILABLE"}
        assert THRESHOLD <= counted <= THRESHOLD + CONCURRENCY
        assert len(failed) - counted >= 3


def wait_for_trials(house, count):
    """Wait until the breaker has opened anew after trials, so many times."""
    admin, cooldowns = house.admin(), set()

    def has_tried():
        (found,) = admin.get("/api/downstreams").json()["downstreams"]
        cooldowns.add(found["openUntil"])
        return len(cooldowns - {None}) > count

    house.until(has_tried, seconds=120)


def test_where_that_is_asked_for_jobs_fail_at_once_and_can_be_retried_later(build_house, gateway):
    settings = {**SETTINGS, "CIRCUIT_TIMEOUT": "20000", "CIRCUIT_MODE": "fail_fast"}
    with build_house(GATEWAY_URL=gateway.url, **settings) as house:
        gateway.script(status(500), path="/convert")
        gateway.script(status(503), path="/health")
        # It fails as often as it takes to open the breaker.
        first = house.wait(house.convert(pdf("opens it")))
        house.until(lambda: house.downstream()["state"] == "OPEN")
        calls = convert_calls(gateway)

        job = house.wait(house.convert(pdf("met by an open breaker")))

        assert (first["status"], first["error"]["code"]) == ("failed", "GW_5XX")
        assert (job["status"], job["error"]["code"]) == ("failed", "GW_5XX")
        assert job["canRetry"]
        assert convert_calls(gateway) == calls
        # It is well again: the probe finds out, and a retry by hand is a trial that goes well.
        gateway.script(GOOD, path="/convert")
        gateway.script(GOOD, path="/health")
        house.until(lambda: house.downstream()["state"] != "OPEN")
        for each in (job, first):
            assert house.client.post(f"/api/jobs/{each['id']}/retry").status_code == 200
            assert house.wait(each["id"])["status"] == "complete"


def convert_calls(gateway):
    return sum(request.path == "/convert" for request in gateway.requests)


def test_an_open_breaker_holds_new_jobs_and_says_so_until_the_probe_is_answered(
    build_house, gateway
):
    with build_house(GATEWAY_URL=gateway.url, CIRCUIT_TIMEOUT="60000", **SETTINGS) as house:
        gateway.script(status(502), path="/convert")
        gateway.script(status(503), path="/health")
        house.convert(pdf("finds it broken"))
        house.until(lambda: house.downstream()["state"] == "OPEN")

        job_id = house.convert(pdf("comes while it is open"))

        job, found = house.job(job_id), house.downstream()
        assert (job["status"], job["held"], job["attemptCount"]) == ("queued", True, 0)
        assert (found["name"], found["state"], found["held"]) == ("gateway", "OPEN", True)
        gateway.script(GOOD, path="/convert")
        gateway.script(GOOD, path="/health")
        # Long before its minute is over: the probe has asked.
        assert house.wait(job_id, "complete", seconds=45)["attemptCount"] == 1
