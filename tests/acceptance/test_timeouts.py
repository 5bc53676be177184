"""A gateway that is too slow: retries with growing waits, then a failure."""

import pytest
from tests.acceptance.house import GOOD, NO_BREAKER
from tests.apps.conversion.service import pdf

from holdfast.testing.downstream import hang

TIMEOUT = 500


@pytest.fixture(scope="module")
def house(build_house, gateway):
    built = build_house(
        GATEWAY_URL=gateway.url,
        GATEWAY_TIMEOUT=str(TIMEOUT),
        RETRY_BASE_DELAY="60",
        RETRY_MAX_DELAY="5000",
        **NO_BREAKER,
    )
    with built as house:
        yield house


def test_a_timeout_is_retried_with_growing_waits_and_then_failed(house, gateway):
    gateway.script(hang(), path="/convert")
    before = len(gateway.requests)

    job = house.wait(house.convert(pdf("too slow")))

    assert (job["status"], job["error"]["code"]) == ("failed", "GW_TIMEOUT")
    assert (job["attemptCount"], job["maxAttempts"], job["isDeadLetter"]) == (3, 3, True)
    assert house.codes(job["id"]) == ["GW_TIMEOUT"] * 3
    assert len(gateway.requests) - before == 3
    attempts = house.attempts(job["id"])
    assert all(each["durationMs"] >= TIMEOUT for each in attempts)
    first, second, last = (each["retryAfterMs"] for each in attempts)
    assert 0.8 * 60 <= first <= 1.2 * 60
    assert 0.8 * 180 <= second <= 1.2 * 180
    assert last is None


def test_a_call_that_was_cut_off_is_let_go_of_and_retried(house, gateway):
    gateway.script(hang(), GOOD, path="/convert")

    job = house.wait(house.convert(pdf("slow only once")))

    assert job["status"] == "complete"
    assert house.codes(job["id"])[0] == "GW_TIMEOUT"
    assert len(house.results_of(job["id"])) == 1
    assert house.files(".drafts") == []
