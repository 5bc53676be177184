"""The Celery tasks in this process, delivered as a worker delivers them."""

import json
from contextlib import contextmanager

import pytest
from celery.exceptions import Ignore, Retry
from tests.apps.grading.sounds import tone
from tests.support.grading_processes import ScriptedModel

from holdfast import BreakerPolicy, CircuitState, Permanent, SystemClock
from holdfast.testing.downstream import ScriptedDownstream, ok, status
from holdfast_grading.celery_calls import GRADE, TRANSCRIBE
from holdfast_grading.graders.tools import ProviderMisconfigured
from holdfast_grading.worker_app import create_worker_app
from holdfast_grading.worker_settings import WorkerSettings

REQUEST = {
    "requestId": "r1", "submissionId": "s1", "skill": "writing",
    "payload": {"text": "Some words, mark-a."}, "deadlineAt": "2100-01-01T00:00:00Z", "attempt": 1,
}  # fmt: skip


class Worker:
    """A worker's Celery app, whose deliveries a test makes itself."""

    def __init__(self, folder, settings):
        loaded = WorkerSettings.load(
            {
                "RABBITMQ_URL": "memory://",
                "HOLDFAST_DATABASE_URL": f"sqlite:///{folder}/work.db",
                "HOLDFAST_DATA_DIR": str(folder / "data"),
                "FETCH_ALLOW_PRIVATE": "1",
                "RETRY_MAX_ATTEMPTS": "2",
                **settings,
            }
        )
        made = create_worker_app(loaded)
        self.app, self.engine, self.providers = made.celery, made.engine, made.providers

    def deliver(self, request, task=GRADE, round_=0):
        """Deliver a message as a worker does."""
        found = self.app.tasks[task]
        found.push_request(
            id="t1", args=[], kwargs=request, called_directly=False, is_eager=False, retries=0,
            headers={"holdfast_round": round_},
            delivery_info={"exchange": "", "routing_key": "grading.request"},
        )  # fmt: skip
        try:
            return found(**request)
        finally:
            found.pop_request()

    def messages(self):
        """The messages of the outbox by the last word of their type: (payload, headers) each."""
        found = {"request": [], "callback": [], "dlq": []}
        for each in self.engine().outbox.list().messages:
            read = (json.loads(each.payload), json.loads(each.headers or "{}"))
            found[each.message_type.removeprefix("grading.")].append(read)
        return found


@pytest.fixture
def model():
    with ScriptedModel() as model:
        yield model


@pytest.fixture
def started(tmp_path):
    """A function that makes workers, which are closed at the end."""
    workers = []

    def start(**settings):
        workers.append(Worker(tmp_path, settings))
        return workers[-1]

    yield start
    for worker in workers:
        worker.providers.close()
        worker.engine().close()
        worker.app.close()


@pytest.fixture
def worker(started, model):
    return started(CHATMOCK_BASE_URL=model.url)


@contextmanager
def speech(audio=None):
    """A server with a recording, and with a speech-to-text endpoint below `/v1`."""
    with ScriptedDownstream() as server:
        sent = tone() if audio is None else audio
        server.script(ok(sent, headers={"Content-Type": "audio/wav"}), path="/a.wav")
        server.script(ok(json={"text": "Hello, mark-b."}), path="/v1/audio/transcriptions")
        yield server


def spoken(server):
    payload = {"audioUrl": f"{server.url}/a.wav"}
    return {**REQUEST, "skill": "speaking", "payload": payload}


def test_a_graded_text_leaves_a_callback_and_is_never_graded_again(worker, model):
    worker.deliver(REQUEST)
    ((callback, _),) = worker.messages()["callback"]
    assert (callback["status"], callback["error"]) == ("completed", None)
    assert (callback["requestId"], callback["submissionId"]) == ("r1", "s1")
    assert (callback["result"]["score"], callback["result"]["transcript"]) == (7.0, None)
    assert callback["attempts"] == 1
    with pytest.raises(Ignore, match="r1 is handled"):
        worker.deliver(REQUEST)
    assert (model.calls["a"], len(worker.messages()["callback"])) == (1, 1)


