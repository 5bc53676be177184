"""The owner's jobs over HTTP."""

import io
import json

import pytest
from tests.http.live_server import Order, demo_app

from holdfast import App, RetryLater
from holdfast.http import Download, JobFacts, ServedApp
from holdfast.http.api.jobs import attachment


def error_of(answer):
    body = answer.json()
    assert set(body) == {"error"}, body
    assert set(body["error"]) == {"code", "message"}
    return answer.status_code, body["error"]["code"]


JOB_KEYS = {
    "id",
    "kind",
    "status",
    "attemptCount",
    "maxAttempts",
    "retryAfter",
    "lastAttemptAt",
    "isDeadLetter",
    "error",
    "lastError",
    "canDownload",
    "canRetry",
    "createdAt",
    "queuedAt",
    "startedAt",
    "completedAt",
    "failedAt",
    "deadlineAt",
    "progress",
    "manualRetryCount",
    "held",
}


def test_a_job_has_the_fields_of_the_contract(serving):
    job_id = serving.enqueue(deadline=3600)

    job = serving.client.get(f"/api/jobs/{job_id}").json()["job"]

    assert set(job) >= JOB_KEYS
    assert (job["id"], job["kind"], job["status"]) == (job_id, "demo.grind", "queued")
    assert job["createdAt"].endswith("Z")
    assert job["deadlineAt"] > job["createdAt"]


def test_a_job_that_waits_for_its_retry_has_its_last_error(serve):
    app = App("demo")

    @app.job()
    async def grind(ctx, args: Order) -> int:
        raise RetryLater(3600, "The mill is being oiled.")

    serving = serve(served=app)
    job_id = serving.enqueue()
    fresh = serving.client.get(f"/api/jobs/{job_id}").json()["job"]
    assert fresh["lastError"] is None
    serving.work()

    one = serving.client.get(f"/api/jobs/{job_id}").json()["job"]
    (listed,) = serving.client.get("/api/jobs").json()["jobs"]
    message = {"code": "GW_UNAVAILABLE", "message": "The mill is being oiled.", "attempt": 1}
    assert (one["status"], one["error"], one["lastError"]) == ("queued", None, message)
    assert listed["lastError"] == message


def test_jobs_are_listed_newest_first_and_in_pages(serving):
    ids = [serving.enqueue() for _ in range(5)]
    seen, cursor = [], None
    for _ in range(3):
        page = serving.client.get(
            "/api/jobs", params={"limit": 2, **({"cursor": cursor} if cursor else {})}
        ).json()
        seen += [job["id"] for job in page["jobs"]]
        cursor = page["nextCursor"]

    assert seen == ids[::-1]
    assert cursor is None


def test_the_list_is_narrowed_by_status_and_kind(serving):
    failed = serving.enqueue(Order(fails="GW_4XX"))
    serving.work()
    queued = serving.enqueue()

    def ids(**params):
        return [job["id"] for job in serving.client.get("/api/jobs", params=params).json()["jobs"]]

    assert ids(status="failed") == [failed]
    assert ids(status=["failed", "queued"]) == [queued, failed]
    assert ids(kind="demo.grind", status="queued") == [queued]
    assert ids(kind="demo.other") == []


@pytest.mark.parametrize("params", [{"status": "lost"}, {"limit": 0}])
def test_a_parameter_with_a_wrong_value_is_named(serving, params):
    (name,) = params
    message = serving.client.get("/api/jobs", params=params).json()["error"]["message"]
    assert message == f"The request cannot be understood: {name}."


@pytest.mark.parametrize(
    "params",
    [{"status": "lost"}, {"limit": 0}, {"limit": 1000}, {"cursor": "nonsense"}, {"kind": ""}],
)
def test_a_question_that_makes_no_sense_is_refused(serving, params):
    answer = serving.client.get("/api/jobs", params=params)
    assert error_of(answer) == (422, "VALIDATION_ERROR")


@pytest.mark.parametrize("job_id", ["nothing", "x" * 300, "%00", "%F0%9F%98%80"])
def test_a_job_of_another_owner_and_an_unknown_job_get_the_same_answer(serving, job_id):
    other = serving.browser()
    theirs = serving.enqueue(client=other)
    nobodys = serving.run(serving.engine.enqueue("demo.grind", Order())).id

    for path in ("", "/events", "/download"):
        answers = [
            serving.client.get(f"/api/jobs/{each}{path}") for each in (theirs, nobodys, job_id)
        ]
        assert {error_of(answer) for answer in answers} <= {(403, "FORBIDDEN")}
        assert len({answer.text for answer in answers}) == 1
    for path in ("retry", "cancel"):
        for each in (theirs, job_id):
            answer = serving.client.post(f"/api/jobs/{each}/{path}")
            assert error_of(answer) == (403, "FORBIDDEN")
    assert other.get(f"/api/jobs/{theirs}").status_code == 200


def test_a_retried_job_counts_its_attempts_from_one(serving):
    job_id = serving.enqueue(Order(fails="GW_4XX"))
    serving.work()
    job = serving.client.get(f"/api/jobs/{job_id}").json()["job"]
    assert (job["status"], job["canRetry"], job["isDeadLetter"]) == ("failed", True, True)
    assert job["error"] == {"code": "GW_4XX", "message": "ground to a halt"}

    answer = serving.client.post(f"/api/jobs/{job_id}/retry")

    assert answer.status_code == 200
    assert answer.json()["message"] == "Job queued for retry."
    job = answer.json()["job"]
    assert (job["status"], job["attemptCount"], job["manualRetryCount"]) == ("queued", 0, 1)
    assert job["error"] is None
    assert error_of(serving.client.post(f"/api/jobs/{job_id}/retry")) == (409, "INVALID_STATE")


