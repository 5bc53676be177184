"""The messages between parent and child over their socket.

A frame is one byte for its kind, four for its length, and that many bytes: JSON text in UTF-8, or
for an answer any text. Open files may travel with a request. The parent trusts nothing: whatever
does not fit is a `BrokenFrame`.
"""

import asyncio
import json
import socket
import struct
from enum import Enum
from typing import Any

_HEAD = struct.Struct("!cI")
_MOST_FILES = 4
SMALL = 64 * 1024
"""Bytes that a frame other than an answer may have."""


class BrokenFrame(Exception):
    """The other side sent an invalid frame."""


class FrameKind(Enum):
    """What a frame says."""

    SETUP = b"S"
    """Parent: what to serve and with which limits."""
    READY = b"Y"
    """Child: it is set up."""
    REQUEST = b"Q"
    """Parent: answer this."""
    TAKEN = b"K"
    """Child: it has the request. From here on its death is about that request."""
    CANCEL = b"C"
    """Parent: stop working on the request."""
    PROGRESS = b"P"
    """Child: how far it is."""
    ANSWER = b"A"
    """Child: the answer, as text."""
    ERROR = b"E"
    """Child: what went wrong."""


def pack(kind: FrameKind, body: object = None) -> bytes:
    """Return the bytes of a frame; `body` is text for an answer, else anything JSON can say."""
    text = body if kind is FrameKind.ANSWER and isinstance(body, str) else json.dumps(body)
    data = text.encode("utf-8", "surrogatepass")
    return _HEAD.pack(kind.value, len(data)) + data


async def read_frame(reader: asyncio.StreamReader, largest_answer: int) -> tuple[FrameKind, Any]:
    """Return the next frame.

    Raises:
        BrokenFrame: it is unknown, malformed or too large.
        asyncio.IncompleteReadError: the child is gone.
    """
    kind, length = _head(await reader.readexactly(_HEAD.size))
    largest = largest_answer if kind is FrameKind.ANSWER else SMALL
    if length > largest:
        raise BrokenFrame(f"a frame of {length} bytes, where {largest} are allowed")
    return kind, _body(kind, await reader.readexactly(length))


def receive(connection: socket.socket) -> tuple[FrameKind, Any] | None:
    """Return the next frame of a blocking socket; None where the other side is gone."""
    found = receive_with_files(connection)
    return None if found is None else found[:2]


def receive_with_files(connection: socket.socket) -> tuple[FrameKind, Any, list[int]] | None:
    """Return the next frame and the files that came with it, as descriptors to be closed."""
    head, files, _, _ = socket.recv_fds(connection, _HEAD.size, _MOST_FILES)
    rest = _exactly(connection, _HEAD.size - len(head)) if head else None
    if rest is None:
        return None
    kind, length = _head(head + rest)
    data = _exactly(connection, length)
    return None if data is None else (kind, _body(kind, data), files)


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _head(data: bytes) -> tuple[FrameKind, int]:
    byte, length = _HEAD.unpack(data)
    try:
        return FrameKind(byte), length
    except ValueError:
        raise BrokenFrame(f"a frame of unknown kind {byte!r}") from None


def _body(kind: FrameKind, data: bytes) -> Any:
    try:
        text = data.decode("utf-8", "surrogatepass")
        return text if kind is FrameKind.ANSWER else json.loads(text)
    except (ValueError, RecursionError):
        raise BrokenFrame(f"a {kind.name.lower()} frame that cannot be read") from None
