"""Recordings for tests: a tone, in the formats that people upload."""

import io

import numpy
import soundfile


def tone(seconds=0.5, kind="WAV", rate=8000):
    """Return a recording of a tone."""
    times = numpy.arange(int(seconds * rate)) / rate
    out = io.BytesIO()
    soundfile.write(out, 0.3 * numpy.sin(2 * numpy.pi * 440 * times), rate, format=kind)
    return out.getvalue()