def test_without_a_language_model_a_text_is_graded_offline(started):
    worker = started()
    worker.deliver(REQUEST)
    ((callback, _),) = worker.messages()["callback"]
    assert callback["result"]["grader"] == "offline"


def test_a_failure_is_retried_without_a_callback_and_then_called_back_as_an_error(worker, model):
    model.plan("a", status(503), status(503))
    with pytest.raises(Retry):
        worker.deliver(REQUEST)
    found = worker.messages()
    (((_, request, _), headers),) = found["request"]
    assert (request, headers["task"], found["callback"]) == (REQUEST, GRADE, [])
    with pytest.raises(Exception, match="503"):
        worker.deliver(REQUEST, round_=1)
    found = worker.messages()
    ((_, about),), ((callback, _),) = found["dlq"], found["callback"]
    assert (about["requestId"], about["submissionId"], about["attemptsMade"]) == ("r1", "s1", 2)
    assert callback["error"]["code"] == about["failureReason"] == "GW_5XX"
    assert callback["attempts"] == 2
    assert "503" not in callback["error"]["message"]  # a line for people


def test_a_model_that_is_set_up_wrongly_is_tried_again_and_then_called_back(worker, model):
    model.plan("a", status(404), status(401))
    with pytest.raises(Retry):
        worker.deliver(REQUEST)
    assert worker.messages()["callback"] == []
    with pytest.raises(ProviderMisconfigured):
        worker.deliver(REQUEST, round_=1)
    found = worker.messages()
    ((_, about),), ((callback, _),) = found["dlq"], found["callback"]
    assert callback["error"]["code"] == about["failureReason"] == "PROVIDER_MISCONFIGURED"
    assert "key" in callback["error"]["message"]
    assert callback["attempts"] == 2


def test_an_open_breaker_is_called_back_and_costs_no_attempt(worker, model):
    calls = worker.engine().calls
    worker.deliver(REQUEST)  # declares the downstream
    model.for_all = status(503)
    for number in range(40):
        if calls.admit("llm").permit is None:
            break
        with pytest.raises(Retry):
            worker.deliver({**REQUEST, "requestId": f"fails-{number}"})
    with pytest.raises(Retry):
        worker.deliver({**REQUEST, "requestId": "held"})
    found = worker.messages()
    (error,) = [each["error"] for each, _ in found["callback"] if each["requestId"] == "held"]
    assert error["code"] == "CIRCUIT_OPEN"
    assert all(each["attempts"] is None for each, _ in found["callback"] if each["error"])
    (again,) = [about for body, about in found["request"] if body[1]["requestId"] == "held"]
    assert (again["retries"], again["holdfast_round"]) == (0, 1)


def test_a_request_with_a_broken_schema_is_called_back_if_it_names_its_submission(worker, model):
    with pytest.raises(Permanent):
        worker.deliver({**REQUEST, "skill": "juggling"})
    with pytest.raises(Permanent):
        worker.deliver({"requestId": "r2"})
    found = worker.messages()
    reasons = {about["failureReason"] for _, about in found["dlq"]}
    assert (len(found["dlq"]), reasons) == (2, {"INVALID_SCHEMA", "VALIDATION_ERROR"})
    ((callback, _),) = found["callback"]
    assert (callback["requestId"], callback["error"]["code"]) == ("r1", "INVALID_SCHEMA")
    assert model.calls.total() == 0


def test_a_request_without_a_text_is_a_dead_letter(worker):
    with pytest.raises(Permanent, match="no text"):
        worker.deliver({**REQUEST, "payload": {}})


