"""Grading without a broker: from the submission to its result, and every failure between."""

import asyncio
import contextlib
import json

import pytest
from tests.apps.grading.samples import new_submission
from tests.apps.grading.sounds import tone
from tests.apps.grading.world import ShiftedClock, grading_world
from tests.support.providers import WRONG_KEY, chatted, generated

from holdfast import CircuitState, JobFilter, JobStatus, presets
from holdfast.files import ArtifactStore
from holdfast.messaging import JobPublisher
from holdfast.testing.downstream import ScriptedDownstream, hang, reset, status
from holdfast_grading import embedded
from holdfast_grading.graders.local_speech import TranscriberBusy
from holdfast_grading.graders.tools import GradingTools
from holdfast_grading.messages import GradingRequest, Skill, SubmissionPayload, request_id_of
from holdfast_grading.recordings import keep, recording_name
from holdfast_grading.tables import Status

CRITERION = {"score": 8, "comment": "Clear."}
ANSWER = json.dumps(
    dict.fromkeys(("task", "coherence", "vocabulary", "grammar"), CRITERION)
    | {"feedback": "Vary your sentences."}
)
FAILED = JobFilter(statuses=(JobStatus.FAILED,))


@pytest.fixture
def model():
    with ScriptedDownstream() as server:
        yield server


def run(url, tmp_path, scenario, *, shifted=False, **settings):
    async def main():
        clock = ShiftedClock() if shifted else None
        async with grading_world(url, tmp_path, clock=clock, **settings) as world:
            world.clock = clock
            await scenario(world)

    asyncio.run(main())


async def submitted(world, **fields):
    submission, _ = await world.submissions.add(new_submission(**fields))
    return submission.id


async def open_circuit(engine):
    """Let eleven of twenty calls fail."""

    async def fail():
        raise ConnectionError("refused")

    async def succeed():
        return None

    await engine.calls.declare("llm", presets.GRADING.breaker)
    for number in range(20):
        with contextlib.suppress(ConnectionError):
            await engine.calls.run("llm", succeed if number < 9 else fail)
    assert await engine.downstreams.state("llm") is CircuitState.OPEN


async def dead_letters(world):
    return [(job.kind, job.error.code) for job in (await world.engine.list(FAILED)).jobs]


def test_without_keys_a_text_is_graded_offline_and_the_feedback_says_so(database_url, tmp_path):
    async def scenario(world):
        submission_id = await submitted(world)
        assert await world.relay() == 1
        assert (await world.submissions.find(submission_id)).status is Status.PROCESSING
        await world.engine.work(until_idle=True)
        await world.settle()
        found = await world.submissions.find(submission_id)
        assert (found.status, found.attempts) == (Status.COMPLETED, 1)
        (stored,) = await world.submissions.results(submission_id)
        assert stored.result["grader"] == "offline"
        assert stored.result["feedback"].startswith("Graded offline")
        assert await world.notices("ann") == [("COMPLETED", None)]

    run(database_url, tmp_path, scenario)


@pytest.mark.parametrize("name", ["essay-1", "作文-1", "trailing "])
def test_a_language_model_grades_and_is_given_a_key_however_the_owner_names_the_request(
    sqlite_url, tmp_path, model, name
):
    model.script(chatted(ANSWER))

    async def scenario(world):
        submission_id = await submitted(world, request_id=name)
        await world.settle()
        (stored,) = await world.submissions.results(submission_id)
        assert (stored.result["score"], stored.result["grader"]) == (8.0, "chatmock")
        (call,) = model.requests
        assert call.headers["idempotency-key"] == request_id_of(submission_id, name)

    run(sqlite_url, tmp_path, scenario, chatmock_base_url=f"{model.url}/v1")


def test_gemini_grades_where_only_its_key_is_set(sqlite_url, tmp_path, model):
    model.script(generated(ANSWER))

    async def scenario(world):
        submission_id = await submitted(world)
        await world.settle()
        (stored,) = await world.submissions.results(submission_id)
        assert (stored.result["score"], stored.result["grader"]) == (8.0, "gemini")
        (call,) = model.requests
        assert call.headers["idempotency-key"].startswith(f"{submission_id}.")

    run(sqlite_url, tmp_path, scenario, gemini_api_key="key", gemini_base_url=model.url)


