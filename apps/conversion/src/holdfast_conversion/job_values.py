"""What a conversion is given, and what comes of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConvertArgs:
    """What to convert: the artifact `source` of `bytes` bytes, by `mapping`."""

    source: str
    mapping: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Converted:
    """What came of it: the artifact `file`, and its size and SHA-256."""

    file: str
    bytes: int
    sha256: str
