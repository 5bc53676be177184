"""How much one fetch may cost."""

import math
from dataclasses import dataclass

_HEAD_BYTES = 256 * 1024


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
    def max_head_bytes(self) -> int:
        """Bytes until the headers have arrived, interim answers (`100 Continue`) included."""
        return _HEAD_BYTES

    @property
    def max_framed_bytes(self) -> int:
        """Bytes after the headers: the body, and what a chunked one has around its chunks."""
        return 2 * self.max_bytes + _HEAD_BYTES
