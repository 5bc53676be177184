"""Speech from its address or file to its grade, and what ends it for good."""

import asyncio
import json

import pytest
from tests.apps.grading.sounds import tone
from tests.apps.grading.world import grading, loopback_fetcher
from tests.support import speech
from tests.support.providers import chatted

from holdfast import Category, CircuitOpenError, Engine, Permanent, SystemClock, diagnose
from holdfast.fetch import PermanentFetchError
from holdfast.files import ArtifactStore
from holdfast.testing.downstream import ScriptedDownstream, ok, status
from holdfast_grading.graders.grading import grade
from holdfast_grading.graders.local_speech import NOTE
from holdfast_grading.graders.tools import GradingTools, ProviderMisconfigured
from holdfast_grading.messages import GradingRequest, Skill, SubmissionPayload, moment
from holdfast_grading.recordings import keep, recording_name

CRITERION = {"score": 6, "comment": "Fine."}
ANSWER = json.dumps(
    dict.fromkeys(("fluency", "coherence", "vocabulary", "grammar"), CRITERION)
    | {"feedback": "Speak up."}
)
SPOKEN = {"json": {"text": " I like trees. "}}


def request(skill=Skill.SPEAKING, **payload):
    return GradingRequest(
        request_id="r-1",
        submission_id="s-1",
        skill=skill,
        payload=SubmissionPayload(**payload),
        deadline_at=moment(1e10),
    )


class Open:
    """Breakers that let every call through."""

    async def run(self, name, operation):
        return await operation()


class Refusing:
    """Breakers that are open."""

    async def run(self, name, operation):
        raise CircuitOpenError(name)


def stored(files, data):
    """Store a recording; return the name of its file."""
    name = recording_name("0" * 32)
    with files.draft() as draft:
        keep(draft, name, data)
    return name


@pytest.fixture
def server():
    with ScriptedDownstream() as started:
        yield started


@pytest.fixture
def run(tmp_path):
    """Grade a request."""

    def run(asked, calls=None, **settings):
        async def main():
            chosen = grading(tmp_path, **settings).settings
            async with GradingTools(
                chosen, calls or Open(), None, loopback_fetcher(), SystemClock()
            ) as tools:
                return await grade(asked, tools)

        return asyncio.run(main())

    return run


def test_speech_is_fetched_transcribed_and_graded_each_with_a_key_of_the_request(server, run):
    server.script(ok(tone(), headers={"Content-Type": "audio/wav"}), path="/talk.wav")
    server.script(ok(**SPOKEN), path="/v1/audio/transcriptions")
    server.script(chatted(ANSWER), path="/v1/chat/completions")
    url = f"{server.url}/v1"
    result = run(
        request(audio_url=f"{server.url}/talk.wav"), stt_base_url=url, chatmock_base_url=url
    )
    assert (result.score, result.transcript, result.grader) == (6.0, "I like trees.", "chatmock")
    fetched, transcribed, graded = server.requests
    assert "idempotency-key" not in fetched.headers
    keys = [each.headers["idempotency-key"] for each in (transcribed, graded)]
    assert keys == ["r-1.stt", "r-1"]
    assert b'filename="recording.wav"' in transcribed.body
    assert "I like trees." in graded.json()["messages"][1]["content"]


def test_an_uploaded_recording_is_graded_offline_where_no_model_is_set(server, run, tmp_path):
    server.script(ok(**SPOKEN))
    files = ArtifactStore(tmp_path / "files")
    files.prepare()
    name = stored(files, tone())
    result = run(request(audio_file=name), stt_base_url=f"{server.url}/v1")
    assert (result.transcript, result.grader) == ("I like trees.", "offline")


def test_an_upload_that_is_gone_is_unreadable(run):
    with pytest.raises(Permanent, match="is gone"):
        run(request(audio_file="audio/none"), stt_base_url="http://127.0.0.1:1")


def test_an_address_that_is_not_audio_is_refused_before_any_transcription(server, run):
    server.script(ok(b"<html><p>no", headers={"Content-Type": "text/html"}))
    with pytest.raises(Permanent, match="leads to text/html"):
        run(request(audio_url=f"{server.url}/"), stt_base_url=f"{server.url}/v1")
    assert len(server.requests) == 1


def test_a_name_that_leads_into_the_private_network_is_refused(run):
    with pytest.raises(PermanentFetchError):
        run(request(audio_url="http://10.0.0.1/a.wav"), stt_base_url="http://127.0.0.1:1")


def test_silence_is_refused_for_good(server, run, tmp_path):
    server.script(ok(json={"text": " "}))
    files = ArtifactStore(tmp_path / "files")
    files.prepare()
    with pytest.raises(Permanent, match="no speech"):
        run(request(audio_file=stored(files, tone())), stt_base_url=f"{server.url}/v1")


def test_an_error_of_the_transcriber_is_passed_on_after_one_request(server, run, tmp_path):
    server.script(status(503))
    files = ArtifactStore(tmp_path / "files")
    files.prepare()
    with pytest.raises(Exception, match="503"):
        run(request(audio_file=stored(files, tone())), stt_base_url=f"{server.url}/v1")
    assert len(server.requests) == 1


def test_a_transcriber_that_is_set_up_wrongly_is_no_fault_of_the_recording(server, run, tmp_path):
    server.script(status(404))
    files = ArtifactStore(tmp_path / "files")
    files.prepare()
    with pytest.raises(ProviderMisconfigured, match="speech-to-text") as raised:
        run(request(audio_file=stored(files, tone())), stt_base_url=f"{server.url}/v1")
    judged = diagnose(raised.value, wall_now=0.0)
    assert (judged.category, judged.counts) == (Category.TRANSIENT, True)


def test_speech_is_transcribed_and_graded_without_any_service(run, tmp_path):
    name = stored(ArtifactStore(tmp_path / "files"), speech.recording().read_bytes())
    result = run(request(audio_file=name), Refusing(), speech_model=speech.speech_model())
    assert speech.words(result.transcript).startswith(speech.SAID)
    assert result.grader == "offline"
    assert result.feedback.endswith(NOTE)


def test_an_open_breaker_refuses_the_call(server, run):
    with pytest.raises(CircuitOpenError, match="llm"):
        run(request(Skill.WRITING, text="x"), Refusing(), chatmock_base_url=server.url)
    assert server.requests == ()


def test_speech_without_an_endpoint_and_writing_without_a_text_are_permanent_errors(run):
    with pytest.raises(Permanent, match="STT_BASE_URL"):
        run(request(audio_url="http://127.0.0.1/a.wav"))
    with pytest.raises(Permanent, match="has no text"):
        run(request(Skill.WRITING))


def test_both_downstreams_have_the_breaker_of_the_preset(tmp_path, sqlite_url):
    async def main():
        url = "http://127.0.0.1:1/v1"
        app = grading(tmp_path, stt_base_url=url, chatmock_base_url=url)
        async with Engine(sqlite_url, apps=[app.app]) as engine:
            await engine.enqueue("grading.grade", {})
            await engine.work(until_idle=True)
            records = {each.name: each.settings for each in await engine.downstreams.list()}
            assert set(records) == {"llm", "stt"}
            for settings in records.values():
                rule = settings.breaker
                assert (rule.failure_rate, rule.window_calls) == (0.5, 20)
                assert (rule.open_for, rule.trial_calls) == (30, 3)

    asyncio.run(main())
