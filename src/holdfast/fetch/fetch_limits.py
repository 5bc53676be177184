"""How much one fetch may cost."""

import math
from dataclasses import dataclass

FRAMING_BYTES = 256 * 1024
"""Bytes beside the body, headers above all, that an answer may have."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bound one fetch, with all of its redirects.

    Args:
        max_bytes: of the body, both as it is sent and decompressed.
        max_seconds: from the call until the last byte, name resolution and redirects included.
        connect_seconds: for a connection, and again for its TLS handshake.
        max_redirects: how many are followed.
        max_compression_ratio: decompressed bytes for each byte sent, judged from the first
            megabyte on. Text reaches 20, a decompression bomb 1000.

    Raises:
        ValueError: a limit is not a positive number, or `max_redirects` is negative.
    """

    max_bytes: int = 20 * 2**20
    max_seconds: float = 30.0
    connect_seconds: float = 10.0
    max_redirects: int = 3
    max_compression_ratio: int = 200

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_seconds", "connect_seconds", "max_compression_ratio"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if self.max_redirects < 0:
            raise ValueError(f"max_redirects must be 0 or more, got {self.max_redirects!r}")

    @property
    def max_wire_bytes(self) -> int:
        """Bytes that one connection may send in all.

        Chunks of one byte with long extensions, or interim answers without end, have no body that
        `max_bytes` could bound.
        """
        return 2 * self.max_bytes + FRAMING_BYTES
