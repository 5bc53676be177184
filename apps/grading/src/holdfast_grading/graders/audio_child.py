"""The child's side of decoding: one recording after another, in a confined process."""

import io
import json
import wave
from typing import Any

from holdfast import Permanent
from holdfast.children import RequestServer, request_server
from holdfast_grading.graders.audio import decode


def load(_options: dict[str, Any]) -> RequestServer:
    """Load what decoding needs, and return what decodes for the worker."""
    decode(_silence())
    return request_server(_answer)


def _answer(_request: str, files: list[int]) -> str:
    try:
        with open(files[0], "rb", closefd=False) as file:
            recording = decode(file.read())
        return json.dumps({"suffix": recording.suffix, "seconds": recording.seconds})
    except Permanent as refusal:
        return json.dumps({"refusal": str(refusal)})
    except MemoryError:
        return '{"refusal": "Decoding the recording takes more memory than is allowed."}'


def _silence() -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(1600))
    return out.getvalue()
