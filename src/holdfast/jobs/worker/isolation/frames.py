"""What parent and child say to each other over their socket.

A frame is one byte for its kind, four for its length, and that many bytes: JSON text in UTF-8, or
for a result the result's own text. The parent believes nothing: whatever does not fit is a
`BrokenFrame`.
"""

import asyncio
import json
import math
import socket
import struct
from collections.abc import Mapping
from enum import Enum
from typing import Any

from holdfast.errors import Category, error_code
from holdfast.jobs.downstreams.record import Admission
from holdfast.jobs.error_text import clean
from holdfast.jobs.model import Claim, Lease
from holdfast.jobs.worker.failure import Trouble
from holdfast.resilience.diagnosis import Diagnosis

_HEAD = struct.Struct("!cI")
SMALL = 64 * 1024
"""Bytes that a frame other than a result may have."""


class BrokenFrame(Exception):
    """The other side sent something that makes no sense."""


class FrameKind(Enum):
    """What a frame says."""

    SETUP = b"S"
    """Parent: which kind to serve and with what limits."""
    READY = b"Y"
    """Child: the kind is found."""
    JOB = b"J"
    """Parent: run this attempt."""
    CANCEL = b"C"
    """Parent: ask the running attempt to stop."""
    PROGRESS = b"P"
    """Child: how far it is."""
    RESULT = b"R"
    """Child: what the handler returned, as JSON text."""
    TROUBLE = b"T"
    """Child: what went wrong."""


def pack(kind: FrameKind, body: object) -> bytes:
    """Return the bytes of a frame; `body` is text for a result, else anything JSON can say."""
    text = body if kind is FrameKind.RESULT and isinstance(body, str) else json.dumps(body)
    data = text.encode("utf-8", "surrogatepass")
    return _HEAD.pack(kind.value, len(data)) + data


async def read_frame(reader: asyncio.StreamReader, largest_result: int) -> tuple[FrameKind, Any]:
    """Return the next frame.

    Raises:
        BrokenFrame: it is unknown, malformed or too large.
        asyncio.IncompleteReadError: the child is gone.
    """
    kind, length = _head(await reader.readexactly(_HEAD.size))
    largest = largest_result if kind is FrameKind.RESULT else SMALL
    if length > largest:
        raise BrokenFrame(f"a frame of {length} bytes, where {largest} are allowed")
    return kind, _body(kind, await reader.readexactly(length))


def receive(connection: socket.socket) -> tuple[FrameKind, Any] | None:
    """Return the next frame of a blocking socket; None where the other side is gone."""
    head = _exactly(connection, _HEAD.size)
    if head is None:
        return None
    kind, length = _head(head)
    data = _exactly(connection, length)
    return None if data is None else (kind, _body(kind, data))


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
        return text if kind is FrameKind.RESULT else json.loads(text)
    except (ValueError, RecursionError):
        raise BrokenFrame(f"a {kind.name.lower()} frame that cannot be read") from None


# -- attempts ------------------------------------------------------------------------------------


def dump_claim(claim: Claim) -> dict[str, Any]:
    """Return what a child has to know of a claim."""
    lease = claim.lease
    fields = {name: getattr(claim, name) for name in _CLAIM_FIELDS}
    return fields | {"lease": [lease.job_id, lease.token, lease.worker_id, lease.expires_at]}


def load_claim(fields: Mapping[str, Any]) -> Claim:
    """Read back what `dump_claim` wrote."""
    known = {name: fields[name] for name in _CLAIM_FIELDS}
    return Claim(lease=Lease(*fields["lease"]), admission=Admission.CALL, permit=None, **known)


_CLAIM_FIELDS = (
    "kind", "queue", "downstream", "arguments", "attempt", "max_attempts", "owner", "created_at",
    "started_at", "deadline_at", "meta",
)  # fmt: skip


# -- troubles ------------------------------------------------------------------------------------


def dump_trouble(trouble: Trouble) -> dict[str, Any]:
    """Return a trouble as JSON can say it."""
    seen = trouble.diagnosis
    return {
        "category": seen.category, "code": seen.code, "known": seen.known, "status": seen.status,
        "retry_after": seen.retry_after, "ambiguous": seen.ambiguous, "counts": seen.counts,
        "message": trouble.message, "excluded": trouble.excluded, "after": trouble.after,
    }  # fmt: skip


def load_trouble(fields: object) -> Trouble:
    """Read back what `dump_trouble` wrote, believing nothing."""
    try:
        assert isinstance(fields, dict)
        status = fields["status"]
        seen = Diagnosis(
            Category(fields["category"]), error_code(fields["code"]), fields["known"] is True,
            status if isinstance(status, int) else None, _seconds(fields["retry_after"]),
            fields["ambiguous"] is True, fields["counts"] is True,
        )  # fmt: skip
        message = clean(str(fields["message"]))
        return Trouble(seen, message, fields["excluded"] is True, _seconds(fields["after"]))
    except (AssertionError, KeyError, ValueError):
        raise BrokenFrame("a trouble that cannot be read") from None


def load_progress(fields: object) -> tuple[float | None, str | None]:
    """Return a share between 0 and 1 and a note, believing nothing."""
    if not isinstance(fields, list) or len(fields) != 2:
        raise BrokenFrame("progress that cannot be read")
    share, note = fields
    if share is not None and not (_is_number(share) and 0 <= share <= 1):
        raise BrokenFrame("progress that is not between 0 and 1")
    return share, None if note is None else clean(str(note))


def _seconds(value: object) -> float | None:
    if value is None:
        return None
    if not _is_number(value) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"not seconds: {value!r}")
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