def test_a_retry_without_its_file_is_refused(serving):
    job_id = serving.enqueue(Order(fails="GW_4XX"), meta={"file": "gone"})
    serving.work()

    answer = serving.client.post(f"/api/jobs/{job_id}/retry")

    assert error_of(answer) == (404, "SOURCE_GONE")


def test_a_job_is_cancelled_and_cancelling_it_again_changes_nothing(serving):
    job_id = serving.enqueue()

    answer = serving.client.post(f"/api/jobs/{job_id}/cancel")

    assert answer.status_code == 200
    assert answer.json()["job"]["status"] == "cancelled"
    assert serving.client.post(f"/api/jobs/{job_id}/cancel").status_code == 200
    assert error_of(serving.client.get(f"/api/jobs/{job_id}/download")) == (409, "NOT_READY")


def test_a_finished_job_cannot_be_cancelled(serving):
    job_id = serving.enqueue()
    serving.work()

    assert error_of(serving.client.post(f"/api/jobs/{job_id}/cancel")) == (409, "INVALID_STATE")


def test_a_job_that_completes_before_it_can_stop_is_not_called_cancelled(serving, monkeypatch):
    job_id = serving.enqueue()

    async def ask_too_late(job):
        await serving.engine.work(until_idle=True)
        return await serving.engine.get(job)

    monkeypatch.setattr(serving.engine, "cancel", ask_too_late)
    answer = serving.client.post(f"/api/jobs/{job_id}/cancel")
    page = serving.client.post(f"/jobs/{job_id}/cancel")

    assert answer.json()["job"]["status"] == "complete"
    assert answer.json()["message"] == "The job was asked to stop."
    assert "note=stopping" in page.headers["location"]


def test_the_history_holds_events_and_attempts(serving):
    job_id = serving.enqueue(Order(fails="GW_4XX"))
    serving.work()

    history = serving.client.get(f"/api/jobs/{job_id}/events").json()

    assert [event["name"] for event in history["events"]] == ["queued", "processing", "failed"]
    assert history["events"][-1]["errorCode"] == "GW_4XX"
    (attempt,) = history["attempts"]
    assert attempt["error"]["code"] == "GW_4XX"
    assert attempt["durationMs"] >= 0


class Files(ServedApp):
    """An app with a file to download for each job."""

    content = b"<x/>"

    def facts(self, job, now):
        return JobFacts(title="a.pdf", can_download=True)

    def download(self, job):
        if self.content is None:
            return None
        return Download(io.BytesIO(self.content), len(self.content), 'a "ü".xml', "application/xml")


def test_a_result_is_downloaded_as_a_file_that_no_browser_opens(serve):
    served = Files(demo_app())
    serving = serve(served=served)
    job_id = serving.enqueue()
    assert error_of(serving.client.get(f"/api/jobs/{job_id}/download")) == (409, "NOT_READY")
    serving.work()

    answer = serving.client.get(f"/api/jobs/{job_id}/download")

    assert (answer.status_code, answer.content) == (200, b"<x/>")
    assert answer.headers["content-type"] == "application/xml"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["content-disposition"] == attachment('a "ü".xml')
    head = serving.client.head(f"/api/jobs/{job_id}/download")
    assert (head.status_code, head.content) == (200, b"")
    assert {**head.headers, "date": ""} == {**answer.headers, "date": ""}
    Files.content = None
    try:
        assert error_of(serving.client.get(f"/api/jobs/{job_id}/download")) == (404, "EXPIRED")
    finally:
        Files.content = b"<x/>"


def test_an_app_without_files_has_none_to_download(serving):
    job_id = serving.enqueue()
    serving.work()

    assert error_of(serving.client.get(f"/api/jobs/{job_id}/download")) == (404, "EXPIRED")


@pytest.mark.parametrize(
    "name", ['a"b.xml', "a\r\nset-cookie: x", "ünï€😀.xml", "a;b\\c%41.xml", "\udc80.xml"]
)
def test_a_file_name_cannot_break_out_of_its_header(name):
    header = attachment(name)

    assert header.isascii()
    assert header.isprintable()
    assert header.count('"') == 2
    header.encode("latin-1")


def test_the_api_describes_itself(serving):
    document = serving.client.get("/api/openapi.json").json()

    assert set(document["paths"]) >= {
        "/api/jobs", "/api/jobs/{job_id}", "/api/jobs/{job_id}/events", "/api/events",
        "/api/jobs/{job_id}/download", "/api/jobs/{job_id}/retry", "/api/jobs/{job_id}/cancel",
        "/api/downstreams", "/api/dead-letters", "/api/stats", "/healthz", "/readyz",
    }  # fmt: skip
    assert json.dumps(document).count("ErrorOut") > 10


def test_an_error_may_bring_the_record_of_a_refused_upload(serving):
    schemas = serving.client.get("/api/openapi.json").json()["components"]["schemas"]

    assert "JobOut" in json.dumps(schemas["ErrorOut"]["properties"]["job"])
    assert schemas["ErrorOut"]["required"] == ["error"]
