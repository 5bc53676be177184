"""Recordings are decoded in a child process; what breaks it breaks nothing else."""

import asyncio
import json

import pytest
from tests.apps.grading.sounds import tone

from holdfast import Category, Permanent, SystemClock, categorize
from holdfast.children import (
    BrokenFrame,
    ChildDied,
    ChildFailed,
    Death,
    FrameKind,
    json_answer,
)
from holdfast_grading.graders import audio_child, audio_decoder
from holdfast_grading.graders.audio_decoder import AudioDecoder, DecodingStopped


def decoded(*recordings):
    """Return what becomes of each recording, in one decoder."""

    async def main():
        decoder = AudioDecoder(SystemClock())
        try:
            tasks = (decoder.decode(data) for data in recordings)
            return await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await decoder.aclose()

    return asyncio.run(main())


def test_recordings_are_decoded_and_what_is_not_one_is_refused():
    good, bad = decoded(tone(kind="OGG"), b"<html>")
    assert (good.suffix, round(good.seconds, 1)) == ("ogg", 0.5)
    assert isinstance(bad, Permanent)
    assert bad.code == "AUDIO_UNREADABLE"


@pytest.mark.parametrize(
    "raised, category",
    [
        (TimeoutError(), Category.PERMANENT),
        (ChildDied(Death.SIGNAL, "ended"), Category.PERMANENT),
        (ChildDied(Death.KILLED, "ended"), Category.TRANSIENT),
        (ChildFailed("cannot start"), Category.TRANSIENT),
    ],
)
def test_a_decoder_that_dies_says_whose_fault_it_was(monkeypatch, raised, category):
    async def call(*_, **__):
        raise raised

    monkeypatch.setattr(audio_decoder.ConfinedFunction, "call", call)
    (error,) = decoded(tone())
    assert categorize(error) is category
    assert isinstance(error, Permanent | DecodingStopped)


def test_the_child_answers_with_what_it_found_or_with_a_refusal(tmp_path, monkeypatch):
    path = tmp_path / "sound"
    path.write_bytes(tone())

    def answer():
        with path.open("rb") as file:
            return json.loads(audio_child._answer("decode", [file.fileno()]))

    assert answer() == {"suffix": "wav", "seconds": 0.5}
    path.write_bytes(b"x")
    assert "cannot be decoded" in answer()["refusal"]

    def no_memory(_data):
        raise MemoryError

    monkeypatch.setattr(audio_child, "decode", no_memory)
    assert "memory" in answer()["refusal"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"suffix": "wav"}', b'{"seconds": "x"}'])
def test_an_answer_that_cannot_be_read_is_not_trusted(body):
    with pytest.raises(BrokenFrame):
        json_answer(audio_decoder._found)(None, FrameKind.ANSWER, body)
