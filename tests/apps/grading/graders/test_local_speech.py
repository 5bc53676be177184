"""Speech becomes text on this machine, in a confined child."""

import asyncio
import importlib.machinery
import io
import json

import numpy
import pytest
import soundfile
from tests.apps.grading.sounds import tone
from tests.support import speech

from holdfast import Category, Permanent, SystemClock, categorize
from holdfast.children import BrokenFrame, ChildDied, ChildFailed, Death, FrameKind, json_answer
from holdfast_grading.graders import local_speech
from holdfast_grading.graders.audio import decode
from holdfast_grading.graders.local_speech import (
    LocalTranscriber,
    TranscriberBusy,
    TranscribingStopped,
)


def heard(*recordings):
    """Return what becomes of each recording, in one transcriber."""

    async def main():
        transcriber = LocalTranscriber(speech.speech_model(), SystemClock())
        try:
            tasks = (transcriber.transcribe(decode(data)) for data in recordings)
            return await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await transcriber.aclose()

    return asyncio.run(main())


def test_what_a_person_says_is_understood_and_silence_is_no_speech():
    silence = io.BytesIO()
    soundfile.write(silence, numpy.zeros(8000), 8000, format="WAV")
    text, nothing = heard(speech.recording().read_bytes(), silence.getvalue())
    assert speech.words(text).startswith(speech.SAID)
    assert isinstance(nothing, Permanent)
    assert nothing.code == "NO_SPEECH"


@pytest.mark.parametrize(
    "raised, category",
    [
        (TimeoutError(), Category.TRANSIENT),
        (ChildDied(Death.CPU_TIME, "ended"), Category.PERMANENT),
        (ChildDied(Death.KILLED, "ended"), Category.TRANSIENT),
        (ChildFailed("cannot start"), Category.TRANSIENT),
    ],
)
def test_a_transcriber_that_dies_says_whose_fault_it_was(monkeypatch, raised, category):
    async def call(*_, **__):
        raise raised

    monkeypatch.setattr(local_speech.ConfinedFunction, "call", call)
    (error,) = heard(tone())
    assert categorize(error) is category
    assert isinstance(error, Permanent | TranscribingStopped)


def test_a_recording_that_waits_too_long_for_its_turn_comes_back(monkeypatch, tmp_path):
    monkeypatch.setattr(local_speech, "_TURN_SECONDS", 0.05)

    async def main():
        called, answered = asyncio.Event(), asyncio.Event()

        async def call(*_, **__):
            called.set()
            await answered.wait()
            return "said"

        monkeypatch.setattr(local_speech.ConfinedFunction, "call", call)
        transcriber, sound = LocalTranscriber(tmp_path, SystemClock()), decode(tone())
        first = asyncio.create_task(transcriber.transcribe(sound))
        await called.wait()
        with pytest.raises(TranscriberBusy):
            await transcriber.transcribe(sound)
        answered.set()
        assert await first == "said"
        assert await transcriber.transcribe(sound) == "said"

    asyncio.run(main())


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"words": "x"}'])
def test_an_answer_that_cannot_be_read_is_not_trusted(body):
    with pytest.raises(BrokenFrame):
        json_answer(local_speech._text)(None, FrameKind.ANSWER, body)


def test_without_the_package_or_its_model_there_is_no_folder(monkeypatch, tmp_path):
    spec = importlib.machinery.ModuleSpec("moonshine_voice", None)
    spec.origin = str(tmp_path / "moonshine_voice" / "__init__.py")
    for found in (None, spec):
        monkeypatch.setattr(local_speech.importlib.util, "find_spec", lambda _name, f=found: f)
        assert local_speech.model_folder() is None
    model = tmp_path / "moonshine_voice" / "assets" / "tiny-en"
    model.mkdir(parents=True)
    (model / "encoder_model.ort").touch()
    assert local_speech.model_folder() == model


def test_the_child_answers_with_what_it_heard(monkeypatch):
    folder = speech.speech_model()
    from holdfast_grading.graders import speech_child

    answers = []
    monkeypatch.setattr(speech_child, "request_server", answers.append)
    speech_child.load(str(folder))
    with speech.recording().open("rb") as file:
        answer = json.loads(answers[0]("transcribe", [file.fileno()]))
    assert speech.words(answer["text"]).startswith(speech.SAID)


def test_recordings_of_odd_rates_are_transcribed_like_others():
    loud = io.BytesIO()
    soundfile.write(loud, numpy.ones((96_000, 8)) / 2, 192_000, format="WAV")
    slow = io.BytesIO()
    soundfile.write(slow, numpy.ones(400) / 2, 1, format="WAV")
    for found in heard(loud.getvalue(), slow.getvalue()):
        assert getattr(found, "code", None) == "NO_SPEECH", found


def test_long_recordings_are_cut_in_pauses_and_nothing_is_left_out():
    speech.speech_model()
    from holdfast_grading.graders.speech_child import parts

    rate, pauses = 1000, (40, 81, 120)
    sound = numpy.tile(numpy.sin(numpy.arange(rate) * 2).astype("float32"), 150)
    for second in pauses:
        sound[second * rate : (second + 1) * rate] = 0
    file = io.BytesIO()
    soundfile.write(file, sound, rate, format="FLAC")
    file.seek(0)
    found = [part for part, _rate in parts(file)]
    assert numpy.allclose(numpy.concatenate(found), sound, atol=1e-3)
    ends = numpy.cumsum([len(part) for part in found])[:-1] / rate
    assert [int(end) for end in ends] == list(pauses)
    assert max(map(len, found)) <= 60 * rate
