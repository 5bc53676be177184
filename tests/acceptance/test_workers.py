"""Two workers, one of which dies or is paused during a conversion.

No second XML is made, and the job keeps one owner.
"""

import signal

import pytest
from tests.acceptance.deployment import GOOD, NO_BREAKER, XML
from tests.apps.conversion.service import pdf
from tests.support.processes import pause

from holdfast.testing.downstream import hang


@pytest.fixture(scope="module")
def deployment(build_deployment, gateway):
    built = build_deployment(
        workers=0,
        GATEWAY_URL=gateway.url,
        LEASE_MS="2000",
        LEASE_EXTEND_MS="200",
        # Unused files are cleaned up ten times in this period.
        ARTIFACT_TTL_MS="60000",
        **NO_BREAKER,
    )
    with built as deployment:
        yield deployment


def begin(deployment, gateway, words):
    """Start a conversion whose gateway does not answer; return the job and its worker."""
    gateway.script(hang(GOOD), GOOD, path="/convert")
    before = len(gateway.requests)
    worker = deployment.add_worker()
    job_id = deployment.convert(pdf(words))
    gateway.wait_for_requests(before + 1, 30)
    return job_id, worker


def has_one_xml(deployment, job_id):
    """Return whether the only remaining file is that of the job's second attempt."""
    names = deployment.results_of(job_id)
    return len(names) == 1 and deployment.client.get(f"/api/jobs/{job_id}/download").content == XML


def test_a_job_of_a_dead_worker_is_finished_by_another(deployment, gateway):
    job_id, worker = begin(deployment, gateway, "died")
    deployment.add_worker()
    assert deployment.job(job_id)["status"] == "processing"

    worker.kill()

    job = deployment.wait(job_id)
    assert (job["status"], job["attemptCount"]) == ("complete", 2)
    assert deployment.codes(job_id) == ["LEASE_LOST", None]
    assert has_one_xml(deployment, job_id)
    for each in list(deployment.workers):
        deployment.dismiss(each)


def test_a_worker_that_resumes_too_late_makes_no_second_xml(deployment, gateway):
    job_id, sleeper = begin(deployment, gateway, "slept")
    other = deployment.add_worker()

    pause(sleeper.process.pid, deployment.folder / "data" / "holdfast.db")
    try:
        job = deployment.wait(job_id)
    finally:
        sleeper.process.send_signal(signal.SIGCONT)
    gateway.release()

    assert (job["status"], job["attemptCount"]) == ("complete", 2)
    # Until it ends it may still store its XML.
    deployment.dismiss(sleeper)
    deployment.until(lambda: has_one_xml(deployment, job_id))
    assert deployment.job(job_id) == job
    assert deployment.codes(job_id) == ["LEASE_LOST", None]
    deployment.dismiss(other)
