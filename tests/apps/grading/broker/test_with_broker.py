"""Grading with RabbitMQ, Celery worker processes and PostgreSQL: each submission is graded once."""

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.apps.grading.broker.deployment import APP
from tests.apps.grading.sounds import tone
from tests.support.grading_processes import mark_of, wait_for

from holdfast.testing.downstream import hang, status


def call_of(request, task="holdfast_grading.grade", **headers):
    """Return body and headers of the Celery message for a request."""
    body = json.dumps([[], request, {}]).encode()
    named = {"lang": "py", "task": task, "id": "t1", "root_id": "t1", "parent_id": None}
    return body, {**named, "group": None, **headers}


def test_a_submission_goes_through_the_broker_and_comes_back_graded(deployment):
    mark = deployment.mark()
    found = deployment.wait(deployment.submit(mark))
    assert (found["status"], found["score"]) == ("COMPLETED", 7.0)
    assert found["result"]["grader"] == "chatmock"
    assert (deployment.model.calls[mark], deployment.model.charged[mark]) == (1, 1)


def test_speech_is_transcribed_and_then_graded_by_a_second_task(deployment):
    mark = deployment.mark()
    address = deployment.model.say(f"Spoken words, mark-{mark}.", tone())
    submission = deployment.submit_body({"skill": "speaking", "audioUrl": address})
    found = deployment.wait(submission)
    assert (found["status"], found["score"]) == ("COMPLETED", 7.0)
    assert found["result"]["transcript"] == f"Spoken words, mark-{mark}."
    assert deployment.model.charged[mark] == 1


def test_the_same_request_a_hundred_times_at_once_is_graded_once(deployment):
    mark = deployment.mark()
    deployment.model.plan(mark, hang(deployment.model.graded))
    submission = deployment.submit(mark, requestId=mark)
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: deployment.submit(mark, requestId=mark), range(100)))
    assert {each["submissionId"] for each in answers} == {submission["submissionId"]}
    body, headers = call_of(deployment.request_of(submission))
    deployment.publish("grading.request", *[body] * 100, headers=headers)
    wait_for(lambda: deployment.model.calls[mark])
    deployment.model.release()
    deployment.wait(submission, "COMPLETED")
    other = deployment.submit()
    deployment.publish("grading.request", body, headers=headers)  # after completion, too
    deployment.wait(other, "COMPLETED")
    assert (deployment.model.calls[mark], deployment.model.charged[mark]) == (1, 1)
    assert deployment.results(submission) == 1


def test_a_transient_error_is_tried_again_and_charged_once(deployment):
    mark = deployment.mark()
    deployment.model.plan(mark, status(503), status(429, retry_after=1))
    submission = deployment.submit(mark)
    assert deployment.wait(submission)["status"] == "COMPLETED"
    assert (deployment.model.calls[mark], deployment.model.charged[mark]) == (3, 1)


def test_a_wait_that_the_provider_asks_for_stays_within_the_cap(deployment):
    mark = deployment.mark()
    deployment.model.plan(mark, status(429, retry_after=3600))
    assert deployment.wait(deployment.submit(mark))["status"] == "COMPLETED"
    assert (deployment.model.calls[mark], deployment.model.charged[mark]) == (2, 1)


def test_what_fails_too_often_is_a_dead_letter_and_is_graded_once_it_is_requeued(deployment):
    mark = deployment.mark()
    deployment.model.plan(mark, *[status(500)] * 3)
    submission = deployment.submit(mark)
    found = deployment.wait(submission)
    assert (found["status"], found["failureReason"]) == ("FAILED", "GW_5XX")
    request = deployment.request_of(submission)
    letter = deployment.letter(requestId=request["requestId"])
    about = letter.headers
    assert (about["submissionId"], about["attemptsMade"]) == (submission["submissionId"], 3)
    assert (about["failureReason"], bool(about["lastError"])) == ("GW_5XX", True)
    assert about["timestamp"].startswith("20")
    assert json.loads(letter.body)[1] == request
    (listed,) = [
        each
        for each in deployment.operate("GET", "/api/dlq?limit=200").json()["messages"]
        if each["requestId"] == request["requestId"]
    ]
    assert deployment.operate("POST", f"/api/dlq/{listed['id']}/requeue").status_code == 200
    wait_for(lambda: deployment.show(submission)["status"] == "COMPLETED")
    assert deployment.letters(requestId=request["requestId"]) == []


def test_a_request_with_a_broken_schema_is_a_dead_letter_at_once(deployment):
    submission = deployment.submit()
    request = {**deployment.request_of(submission), "requestId": "odd", "skill": "juggling"}
    body, headers = call_of(request)
    deployment.publish("grading.request", body, headers=headers)
    # The callback about it is one too, since its submission has another request.
    letter = deployment.letter(requestId="odd", queue="grading.request")
    assert (letter.headers["failureReason"], letter.headers["attemptsMade"]) == (
        "INVALID_SCHEMA",
        1,
    )
    assert deployment.operate("DELETE", f"/api/dlq/{letter.message_id}").status_code == 200


def test_a_message_that_is_no_call_is_a_dead_letter_and_the_worker_goes_on(deployment):
    for body in (b"not even JSON", b'{"requestId": "r"}', b"[[], [], {}]"):
        name = deployment.publish("grading.request", body)
        letter = deployment.letter(message_id=name)
        assert (letter.body, letter.original_queue) == (body, "grading.request")
    deployment.wait(deployment.submit(), "COMPLETED")


