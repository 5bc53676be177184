"""`holdfast serve` with grading, in real processes."""

import json

import pytest
from tests.apps.conversion.service import Service
from tests.apps.grading.samples import ESSAY
from tests.support import speech
from tests.support.providers import chatted

from holdfast.testing.downstream import ScriptedDownstream, hang

APPS = ("holdfast_grading.app:create",)
CRITERION = {"score": 9, "comment": ""}
ANSWER = json.dumps(
    dict.fromkeys(("task", "coherence", "vocabulary", "grammar"), CRITERION) | {"feedback": "Good."}
)


@pytest.fixture
def model():
    with ScriptedDownstream() as server:
        yield server


def hand_in(service, **fields):
    body = {"skill": "writing", "text": ESSAY, **fields}
    return service.client.post("/api/submissions", json=body).json()["submissionId"]


def finished(service, submission_id):
    def shown():
        found = service.client.get(f"/api/submissions/{submission_id}").json()
        return found["status"] in {"COMPLETED", "FAILED"} and found

    return service.until(shown)


def test_a_submission_is_graded_by_the_service_alone_and_a_missed_deadline_is_a_live_event(
    tmp_path,
):
    settings = {"SLA_SPEAKING_MS": "1", "TIMEOUT_CHECK_INTERVAL_MS": "1000"}
    with Service(tmp_path, *APPS, STT_BASE_URL="http://127.0.0.1:1/v1", **settings) as service:
        assert finished(service, hand_in(service))["result"]["grader"] == "offline"
        with service.client.stream("GET", "/api/events") as stream:
            lines = (line for line in stream.iter_lines() if line.startswith("data: "))
            next(lines)
            address = {"skill": "speaking", "audioUrl": "https://site.example/a.wav", "text": None}
            submission_id = hand_in(service, **address)
            for line in lines:
                job = json.loads(line.removeprefix("data: ")).get("job")
                if job is not None and job.get("submissionId") == submission_id:
                    assert job["submissionStatus"] == "FAILED"
                    assert job["failureReason"] == "TIMEOUT"
                    break


def test_a_recording_is_transcribed_and_graded_by_the_service_alone(tmp_path):
    with Service(tmp_path, *APPS) as service, speech.recording().open("rb") as file:
        answer = service.client.post("/api/recordings", files={"file": ("talk.wav", file)})
        graded = finished(service, answer.json()["submissionId"])
    assert graded["status"] == "COMPLETED"
    assert speech.words(graded["result"]["transcript"]).startswith(speech.SAID)


def test_after_a_kill_the_submission_is_graded_with_the_same_key(tmp_path, model):
    model.script(hang(), chatted(ANSWER))
    settings = {"LEASE_MS": "3000", "LEASE_EXTEND_MS": "500"}
    with Service(tmp_path, *APPS, CHATMOCK_BASE_URL=f"{model.url}/v1", **settings) as service:
        submission_id = hand_in(service)
        model.wait_for_requests(1, timeout=60)
        service.kill()
        cookies = service.client.cookies
        service.start()
        service.client.cookies = cookies
        assert finished(service, submission_id)["score"] == 9.0
    keys = [request.headers["idempotency-key"] for request in model.requests]
    assert len(keys) == 2
    assert len(set(keys)) == 1
