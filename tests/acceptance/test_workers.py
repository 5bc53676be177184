"""Two workers, of which one dies or stands still in the middle of a conversion.

No second XML is made, and the job keeps one owner.
"""

import signal

import pytest
from tests.acceptance.house import GOOD, NO_BREAKER, XML
from tests.apps.conversion.service import pdf

from holdfast.testing.downstream import hang


@pytest.fixture(scope="module")
def house(build_house, gateway):
    built = build_house(
        workers=0,
        GATEWAY_URL=gateway.url,
        LEASE_MS="2000",
        LEASE_EXTEND_MS="200",
        # What nobody needs is cleared up ten times in this while.
        ARTIFACT_TTL_MS="60000",
        **NO_BREAKER,
    )
    with built as house:
        yield house


def begin(house, gateway, words):
    """Let one worker call the gateway, which does not answer; return the job and the worker."""
    gateway.script(hang(GOOD), GOOD, path="/convert")
    before = len(gateway.requests)
    worker = house.add_worker()
    job_id = house.convert(pdf(words))
    gateway.wait_for_requests(before + 1, 30)
    return job_id, worker


def has_one_xml(house, job_id):
    """Say whether the one file that is left is the one that the job's second attempt made."""
    names = house.results_of(job_id)
    return len(names) == 1 and house.client.get(f"/api/jobs/{job_id}/download").content == XML


def test_what_a_dead_worker_began_is_finished_by_another(house, gateway):
    job_id, worker = begin(house, gateway, "died")
    house.add_worker()
    assert house.job(job_id)["status"] == "processing"

    worker.kill()

    job = house.wait(job_id)
    assert (job["status"], job["attemptCount"]) == ("complete", 2)
    assert house.codes(job_id) == ["LEASE_LOST", None]
    assert has_one_xml(house, job_id)
    for each in list(house.workers):
        house.dismiss(each)


def test_a_worker_that_wakes_up_too_late_makes_no_second_xml(house, gateway):
    job_id, sleeper = begin(house, gateway, "slept")
    other = house.add_worker()

    sleeper.process.send_signal(signal.SIGSTOP)
    try:
        job = house.wait(job_id)
    finally:
        sleeper.process.send_signal(signal.SIGCONT)
    gateway.release()

    assert (job["status"], job["attemptCount"]) == ("complete", 2)
    # It has heard by the time that it ends: it may be about to store its XML until then.
    house.dismiss(sleeper)
    house.until(lambda: has_one_xml(house, job_id))
    assert house.job(job_id) == job
    assert house.codes(job_id) == ["LEASE_LOST", None]
    house.dismiss(other)
