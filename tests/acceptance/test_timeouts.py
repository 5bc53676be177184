"""A gateway that is too slow: retries with growing waits, then a failure."""

import pytest
from tests.acceptance.deployment import GOOD, NO_BREAKER
from tests.apps.conversion.service import pdf

from holdfast.testing.downstream import hang

TIMEOUT = 2000


@pytest.fixture(scope="module")
def deployment(build_deployment, gateway):
    built = build_deployment(
        GATEWAY_URL=gateway.url,
        GATEWAY_TIMEOUT=str(TIMEOUT),
        RETRY_BASE_DELAY="60",
        RETRY_MAX_DELAY="5000",
        **NO_BREAKER,
    )
    with built as deployment:
        yield deployment


def test_a_timeout_is_retried_with_growing_waits_and_then_failed(deployment, gateway):
    gateway.script(hang(), path="/convert")
    before = len(gateway.requests)

    job = deployment.wait(deployment.convert(pdf("too slow")))

    assert (job["status"], job["error"]["code"]) == ("failed", "GW_TIMEOUT")
    assert (job["attemptCount"], job["maxAttempts"], job["isDeadLetter"]) == (3, 3, True)
    assert deployment.codes(job["id"]) == ["GW_TIMEOUT"] * 3
    assert len(gateway.requests) - before == 3
    attempts = deployment.attempts(job["id"])
    assert all(each["durationMs"] >= TIMEOUT for each in attempts)
    first, second, last = (each["retryAfterMs"] for each in attempts)
    assert 0.8 * 60 <= first <= 1.2 * 60
    assert 0.8 * 180 <= second <= 1.2 * 180
    assert last is None


def test_a_call_that_timed_out_is_closed_and_retried(deployment, gateway):
    gateway.script(hang(), GOOD, path="/convert")

    job = deployment.wait(deployment.convert(pdf("slow only once")))

    assert job["status"] == "complete"
    assert deployment.codes(job["id"])[0] == "GW_TIMEOUT"
    assert len(deployment.results_of(job["id"])) == 1
    assert deployment.files(".drafts") == []