def test_an_expired_request_is_handled_without_being_graded(worker, model):
    worker.deliver({**REQUEST, "deadlineAt": "2020-01-01T00:00:00Z"})
    worker.deliver({**REQUEST, "deadlineAt": "2020-01-01T00:00:00Z"}, task=TRANSCRIBE)
    assert worker.messages() == {"request": [], "callback": [], "dlq": []}
    assert model.calls.total() == 0


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_the_time_of_the_database_server_decides_whether_a_request_has_expired(
    started, database_url, monkeypatch
):
    worker = started(HOLDFAST_DATABASE_URL=database_url)
    monkeypatch.setattr(SystemClock, "wall", lambda _: 5e9)  # in the year 2128
    worker.deliver(REQUEST)
    assert len(worker.messages()["callback"]) == 1


def test_speech_is_transcribed_and_its_transcript_is_graded_by_another_task(started, model):
    with speech() as server:
        worker = started(CHATMOCK_BASE_URL=model.url, STT_BASE_URL=f"{server.url}/v1")
        worker.deliver({**spoken(server), "attempt": 2}, task=TRANSCRIBE)
        (((_, request, _), headers),) = worker.messages()["request"]
        assert request["attempt"] == 2
        assert (headers["task"], request["payload"]) == (GRADE, {"text": "Hello, mark-b."})
        assert server.requests[-1].headers["idempotency-key"] == "r1.stt"
        worker.deliver(request)
    ((callback, _),) = worker.messages()["callback"]
    assert callback["result"]["transcript"] == "Hello, mark-b."
    assert callback["attempts"] == 2
    assert model.charged["b"] == 1


def test_audio_that_does_not_decode_is_a_dead_letter_at_once(started, model):
    with speech(b"no audio") as server:
        worker = started(CHATMOCK_BASE_URL=model.url, STT_BASE_URL=f"{server.url}/v1")
        with pytest.raises(Permanent):
            worker.deliver(spoken(server), task=TRANSCRIBE)
        found = worker.messages()
        ((_, about),), ((callback, _),) = found["dlq"], found["callback"]
        assert (about["failureReason"], about["attemptsMade"]) == ("AUDIO_UNREADABLE", 1)
        assert callback["error"]["code"] == "AUDIO_UNREADABLE"
        assert [each.path for each in server.requests] == ["/a.wav"]


def test_recordings_that_cannot_be_fetched_are_no_failures_of_the_transcription(started, model):
    with speech() as server:
        server.script(status(503), path="/dead.wav")
        worker = started(CHATMOCK_BASE_URL=model.url, STT_BASE_URL=f"{server.url}/v1")
        worker.deliver(spoken(server), task=TRANSCRIBE)  # declares the downstream
        dead = {**REQUEST, "skill": "speaking", "payload": {"audioUrl": f"{server.url}/dead.wav"}}
        for number in range(25):
            with pytest.raises(Retry):
                worker.deliver({**dead, "requestId": f"dead-{number}"}, task=TRANSCRIBE)
        assert worker.engine().downstreams.state("stt") is CircuitState.CLOSED
        worker.deliver({**spoken(server), "requestId": "r2"}, task=TRANSCRIBE)


def test_expired_requests_do_not_close_a_breaker(worker):
    calls = worker.engine().calls
    rule = BreakerPolicy(consecutive_failures=1, open_for=0.001, trial_calls=1)
    calls.declare("llm", rule)
    calls.count("llm", rule, "GW_5XX")
    for number in range(4):
        expired = {"requestId": f"r{number}", "deadlineAt": "2020-01-01T00:00:00Z"}
        worker.deliver({**REQUEST, **expired})
    assert worker.engine().downstreams.state("llm") is not CircuitState.CLOSED


def test_speech_is_refused_where_nothing_transcribes_it(worker):
    request = {**REQUEST, "skill": "speaking", "payload": {"audioUrl": "http://127.0.0.1:1/a"}}
    with pytest.raises(Permanent, match="STT_BASE_URL"):
        worker.deliver(request, task=TRANSCRIBE)
