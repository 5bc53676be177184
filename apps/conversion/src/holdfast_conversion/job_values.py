"""The arguments and the result of a conversion."""

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
    """The result: the artifact `file`, its size and SHA-256."""

    file: str
    bytes: int
    sha256: str
