"""Decode the body of an answer piece by piece, so that a bomb never costs more than its limit."""

import zlib
from collections.abc import Iterator

from holdfast.fetch.fetch_errors import FetchCode, FetchError, PermanentFetchError, failure
from holdfast.fetch.fetch_limits import FetchLimits

OFFERED = "gzip, deflate"
"""What `Accept-Encoding` asks for. Others compress better and need one more library each."""

_PIECE_BYTES = 64 * 1024
_RATIO_FROM = 2**20
"""Decompressed bytes from which the ratio counts: a short page of spaces harms no one."""
_FREE_PIECES = 10_000
_LEAST_AVERAGE = 16
"""Bytes. A body may come in 10 000 pieces of any size; of more, each must have this on average. A
chunk of one byte costs as much time as one of a thousand."""
_GZIP_BITS = zlib.MAX_WBITS | 16


class BodyDecoder:
    """Count and decode one body.

    Args:
        encodings: the values of `Content-Encoding`.
        limits: how many bytes may come in and go out.

    Raises:
        PermanentFetchError: `FETCH_BAD_ANSWER`; an encoding that was not offered, or more than one.
    """

    def __init__(self, encodings: list[str], limits: FetchLimits) -> None:
        self._limits = limits
        self._encoding = _one_encoding(encodings)
        self._decompressor = zlib.decompressobj(_GZIP_BITS) if self._encoding == "gzip" else None
        self._received = 0
        self._pieces = 0
        self._decoded = 0
        self._first = b""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` decodes to, in pieces of at most 64 KiB.

        Raises:
            FetchError: `FETCH_TOO_LARGE` or `FETCH_BAD_ANSWER`.
        """
        self._received += len(data)
        self._pieces += 1
        too_fine = self._pieces > _FREE_PIECES + self._received // _LEAST_AVERAGE
        if too_fine or self._received > self._limits.max_bytes:
            raise failure(FetchCode.FETCH_TOO_LARGE)
        if self._encoding == "identity":
            yield data
            return
        if self._decompressor is None:
            # A deflate stream has a zlib header by the standard, and none from some servers. Two
            # bytes tell.
            self._first += data
            if len(self._first) < 2:
                return
            data, self._first = self._first, b""
            self._decompressor = zlib.decompressobj(_deflate_bits(data))
        yield from self._inflate(self._decompressor, data)

    def finish(self) -> None:
        """Make sure that the body is complete.

        Raises:
            FetchError: `FETCH_BAD_ANSWER`; the compressed data ends too early.
        """
        whole = self._decompressor is not None and self._decompressor.eof
        if self._encoding != "identity" and self._received and not whole:
            raise failure(FetchCode.FETCH_BAD_ANSWER)

    def _inflate(self, decompressor: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
        while True:
            if decompressor.eof:
                data = self._after_member(data)
                if not data:
                    return
                decompressor = self._decompressor = zlib.decompressobj(_GZIP_BITS)
            try:
                piece = decompressor.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                raise failure(FetchCode.FETCH_BAD_ANSWER) from error
            self._decoded += len(piece)
            if self._is_too_much():
                raise failure(FetchCode.FETCH_TOO_LARGE)
            if piece:
                yield piece
            data = decompressor.unused_data or decompressor.unconsumed_tail
            # A full piece may leave output behind although all input is consumed.
            if not data and len(piece) < _PIECE_BYTES:
                return

    def _after_member(self, data: bytes) -> bytes:
        """Return the next member of a gzip body, which may have several, with zeros after each."""
        if data and self._encoding != "gzip":
            raise failure(FetchCode.FETCH_BAD_ANSWER)
        return data.lstrip(b"\0")

    def _is_too_much(self) -> bool:
        if self._decoded > self._limits.max_bytes:
            return True
        most = self._received * self._limits.max_compression_ratio
        return self._decoded > max(most, _RATIO_FROM)


def _one_encoding(encodings: list[str]) -> str:
    """Return `identity`, `gzip` or `deflate`."""
    names = [name.strip().lower() for each in encodings for name in each.split(",")]
    applied = [name for name in names if name not in ("", "identity")]
    if not applied:
        return "identity"
    name = {"x-gzip": "gzip"}.get(applied[0], applied[0])
    if len(applied) > 1 or name not in ("gzip", "deflate"):
        raise _unsupported()
    return name


def _unsupported() -> FetchError:
    line = "The site's answer is compressed in a way that was not asked for."
    return PermanentFetchError(FetchCode.FETCH_BAD_ANSWER, line)


def _deflate_bits(data: bytes) -> int:
    has_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
