"""Recordings: decoded by libsndfile, so that what is not audio never reaches the provider.

`AudioDecoder` does it in a child process that has given up files, sockets and programs and has
limits on memory and time: a recording of a stranger that breaks its decoder breaks nothing else.
"""

import io
from dataclasses import dataclass

from holdfast import Permanent
from holdfast_grading.error_codes import AUDIO_UNREADABLE

FORMATS = "WAV, FLAC, OGG (Vorbis or Opus) and MP3"
LONGEST = 15 * 60.0
"""Seconds that a recording may last."""
_BLOCK = 65_536
_SAMPLE_BYTES = 2
_MOST_CHANNELS = 8


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording that was decoded from its beginning to its end.

    Attributes:
        data: as it came.
        suffix: what its file is called by, such as `wav`.
        seconds: how long it lasts.
    """

    data: bytes
    suffix: str
    seconds: float


def decode(data: bytes) -> Recording:
    """Return the recording that `data` is. It blocks; use a thread.

    Raises:
        Permanent: `AUDIO_UNREADABLE`: it is not one, is damaged, or is too long.
    """
    # It brings numpy, a tenth of the time that a server takes to start; only the child decodes.
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if file.channels > _MOST_CHANNELS:
                raise unreadable(f"The recording has more than {_MOST_CHANNELS} channels.")
            most, frames = int(LONGEST * file.samplerate), 0
            while block := file.buffer_read(_BLOCK, dtype="int16"):
                frames += len(block) // (_SAMPLE_BYTES * file.channels)
                if frames > most:
                    raise unreadable(f"The recording is longer than {LONGEST / 60:g} minutes.")
            # A file that was cut off promises more than it holds.
            if not frames or frames < file.frames:
                raise unreadable("The recording is damaged or empty.")
            return Recording(data, file.format.lower(), frames / file.samplerate)
    except (soundfile.LibsndfileError, RuntimeError, ValueError, OverflowError) as error:
        line = f"The audio cannot be decoded; these formats can: {FORMATS}."
        raise unreadable(line) from error


def unreadable(line: str) -> Permanent:
    """Return the error for what cannot be decoded."""
    return Permanent(AUDIO_UNREADABLE, line)
