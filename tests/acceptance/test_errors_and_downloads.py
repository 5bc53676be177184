"""Refusals, failures and downloads, with server, worker and gateway in real processes.

docs/explanation/proof.md lists which requirement is tested by which test.
"""

import pytest
from tests.acceptance.deployment import GOOD, NO_BREAKER
from tests.apps.conversion.service import pdf

from holdfast.testing.downstream import hang, status

LIMIT = 50 * 1024 * 1024
QUICK = {
    "RETRY_BASE_DELAY": "60",
    "RETRY_MULTIPLIER": "3",
    "RETRY_MAX_DELAY": "5000",
    **NO_BREAKER,
}


@pytest.fixture(scope="module")
def deployment(build_deployment, gateway):
    with build_deployment(GATEWAY_URL=gateway.url, **QUICK) as deployment:
        yield deployment


def refusal(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_a_bad_type_is_refused_and_its_job_failed(deployment):
    answer = deployment.upload(b"PK\x03\x04 a ZIP by another name", filename="report.pdf")

    assert refusal(answer) == (400, "NOT_PDF")
    job = deployment.job(answer.json()["job"]["id"])
    assert (job["status"], job["error"]["code"]) == ("failed", "NOT_PDF")
    assert job["attemptCount"] == 0


def test_more_than_50_mb_is_too_large(deployment):
    answer = deployment.upload(b"%PDF-1.4\n" + bytes(LIMIT))

    assert refusal(answer) == (413, "TOO_LARGE")
    job = deployment.job(answer.json()["job"]["id"])
    assert (job["status"], job["error"]["code"]) == ("failed", "TOO_LARGE")
    assert (deployment.files("uploads"), deployment.files(".drafts")) == ([], [])


@pytest.mark.parametrize("refused", [400, 406, 413, 415])
def test_a_job_that_the_gateway_refuses_fails_without_a_retry(deployment, gateway, refused):
    error = {"error": {"code": "X", "message": "Unsupported mapping."}}
    gateway.script(status(refused, json=error), path="/convert")
    before = len(gateway.requests)

    job = deployment.wait(deployment.convert(pdf(f"refused with {refused}")))

    assert (job["status"], job["error"]["code"]) == ("failed", "GW_4XX")
    assert "Unsupported mapping." in job["error"]["message"]
    assert (job["attemptCount"], len(gateway.requests) - before) == (1, 1)


def block(deployment):
    """Replace the results folder by a broken link, so that even root cannot write there."""
    folder = deployment.folder / "data" / "files" / "results"
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name("results.aside")
    if folder.is_dir():
        folder.rename(aside)
    folder.symlink_to("nowhere/at/all")

    def mend():
        folder.unlink()
        if aside.is_dir():
            aside.rename(folder)

    return mend


def test_a_result_that_cannot_be_written_is_retried_once(deployment, gateway):
    gateway.script(GOOD, hang(GOOD), path="/convert")
    mend = block(deployment)
    try:
        before = len(gateway.requests)
        job_id = deployment.convert(pdf("the disk comes back"))
        gateway.wait_for_requests(before + 2, 20)
    finally:
        mend()
    gateway.release()

    job = deployment.wait(job_id)
    assert (job["status"], job["attemptCount"]) == ("complete", 2)
    assert deployment.codes(job_id) == ["IO_ERROR", None]
    assert len(deployment.results_of(job_id)) == 1


def test_a_result_that_still_cannot_be_written_is_an_io_error(deployment, gateway):
    gateway.script(GOOD, path="/convert")
    mend = block(deployment)
    try:
        job = deployment.wait(deployment.convert(pdf("the disk stays broken")))
    finally:
        mend()

    assert (job["status"], job["error"]["code"]) == ("failed", "IO_ERROR")
    assert deployment.codes(job["id"]) == ["IO_ERROR", "IO_ERROR"]
    assert "results" not in job["error"]["message"]
    assert deployment.files(".drafts") == []


def test_a_download_before_the_end_is_not_ready(deployment, gateway):
    gateway.script(hang(GOOD), path="/convert")
    before = len(gateway.requests)
    job_id = deployment.convert(pdf("not yet"))
    gateway.wait_for_requests(before + 1, 20)

    assert refusal(deployment.client.get(f"/api/jobs/{job_id}/download")) == (409, "NOT_READY")
    gateway.script(GOOD, path="/convert")
    gateway.release()
    deployment.wait(job_id, "complete")
    assert deployment.client.get(f"/api/jobs/{job_id}/download").status_code == 200


def test_a_manual_retry_of_a_failed_job_completes(deployment, gateway):
    gateway.script(status(500), path="/convert")
    job_id = deployment.convert(pdf("failed at first"))
    assert deployment.wait(job_id)["status"] == "failed"
    gateway.script(hang(GOOD), path="/convert")
    before = len(gateway.requests)

    answer = deployment.client.post(f"/api/jobs/{job_id}/retry")

    assert answer.status_code == 200
    retried = answer.json()["job"]
    assert (retried["error"], retried["failedAt"], retried["isDeadLetter"]) == (None, None, False)
    assert retried["manualRetryCount"] == 1
    assert refusal(deployment.client.post(f"/api/jobs/{job_id}/retry")) == (409, "INVALID_STATE")
    gateway.wait_for_requests(before + 1, 20)
    running = deployment.job(job_id)
    assert (running["status"], running["attemptCount"]) == ("processing", 1)
    gateway.script(GOOD, path="/convert")
    gateway.release()
    assert deployment.wait(job_id)["status"] == "complete"
    assert deployment.codes(job_id) == ["GW_5XX", "GW_5XX", "GW_5XX", None]


def test_every_transition_of_a_job_is_an_event_with_its_facts(deployment, gateway):
    gateway.script(status(502), GOOD, path="/convert")
    job_id = deployment.convert(pdf("told"))
    deployment.wait(job_id, "complete")

    answer = deployment.client.get(f"/api/jobs/{job_id}/events").json()["events"]

    assert [each["name"] for each in answer] == [
        "queued", "processing", "retry", "processing", "complete",
    ]  # fmt: skip
    retry = answer[2]
    assert (retry["attempt"], retry["errorCode"]) == (1, "GW_5XX")
    assert retry["meta"]["gateway_http_status"] == 502
    assert retry["durationMs"] > 0
