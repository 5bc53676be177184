"""Recordings are decoded from beginning to end, or refused for good."""

import pytest
from tests.apps.grading.sounds import tone

from holdfast import Category, Permanent, categorize
from holdfast_grading.graders import audio
from holdfast_grading.graders.audio import decode


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_a_recording_is_decoded_and_its_length_known(kind):
    data = tone(0.5, kind)
    found = decode(data)
    assert (found.data, found.suffix) == (data, kind.lower())
    assert found.seconds == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>not audio</html>",
        b"RIFF\xff\xff\xff\xffWAVEfmt ",
        tone(kind="FLAC")[:300],
        tone(0.0),
        b"\0" * 5000,
    ],
)
def test_what_does_not_decode_is_refused_for_good(data):
    with pytest.raises(Permanent) as refused:
        decode(data)
    assert refused.value.code == "AUDIO_UNREADABLE"
    assert categorize(refused.value) is Category.PERMANENT


def test_a_recording_that_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(audio, "LONGEST", 0.1)
    with pytest.raises(Permanent, match="longer than"):
        decode(tone(0.5))


def test_a_recording_with_too_many_channels_is_refused(monkeypatch):
    monkeypatch.setattr(audio, "_MOST_CHANNELS", 0)
    with pytest.raises(Permanent, match="more than 0 channels"):
        decode(tone(0.1))
