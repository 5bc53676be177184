"""Take a body as it comes: onto disk, counted and hashed, and no further than allowed."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

from holdfast_conversion.gateway.formats import MAGIC_WITHIN, check_magic
from holdfast_conversion.gateway.rejections import Reason, Rejection
from holdfast_conversion.gateway.scratch import ScratchFile
from holdfast_conversion.gateway.stall_timeout import with_stall_timeout


@dataclass(frozen=True, slots=True)
class Upload:
    """A body on disk, and its SHA-256 in hexadecimal."""

    file: ScratchFile
    sha256: str


def declared_length(request: Request) -> int | None:
    """Return the Content-Length in bytes; None where there is none that can be read."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else None


async def receive(
    body: AsyncIterator[bytes], *, declared: int | None, most_bytes: int, stall_seconds: float
) -> Upload:
    """Read `body` to its end; `declared` is what Content-Length says, if anything.

    Raises:
        Rejection: too large, too slow, cut short, empty or no PDF; the rest is not read.
    """
    if declared is not None and declared > most_bytes:
        raise Rejection(Reason.BODY_TOO_LARGE, f"declared {declared}")
    try:
        file = ScratchFile()
        return Upload(file, await _copy(body, file, most_bytes, stall_seconds))
    except TimeoutError:
        raise Rejection(Reason.BODY_SLOW) from None
    except ClientDisconnect:
        raise Rejection(Reason.BODY_CUT) from None
    except OSError as error:
        raise Rejection(Reason.STORAGE, str(error.strerror)) from None


async def _copy(
    body: AsyncIterator[bytes], file: ScratchFile, most_bytes: int, stall_seconds: float
) -> str:
    digest, size, head, checked = hashlib.sha256(), 0, b"", False
    async for chunk in with_stall_timeout(body, stall_seconds):
        size += len(chunk)
        if size > most_bytes:
            raise Rejection(Reason.BODY_TOO_LARGE, "counted")
        if not checked:
            head += chunk
            # A ZIP with another name is known by its first bytes; the rest need not travel.
            if len(head) >= MAGIC_WITHIN:
                check_magic(head)
                checked = True
        digest.update(chunk)
        file.write(chunk)
    if not checked:
        check_magic(head)
    return digest.hexdigest()
