"""The child's side of transcribing on this machine: one recording after another, confined."""

import io
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy
import soundfile
from moonshine_voice.moonshine_api import ModelArch
from moonshine_voice.transcriber import Transcriber as Model

from holdfast.children import RequestServer, request_server

_RATE = 16_000
_PART_SECONDS = 45
"""The library makes a Python object of each sample, so it gets a recording in parts."""
_CUT_SECONDS = 15
"""At the end of each part, among which the quietest place is looked for."""
_PAUSES_PER_SECOND = 5
"""A pause between two words lasts about a fifth of a second."""


def load(folder: str) -> RequestServer:
    """Load the model in `folder`, and return what transcribes for the worker."""
    model = Model(folder, ModelArch.TINY)
    transcribe(model, _silence())  # loads what decoding needs, too

    def answer(_request: str, files: list[int]) -> str:
        with open(files[0], "rb", closefd=False) as file:
            return json.dumps({"text": transcribe(model, file)})

    return request_server(answer)


def transcribe(model: Model, file: BinaryIO) -> str:
    """Return what is said in the recording in `file`."""
    lines = [
        line.text.strip()
        for part, rate in parts(file)
        for line in model.transcribe_without_streaming(part.tolist(), rate).lines
    ]
    return " ".join(filter(None, lines))


def parts(file: BinaryIO) -> Iterator[tuple[Any, int]]:
    """Cut a recording into parts of about 45 s, each one channel of floats with its rate."""
    with soundfile.SoundFile(file) as sound:
        rate, size = sound.samplerate, _PART_SECONDS * sound.samplerate
        rest = numpy.zeros(0, "float32")
        while True:
            block = sound.read(size, dtype="float32", always_2d=True).mean(axis=1)
            part = numpy.concatenate((rest, block))
            if len(block) < size:
                yield part, rate
                return
            cut = _quietest(part, rate)
            rest = part[cut:]
            yield part[:cut], rate


def _quietest(part: Any, rate: int) -> int:
    """Return where in its last seconds `part` is quietest, so that no word is cut."""
    pause = max(1, rate // _PAUSES_PER_SECOND)
    end = part[-_CUT_SECONDS * _PAUSES_PER_SECOND * pause :]
    loudness = numpy.abs(end).reshape(-1, pause).mean(axis=1)
    return len(part) - len(end) + int(loudness.argmin()) * pause + pause // 2


def _silence() -> BinaryIO:
    file = io.BytesIO()
    soundfile.write(file, numpy.zeros(_RATE), _RATE, format="WAV")
    file.seek(0)
    return file