def test_a_failing_provider_is_tried_again_with_the_same_key(sqlite_url, tmp_path, model):
    model.script(status(503), reset(), chatted(ANSWER))

    async def scenario(world):
        submission_id = await submitted(world)
        for _ in range(3):
            await world.settle()
            world.clock.advance(60)
            await world.engine.work(until_idle=True)
        await world.settle()
        found = await world.submissions.find(submission_id)
        assert (found.status, found.attempts) == (Status.COMPLETED, 3)
        assert len({call.headers["idempotency-key"] for call in model.requests}) == 1

    run(sqlite_url, tmp_path, scenario, shifted=True, chatmock_base_url=f"{model.url}/v1")


@pytest.mark.parametrize("refusal", [401, 403, 404, 405])
def test_a_model_that_is_set_up_wrongly_is_an_outage_that_the_request_outlives(
    sqlite_url, tmp_path, model, refusal
):
    model.script(status(refusal), status(refusal), chatted(ANSWER))

    async def scenario(world):
        submission_id = await submitted(world)
        for _ in range(3):
            await world.settle()
            world.clock.advance(60)
            await world.engine.work(until_idle=True)
        await world.settle()
        found = await world.submissions.find(submission_id)
        assert (found.status, found.attempts) == (Status.COMPLETED, 3)

    run(sqlite_url, tmp_path, scenario, shifted=True, chatmock_base_url=f"{model.url}/v1")


def test_a_refused_key_of_gemini_ends_a_request_only_after_its_last_attempt(
    sqlite_url, tmp_path, model
):
    model.script(*[status(400, json=WRONG_KEY)] * 4)

    async def scenario(world):
        submission_id = await submitted(world)
        await world.settle()
        for _ in range(4):
            world.clock.advance(60)
            await world.engine.work(until_idle=True)
        await world.settle()
        found = await world.submissions.find(submission_id)
        assert (found.status, found.attempts) == (Status.FAILED, 4)
        assert found.failure_reason == "PROVIDER_MISCONFIGURED"
        assert "key" in found.failure_message
        assert await dead_letters(world) == [("grading.grade", "PROVIDER_MISCONFIGURED")]

    keys = {"gemini_api_key": "key", "gemini_base_url": model.url}
    run(sqlite_url, tmp_path, scenario, shifted=True, **keys)


def test_the_breaker_counts_a_model_that_is_set_up_wrongly(sqlite_url, tmp_path, model):
    model.script(*[status(404)] * 20)

    async def scenario(world):
        for _ in range(20):
            await submitted(world)
        await world.settle()
        assert await world.engine.downstreams.state("llm") is CircuitState.OPEN

    run(sqlite_url, tmp_path, scenario, chatmock_base_url=f"{model.url}/v1")


def test_a_wait_that_the_provider_asks_for_is_respected(sqlite_url, tmp_path, model):
    model.script(status(429, retry_after=40), chatted(ANSWER))

    async def scenario(world):
        submission_id = await submitted(world)
        await world.settle()
        world.clock.advance(39)
        await world.engine.work(until_idle=True)
        assert len(model.requests) == 1
        world.clock.advance(2)
        await world.engine.work(until_idle=True)
        await world.settle()
        assert (await world.submissions.find(submission_id)).status is Status.COMPLETED

    run(sqlite_url, tmp_path, scenario, shifted=True, chatmock_base_url=f"{model.url}/v1")


def test_after_its_last_attempt_a_request_is_a_dead_letter_and_its_submission_failed(
    sqlite_url, tmp_path, model
):
    model.script(*[status(500)] * 4)

    async def scenario(world):
        submission_id = await submitted(world)
        await world.settle()
        for _ in range(4):
            world.clock.advance(60)
            await world.engine.work(until_idle=True)
        await world.settle()
        found = await world.submissions.find(submission_id)
        assert (found.status, found.attempts) == (Status.FAILED, 4)
        assert found.failure_reason == "GW_5XX"
        assert await dead_letters(world) == [("grading.grade", "GW_5XX")]
        # A person retries it, and the provider is back.
        model.script(chatted(ANSWER))
        (dead,) = (await world.engine.list(FAILED)).jobs
        await world.engine.retry(dead.id)
        await world.engine.work(until_idle=True)
        await world.settle()
        assert (await world.submissions.find(submission_id)).status is Status.COMPLETED

    run(sqlite_url, tmp_path, scenario, shifted=True, chatmock_base_url=f"{model.url}/v1")


