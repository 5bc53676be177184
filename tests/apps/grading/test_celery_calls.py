"""Requests of the outbox as calls of Celery tasks."""

import json

import pytest

from holdfast.outbox import MessageClaim
from holdfast_grading.celery_calls import as_call

REQUEST = {
    "requestId": "r1", "submissionId": "s1", "skill": "writing", "payload": {"text": "Hello."},
    "deadlineAt": "2026-01-02T03:04:05Z", "attempt": 1,
}  # fmt: skip


def claim(payload, headers=None):
    text = None if headers is None else json.dumps(headers)
    return MessageClaim(1, 1, "m1", "s1", "grading.request", json.dumps(payload), 0, 0.0, text)


@pytest.mark.parametrize(
    ("skill", "task"),
    [("writing", "holdfast_grading.grade"), ("speaking", "holdfast_grading.transcribe")],
)
def test_a_request_becomes_the_keyword_arguments_of_the_task_for_its_skill(skill, task):
    request = {**REQUEST, "skill": skill}
    call = as_call(claim(request, {"traceparent": "t"}))
    args, kwargs, embedded = json.loads(call.payload)
    assert (args, kwargs, set(embedded.values())) == ([], request, {None})
    headers = json.loads(call.headers)
    assert (headers["task"], headers["id"], headers["correlation_id"]) == (task, "m1", "m1")
    assert headers["traceparent"] == "t"
    assert (call.id, call.aggregate_id, call.message_type) == ("m1", "s1", "grading.request")


def test_a_message_that_is_a_call_already_stays_as_it_is():
    retried = claim([[], REQUEST, {}], {"task": "holdfast_grading.grade", "id": "m0"})
    assert as_call(retried) is retried


@pytest.mark.parametrize("payload", [[], "text", None, 7])
def test_a_payload_that_is_no_request_is_left_to_the_worker_to_refuse(payload):
    assert json.loads(as_call(claim(payload)).payload)[1] == payload
