"""Files without a name: they are deleted with their last reference, however the process ends."""

import os
import tempfile
from collections.abc import Iterator

_PIECE = 256 * 1024


class ScratchFile:
    """An open file without a name, closed with the last reference to this object."""

    __slots__ = ("fd",)

    def __init__(self) -> None:
        self.fd = -1
        with tempfile.TemporaryFile(buffering=0) as file:
            self.fd = os.dup(file.fileno())

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return os.fstat(self.fd).st_size

    def write(self, data: bytes) -> None:
        """Append `data`, all of it."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.fd, rest) :]

    def copy_to(self, other: "ScratchFile") -> None:
        """Append all of its content to `other`."""
        for piece in self.pieces():
            other.write(piece)

    def pieces(self) -> Iterator[bytes]:
        """Yield the content from its start; several may read at once."""
        offset = 0
        while piece := os.pread(self.fd, _PIECE, offset):
            yield piece
            offset += len(piece)