def test_a_request_that_takes_too_long_in_every_attempt_is_called_back(
    sqlite_url, tmp_path, model, monkeypatch
):
    monkeypatch.setattr(embedded, "GRADING_SECONDS", 0.05)
    model.script(*[hang()] * 4)

    async def scenario(world):
        submission_id = await submitted(world)
        await world.settle()
        for _ in range(3):
            world.clock.advance(60)
            await world.engine.work(until_idle=True)
        await world.settle()
        found = await world.submissions.find(submission_id)
        assert (found.status, found.attempts) == (Status.FAILED, 4)
        assert found.failure_reason == "GW_TIMEOUT"

    run(sqlite_url, tmp_path, scenario, shifted=True, chatmock_base_url=f"{model.url}/v1")


def test_recordings_wait_for_the_transcriber_without_losing_attempts(
    sqlite_url, tmp_path, monkeypatch
):
    asked = []

    async def transcribe(self, recording, request_id):
        asked.append(request_id)
        if len(asked) <= 2 * presets.GRADING.max_attempts:
            raise TranscriberBusy
        return "I like trees."

    monkeypatch.setattr(GradingTools, "transcribe", transcribe)
    monkeypatch.setattr(embedded, "_BUSY_WAIT", 0.0)

    async def scenario(world):
        name = recording_name("0" * 32)
        with ArtifactStore(tmp_path / "files").draft() as draft:
            keep(draft, name, tone())
        payload = SubmissionPayload(audio_file=name)
        submission_id = await submitted(world, skill=Skill.SPEAKING, payload=payload)
        await world.settle()
        found = await world.submissions.find(submission_id)
        assert (found.status, found.attempts) == (Status.COMPLETED, 1)

    run(sqlite_url, tmp_path, scenario, speech_model=tmp_path)


def test_an_open_circuit_is_called_back_and_the_request_comes_back_after_the_cooldown(
    database_url, tmp_path, model
):
    async def scenario(world):
        engine = world.engine
        await open_circuit(engine)
        submission_id = await submitted(world)
        await world.settle()
        found = await world.submissions.find(submission_id)
        assert (found.status, found.attempts) == (Status.PROCESSING, 0)
        assert model.requests == ()
        messages = (await engine.outbox.list()).messages
        bodies = {each.message_type: json.loads(each.payload) for each in reversed(messages)}
        assert bodies["grading.callback"]["error"]["code"] == "CIRCUIT_OPEN"
        waiting = max(messages, key=lambda each: each.due_at)
        assert waiting.message_type == "grading.request"
        assert 25 < waiting.due_at - waiting.created_at < 45
        assert json.loads(waiting.payload)["attempt"] == 1

    run(database_url, tmp_path, scenario, chatmock_base_url=f"{model.url}/v1")


def test_after_the_cooldown_requests_are_graded_and_three_successes_close_the_circuit(
    sqlite_url, tmp_path, model
):
    model.script(chatted(ANSWER))

    async def scenario(world):
        await open_circuit(world.engine)
        ids = [await submitted(world) for _ in range(3)]
        await world.settle()
        assert model.requests == ()
        world.clock.advance(45)
        await world.settle()
        for submission_id in ids:
            found = await world.submissions.find(submission_id)
            assert (found.status, found.attempts) == (Status.COMPLETED, 1)
        assert await world.engine.downstreams.state("llm") is CircuitState.CLOSED

    run(sqlite_url, tmp_path, scenario, shifted=True, chatmock_base_url=f"{model.url}/v1")


