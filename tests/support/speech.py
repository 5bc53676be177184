"""Speech for tests: a recording that the local model's package brings."""

from pathlib import Path

from tests.support.missing import do_without

from holdfast_grading.graders.local_speech import model_folder

SAID = "ever tried ever failed no matter try again"
"""How the recording begins, in the words that even a small model understands."""


def speech_model() -> Path:
    """Return the folder of the local model; without one the test is not run."""
    found = model_folder()
    return found or do_without("no local model for speech: make .venv/.ready-speech")


def recording() -> Path:
    """Return a WAV file of 10 s, spoken by a person."""
    return speech_model().parent / "beckett.wav"


def words(text: str) -> str:
    """Return the words of `text` alone, in lower case."""
    return " ".join("".join(c for c in text.lower() if c.isalpha() or c == " ").split())
