"""The messages of grading: their JSON, and bodies that are not one."""

import json

import pytest
from tests.apps.grading.samples import ESSAY, RESULT

from holdfast import Category, Permanent, categorize
from holdfast_grading.messages import (
    GradingCallback,
    GradingRequest,
    Skill,
    SubmissionPayload,
    completed,
    failed,
    moment,
)

REQUEST = GradingRequest(
    request_id="r",
    submission_id="s",
    skill=Skill.WRITING,
    payload=SubmissionPayload(text=ESSAY),
    deadline_at=moment(1200.5),
)
BODY = {
    "requestId": "r",
    "submissionId": "s",
    "skill": "writing",
    "payload": {"text": ESSAY},
    "deadlineAt": "1970-01-01T00:20:00.500000Z",
    "attempt": 1,
}


def test_a_request_is_written_and_read_as_the_contract_says():
    assert REQUEST.to_json() == BODY
    assert GradingRequest.from_json(BODY) == REQUEST
    assert GradingRequest.from_json(json.dumps(BODY).encode()) == REQUEST


def test_a_request_is_expired_after_its_deadline_and_not_at_it():
    assert not REQUEST.is_expired(1200.5)
    assert REQUEST.is_expired(1200.500001)


def test_callbacks_are_written_and_read_as_the_contract_says():
    good = completed(REQUEST, RESULT)
    assert good.to_json()["result"]["score"] == 7.0
    assert GradingCallback.from_json(good.to_json()) == good
    bad = failed(REQUEST, "CIRCUIT_OPEN", "llm")
    assert bad.to_json()["error"] == {"code": "CIRCUIT_OPEN", "message": "llm"}
    assert GradingCallback.from_json(json.dumps(bad.to_json())) == bad


@pytest.mark.parametrize(
    "change",
    [
        {"requestId": None},
        {"requestId": ""},
        {"requestId": "x" * 201},
        {"skill": "juggling"},
        {"payload": "text"},
        {"deadlineAt": "tomorrow"},
        {"deadlineAt": "2026-01-01T00:00:00"},
        {"attempt": 0},
    ],
)
def test_a_request_that_does_not_fit_is_a_permanent_error(change):
    with pytest.raises(Permanent, match="not a GradingRequest") as refused:
        GradingRequest.from_json(BODY | change)
    assert refused.value.code == "INVALID_SCHEMA"
    assert categorize(refused.value) is Category.PERMANENT


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 5000, "null", 7, None, {}])
def test_a_body_that_is_not_a_request_is_a_permanent_error(body):
    with pytest.raises(Permanent):
        GradingRequest.from_json(body)


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "completed"},
        {"status": "error"},
        {"status": "done", "result": RESULT},
        {"status": "error", "error": {"code": "X"}, "result": RESULT},
        {"status": "completed", "result": {"score": 11}},
    ],
)
def test_a_callback_whose_parts_do_not_fit_is_a_permanent_error(fields):
    with pytest.raises(Permanent):
        GradingCallback.from_json({"requestId": "r", "submissionId": "s", **fields})