def test_a_callback_that_is_broken_or_names_no_submission_is_a_dead_letter(deployment):
    error = {"code": "X", "message": ""}
    unknown = {"requestId": "r", "submissionId": "nobody", "status": "error", "error": error}
    for body, reason in (
        (b"{", "INVALID_SCHEMA"),
        (b'{"requestId": "r", "status": "completed"}', "INVALID_SCHEMA"),
        (json.dumps(unknown).encode(), "UNKNOWN_SUBMISSION"),
    ):
        name = deployment.publish("grading.callback", body)
        letter = deployment.letter(message_id=name)
        assert (letter.headers["failureReason"], letter.body) == (reason, body)
        assert letter.original_queue == "grading.callback"
        named = {"requestId", "submissionId", "attemptsMade", "lastError", "timestamp"}
        assert named <= set(letter.headers)
    deployment.wait(deployment.submit(), "COMPLETED")


def test_an_expired_request_is_not_graded(deployment):
    mark = deployment.mark()
    body, headers = call_of(
        {
            "requestId": mark,
            "submissionId": "s",
            "skill": "writing",
            "payload": {"text": f"mark-{mark}"},
            "deadlineAt": "2020-01-01T00:00:00Z",
            "attempt": 1,
        }
    )
    deployment.publish("grading.request", body, headers=headers)
    handled = "SELECT 1 FROM holdfast.inbox WHERE request_id = %s"
    wait_for(lambda: deployment.rows(handled, mark))
    assert deployment.model.calls[mark] == 0


@pytest.mark.parametrize("scheduler_first", [True, False])
def test_a_result_past_the_deadline_is_late_in_both_orders(deployment, scheduler_first):
    mark = deployment.mark()
    deployment.model.plan(mark, hang(deployment.model.graded))
    submission = deployment.submit(mark)
    wait_for(lambda: deployment.model.calls[mark])
    deployment.end_deadline(submission)
    if scheduler_first:
        assert deployment.expire() == 1
    deployment.model.release()
    wait_for(lambda: deployment.results(submission))
    if not scheduler_first:
        assert deployment.expire() == 0  # the callback was late by its own time
    found = deployment.show(submission)
    assert (found["status"], found["failureReason"]) == ("FAILED", "TIMEOUT")
    assert [result["result"]["score"] for result in found["lateResults"]] == [7.0]


def test_a_worker_that_is_killed_in_the_middle_leaves_one_result_and_one_charge(deployment):
    mark = deployment.mark()
    deployment.model.plan(mark, hang(deployment.model.graded))
    submission = deployment.submit(mark)
    wait_for(lambda: deployment.model.calls[mark])
    deployment.kill_workers()
    deployment.model.release()  # the provider has done its work, and nobody hears of it
    deployment.start_worker()
    assert deployment.wait(submission)["status"] == "COMPLETED"
    assert (deployment.model.calls[mark], deployment.model.charged[mark]) == (2, 1)
    assert deployment.results(submission) == 1


def test_a_request_that_kills_its_worker_each_time_is_a_dead_letter_once(deployment):
    mark = deployment.mark()
    deployment.model.plan(mark, *[deployment.kill_children] * 3)
    submission = deployment.submit(mark)
    found = deployment.wait(submission)
    assert (found["status"], found["failureReason"]) == ("FAILED", "WORKER_LOST")
    deployment.wait(deployment.submit(), "COMPLETED")
    request = deployment.request_of(submission)
    assert len(deployment.letters(requestId=request["requestId"])) == 1
    assert deployment.model.calls[mark] == 3


class Outage:
    """Lets the first calls of a model fail, but no submission's third; later ones hang.

    The first two hang as well, so that other submissions wait behind them when the outage begins.
    `release` of the model continues the calls that hang.
    """

    def __init__(self, model, calls):
        self._model = model
        self._calls = calls
        self.made = Counter()

    async def __call__(self, exchange):
        mark = mark_of(exchange.request)
        self.made[mark] += 1
        number, again = self.made.total(), self.made[mark] > 2
        if number <= 2 or number > self._calls:
            await exchange.wait_for_release()
        fails = number <= self._calls and not again
        await (status(503) if fails else self._model.graded)(exchange)


def test_an_open_circuit_is_called_back_and_leaves_the_submission_to_come_back(deployment):
    # As many calls as the breaker's window has. Of more submissions some are tried after them.
    outage = deployment.model.for_all = Outage(deployment.model, calls=20)
    submissions = [deployment.submit() for _ in range(24)]
    wait_for(lambda: outage.made.total() == 2)
    deployment.model.release()
    wait_for(lambda: (found := deployment.breaker()) and found.trips)
    held = "SELECT aggregate_id FROM holdfast.outbox WHERE payload LIKE '%%CIRCUIT_OPEN%%'"
    named = {name for (name,) in wait_for(lambda: deployment.rows(held))}
    (waiting, *_) = [each for each in submissions if each["submissionId"] in named]
    found = deployment.show(waiting)
    assert (found["status"], found["failureReason"]) == ("PROCESSING", None)
    deployment.model.for_all = None
    deployment.model.release()
    assert {deployment.wait(each)["status"] for each in submissions} == {"COMPLETED"}
    assert deployment.breaker().closed_at


def test_submissions_are_accepted_without_relay_and_broker_and_caught_up_after(deployment):
    deployment.broker.kill()
    submissions = [deployment.submit() for _ in range(3)]
    assert {deployment.show(each)["status"] for each in submissions} == {"PENDING"}
    deployment.restart_service()
    deployment.broker.start()
    assert {deployment.wait(each)["status"] for each in submissions} == {"COMPLETED"}


def test_a_broker_that_refuses_the_password_ends_the_server_with_one_line(deployment, tmp_path):
    settings = {**deployment.environment, "RABBITMQ_URL": deployment.broker.url("wrong")}
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "serve", APP],
        env={**settings, "PORT": "0", "HOLDFAST_DATA_DIR": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "refuses the user name or the password; check RABBITMQ_URL" in done.stderr