def test_an_expired_request_is_not_graded(sqlite_url, tmp_path, model):
    async def scenario(world):
        submission_id = await submitted(world, seconds=10.0)
        world.clock.advance(11)
        await world.settle()
        assert model.requests == ()
        found = await world.submissions.find(submission_id)
        assert (found.status, found.attempts) == (Status.PROCESSING, 0)

    run(sqlite_url, tmp_path, scenario, shifted=True, chatmock_base_url=f"{model.url}/v1")


def test_a_request_that_comes_again_after_completion_is_not_graded_again(
    sqlite_url, tmp_path, model
):
    model.script(chatted(ANSWER))

    async def scenario(world):
        await submitted(world)
        await world.settle()
        message = (await world.engine.outbox.list()).messages[-1]
        request = GradingRequest.from_json(message.payload)
        job = await world.engine.enqueue("grading.grade", request.to_json())
        await world.engine.work(until_idle=True)
        assert await world.engine.result(job) == "graded before"
        assert len(model.requests) == 1

    run(sqlite_url, tmp_path, scenario, chatmock_base_url=f"{model.url}/v1")


@pytest.mark.parametrize(
    "kind, body, code",
    [
        ("grading.grade", {"requestId": "r"}, "INVALID_SCHEMA"),
        ("grading.receive", {"requestId": "r", "status": "completed"}, "INVALID_SCHEMA"),
        (
            "grading.receive",
            {"requestId": "r", "submissionId": "x", "status": "error", "error": {"code": "X"}},
            "UNKNOWN_SUBMISSION",
        ),
    ],
)
def test_a_message_that_cannot_be_handled_is_a_dead_letter_at_once(
    sqlite_url, tmp_path, kind, body, code
):
    async def scenario(world):
        job = await world.engine.enqueue(kind, body)
        await world.engine.work(until_idle=True)
        found = await world.engine.get(job)
        assert (found.status, found.attempt_count) == (JobStatus.FAILED, 1)
        assert found.error.code == code

    run(sqlite_url, tmp_path, scenario)


def test_a_request_for_an_unknown_submission_is_a_dead_letter(sqlite_url, tmp_path):
    async def scenario(world):
        await submitted(world)
        message = (await world.engine.outbox.list()).messages[0]
        body = json.loads(message.payload) | {"submissionId": "nothing"}
        job = await world.engine.enqueue("grading.grade", body)
        await world.engine.work(until_idle=True)
        assert (await world.engine.get(job)).error.code == "UNKNOWN_SUBMISSION"

    run(sqlite_url, tmp_path, scenario)


def test_deadlines_are_looked_for_however_much_waits_to_be_graded(sqlite_url, tmp_path):
    async def scenario(world):
        overdue = await submitted(world, seconds=10.0)
        for _ in range(20):
            await submitted(world)
        await world.relay()
        world.clock.advance(11)
        check = await world.engine.enqueue("grading.time_out")
        await world.engine.work(until_idle=True, concurrency=2)
        assert (await world.submissions.find(overdue)).failure_reason == "TIMEOUT"
        looked_at = (await world.engine.get(check)).finished_at
        graded = (await world.engine.list(JobFilter(kinds=("grading.grade",)))).jobs
        assert sum(job.finished_at < looked_at for job in graded) < 10

    run(sqlite_url, tmp_path, scenario, shifted=True)


def test_owners_take_turns_however_much_one_of_them_submits(sqlite_url, tmp_path):
    async def scenario(world):
        for _ in range(6):
            await submitted(world, owner="many")
        few = await submitted(world, owner="few")
        await world.relay()
        await world.engine.work(until_idle=True, concurrency=1)
        jobs = (await world.engine.list(JobFilter(kinds=("grading.grade",)))).jobs
        order = [job.owner for job in sorted(jobs, key=lambda job: job.finished_at)]
        assert order.index("few") < 2
        await world.settle()
        assert (await world.submissions.find(few)).status is Status.COMPLETED

    run(sqlite_url, tmp_path, scenario)


def test_each_message_has_its_job(sqlite_url, tmp_path):
    async def scenario(world):
        publisher = JobPublisher(world.engine, world.app.message_jobs)
        await publisher.open()
        assert set(world.app.message_jobs) == {"grading.request", "grading.callback"}
        await publisher.close()

    run(sqlite_url, tmp_path, scenario)
