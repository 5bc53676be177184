"""SIGKILL for the whole conversion service while PDFs are uploaded and converted.

The service is server, worker and gateway, as `holdfast serve` starts them. Every upload that was
answered 201 must end complete, with exactly one XML that contains its text; unused files must be
deleted.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx

from campaigns.plan import CampaignOutcome, Plan
from campaigns.service import SHORT_LEASES, ServiceProcess, until
from campaigns.temporary_store import temporary_store

Job = dict[str, Any]
"""A job in the JSON form of the API."""

_APP = "holdfast_conversion.app:create"
_DRAIN = 180.0
_CLEANUP = 90.0
"""Seconds until unused files must be deleted; the service looks for them once a minute."""
_LEAST = 100
"""The least number of answered uploads; more are sent after the kills if necessary."""
_THREADS = 3
_PDF = """%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>
>>endobj
4 0 obj<</Length {length}>>stream
{content}
endstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
trailer<</Root 1 0 R>>
"""


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    kills = plan.pick(40, 5)
    with (
        temporary_store(plan.store, plan.folder) as target,
        ServiceProcess(_APP, plan.folder, target.url, _settings(kills)) as service,
    ):
        return _run(plan, service, kills)


def _settings(kills: int) -> dict[str, str]:
    return {
        **SHORT_LEASES,
        "ARTIFACT_TTL_MS": "10000000",
        # A job whose worker is killed in every attempt fails when its attempts are used up.
        "RETRY_MAX_ATTEMPTS": str(max(3, kills + 1)),
        "RETRY_BASE_DELAY": "50",
        "RETRY_MAX_DELAY": "200",
    }


def _run(plan: Plan, service: ServiceProcess, kills: int) -> CampaignOutcome:
    outcome, rng = CampaignOutcome(), plan.rng()
    uploads = _Uploads(service)
    for _ in range(kills):
        with uploads.running():
            time.sleep(rng.uniform(0.0, 2.0))
            service.kill(rng)
        service.start()
    while len(uploads.answered) < _LEAST:
        with uploads.running():
            time.sleep(0.5)
    answered = uploads.answered
    with service.client(cookie=uploads.cookie) as client:
        jobs = _finished(client, answered)
        outcome.expect(jobs is not None, "not every job finished in time")
        known = jobs or _all_jobs(client)
        for job_id, text in answered.items():
            _judge(outcome, client, job_id, text, known.get(job_id))
    outcome.expect(
        until(lambda: _one_each(service, known), _CLEANUP),
        f"{len(service.files('results'))} XML files for {len(known)} jobs",
    )
    outcome.expect(service.files(".drafts") == [], "draft files remained")
    outcome.figures |= {
        "kills": kills,
        "answered": len(answered),
        "unanswered": uploads.unanswered,
        "stored_jobs": len(known),
        "run_again": sum(job["attemptCount"] > 1 for job in known.values()),
        "most_attempts": max((job["attemptCount"] for job in known.values()), default=0),
    }
    return outcome


def _judge(
    outcome: CampaignOutcome, client: httpx.Client, job_id: str, text: str, job: Job | None
) -> None:
    if job is None or job["status"] != "complete":
        ended = "missing" if job is None else f"{job['status']}, {job['error']}"
        outcome.findings.append(f"lost: {job_id}: {ended}")
        return
    answer = client.get(f"/api/jobs/{job_id}/download")
    if answer.status_code != 200 or text not in answer.text:
        outcome.findings.append(
            f"unexpected: {job_id}: download answered {answer.status_code}, or with other text"
        )


def _finished(client: httpx.Client, answered: dict[str, str]) -> dict[str, Job] | None:
    """Return all jobs once all have finished; None after a timeout."""
    found: dict[str, Job] = {}

    def all_finished() -> bool:
        found.update(_all_jobs(client))
        unfinished = {"uploaded", "queued", "processing"}
        return answered.keys() <= found.keys() and not any(
            job["status"] in unfinished for job in found.values()
        )

    return found if until(all_finished, _DRAIN) else None


def _all_jobs(client: httpx.Client) -> dict[str, Job]:
    jobs: dict[str, Job] = {}
    cursor = ""
    while True:
        page = client.get("/api/jobs", params={"limit": 200, "cursor": cursor}).json()
        jobs |= {job["id"]: job for job in page["jobs"]}
        cursor = page["nextCursor"] or ""
        if not cursor:
            return jobs


def _one_each(service: ServiceProcess, jobs: dict[str, Job]) -> bool:
    names = service.files("results")
    return sorted(name.partition(".")[0] for name in names) == sorted(jobs)


class _Uploads:
    """Uploads from several threads, and records the answers."""

    def __init__(self, service: ServiceProcess) -> None:
        self._service = service
        self._number = 0
        self._lock = threading.Lock()
        self.answered: dict[str, str] = {}
        """The text of each PDF, by the id of its job."""
        self.unanswered = 0
        with httpx.Client(base_url=service.url, trust_env=False) as client:
            answer = client.get("/api/jobs").raise_for_status()
            self.cookie = answer.headers["set-cookie"].partition(";")[0]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Upload in the background while the block runs."""
        stop = threading.Event()
        threads = [threading.Thread(target=self._send, args=(stop,)) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def _send(self, stop: threading.Event) -> None:
        with self._service.client(cookie=self.cookie) as client:
            while not stop.is_set():
                with self._lock:
                    self._number += 1
                    text = f"number{self._number}"
                try:
                    answer = client.post("/api/upload", data={"mapping": "text"}, files=_form(text))
                except httpx.HTTPError:
                    # Without an answer the job may exist or not.
                    self.unanswered += 1
                    continue
                if answer.status_code == 201:
                    self.answered[answer.json()["job"]["id"]] = text
                elif answer.status_code == 429:
                    stop.wait(0.2)


def _form(text: str) -> dict[str, tuple[str, bytes, str]]:
    content = f"BT /F 12 Tf 72 700 Td ({text}) Tj ET"
    pdf = _PDF.format(length=len(content), content=content).encode()
    return {"file": (f"{text}.pdf", pdf, "application/pdf")}
