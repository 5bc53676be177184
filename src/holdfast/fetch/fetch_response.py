"""The answer to a fetch: streamed, or as a whole."""

from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpcore

from holdfast.fetch.content_types import HEAD_BYTES, sniff_charset, sniff_type
from holdfast.fetch.decompression import BodyDecoder
from holdfast.fetch.fetch_errors import (
    FetchCode,
    HttpStatusError,
    failure,
    status_failure,
    transport_failure,
)
from holdfast.fetch.fetch_limits import FetchLimits
from holdfast.fetch.pinned_connection import PinnedConnection

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ABOUT_WAITING = ("retry-after", "retry-after-ms")
_LONGEST_VALIDATOR = 1000
"""Characters of an `ETag` or `Last-Modified` that are kept and sent back."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer as a whole.

    Args:
        url: the address that answered, after redirects.
        status: 200 to 299, or 304.
        content_type: what the body is, in lower case, without parameters; from its first bytes
            where the server's word does not fit them.
        charset: as Python names it, where the server or the body says so.
        body: decompressed.
        etag: as the server sent it, to ask with the next time.
        last_modified: the same.
        not_modified: the server has nothing newer than what it was asked about; the body is empty.
    """

    url: str
    status: int
    content_type: str
    charset: str | None
    body: bytes
    etag: str | None
    last_modified: str | None
    not_modified: bool


class RawAnswer:
    """The status and the headers that arrived, and the connection that the body arrives on."""

    def __init__(self, url: str, answer: httpcore.Response, connection: PinnedConnection) -> None:
        self.url = url
        self.status = answer.status
        self._headers = [(name.decode("latin-1").lower(), value) for name, value in answer.headers]
        self._connection = connection
        self._stream = aiter(answer.aiter_stream())

    def header(self, name: str) -> str:
        """Return the first value of a header, "" where it is missing."""
        return next(iter(self.headers(name)), "")

    def headers(self, name: str) -> list[str]:
        """Return every value of a header; `name` is in lower case."""
        return [value.decode("latin-1") for each, value in self._headers if each == name]

    def location(self) -> str:
        """Return where a redirect leads.

        Raises:
            FetchError: `FETCH_BAD_ANSWER`; it does not say.
        """
        for name, value in self._headers:
            if name == "location":
                try:
                    return value.decode("utf-8")
                except UnicodeDecodeError:
                    return value.decode("latin-1")
        raise failure(FetchCode.FETCH_BAD_ANSWER)

    def check_status(self, *, conditional: bool, wall_now: float, needs_body: bool = True) -> None:
        """Refuse an answer that is not what was asked for.

        Args:
            conditional: 304 is a good answer too.
            wall_now: epoch seconds.
            needs_body: refuse 206, which is a part of a body.

        Raises:
            FetchError: `FETCH_4XX`, `FETCH_5XX` and their like, or `FETCH_BAD_ANSWER` for a status
                that does not belong to the request.
        """
        if 400 <= self.status < 600:
            headers = {name: self.header(name) for name in _ABOUT_WAITING if self.header(name)}
            cause = HttpStatusError(self.status, headers)
            raise status_failure(cause, wall_now=wall_now) from cause
        # No part was asked for.
        good = 200 <= self.status < 300 and not (needs_body and self.status == 206)
        if not good and not (self.status == 304 and conditional):
            raise failure(FetchCode.FETCH_BAD_ANSWER)

    async def next_data(self) -> bytes | None:
        """Return the next bytes of the body as they are sent; None at its end.

        Raises:
            FetchError: the connection or the answer broke off, or the answer is too large.
        """
        with as_fetch_errors():
            return await anext(self._stream, None)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._connection.aclose()


class FetchResponse:
    """An answer whose body arrives while it is read; `Fetcher.open` opens and closes it.

    Its attributes are those of `Fetched`, except for the body.
    """

    def __init__(self, answer: RawAnswer, limits: FetchLimits) -> None:
        self.url = answer.url
        self.status = answer.status
        self.not_modified = answer.status == 304
        self.etag = _validator(answer.header("etag"))
        self.last_modified = _validator(answer.header("last-modified"))
        self.content_type = ""
        self.charset: str | None = None
        self._answer = answer
        self._limits = limits
        # The headers of a 304 describe a body that is not sent.
        encodings = [] if self.not_modified else answer.headers("content-encoding")
        self._decoder = BodyDecoder(encodings, limits)
        self._decoding: Iterator[bytes] = iter(())
        self._ahead: deque[bytes] = deque()

    async def begin(self) -> None:
        """Read the first bytes and find out what the body is.

        Raises:
            FetchError: `FETCH_TOO_LARGE`, by the size that the server announces or by what came.
        """
        size = int(self._answer.header("content-length") or 0)
        if size > self._limits.max_bytes and not self.not_modified:
            raise failure(FetchCode.FETCH_TOO_LARGE)
        head = b""
        while len(head) < HEAD_BYTES and (piece := await self._next_piece()) is not None:
            self._ahead.append(piece)
            head += piece[:HEAD_BYTES]
        kind = self._answer.header("content-type")
        self.content_type = sniff_type(kind, head[:HEAD_BYTES])
        self.charset = sniff_charset(kind, head[:HEAD_BYTES])

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the decompressed body in pieces of at most 64 KiB, each once.

        Raises:
            FetchError: the connection broke off, or a limit is reached.
        """
        while self._ahead:
            yield self._ahead.popleft()
        while (piece := await self._next_piece()) is not None:
            yield piece

    async def read(self) -> Fetched:
        """Return the answer with the rest of its body, which is all of it unless some was read."""
        # Not a list of pieces: a server may send a million of one byte.
        body = bytearray()
        async for piece in self.pieces():
            body += piece
        return Fetched(
            url=self.url,
            status=self.status,
            content_type=self.content_type,
            charset=self.charset,
            body=bytes(body),
            etag=self.etag,
            last_modified=self.last_modified,
            not_modified=self.not_modified,
        )

    async def _next_piece(self) -> bytes | None:
        while True:
            piece = next(self._decoding, None)
            if piece is not None:
                return piece
            data = await self._answer.next_data()
            if data is None:
                self._decoder.finish()
                return None
            self._decoding = self._decoder.decode(data)


@contextmanager
def as_fetch_errors() -> Iterator[None]:
    """Turn errors of the transport into `FetchError`."""
    try:
        yield
    except (
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.TimeoutException,
        OSError,
    ) as error:
        raise transport_failure(error) from error


def _validator(value: str) -> str | None:
    usable = value.isascii() and value.isprintable() and 0 < len(value) <= _LONGEST_VALIDATOR
    return value if usable else None
