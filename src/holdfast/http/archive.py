"""Several downloads as one ZIP file, made while it is sent."""

import asyncio
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from typing import IO, BinaryIO

from holdfast.http.plugins import Download

PIECE = 256 * 1024
"""Bytes that are read and compressed at once."""
_LEVEL = 1
"""XML shrinks to a tenth even so; higher levels take several times as long for little more."""
_LONGEST_NAME = 200
"""Bytes of a name; most file systems take 255."""
_UNSAFE = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]')


async def zip_of(downloads: AsyncIterator[Download]) -> AsyncGenerator[bytes]:
    """Yield a ZIP file of `downloads`, and close each.

    Memory does not grow with their sizes: one file is read at a time, in pieces.
    """
    sink, names = _Sink(), EntryNames()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        async for download in downloads:
            with download.file:
                entry = zipfile.ZipInfo(names.take(download.filename))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.file_size = download.size  # a hint: whether its sizes need 64 bits
                with archive.open(entry, "w") as target:
                    while await asyncio.to_thread(_copy, download.file, target):
                        yield sink.take()
    yield sink.take()


def _copy(file: BinaryIO, target: IO[bytes]) -> bool:
    piece = file.read(PIECE)
    target.write(piece)
    return bool(piece)


class _Sink:
    """What `zipfile` writes to; it cannot seek, so sizes stand after each file."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes, /) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""

    def close(self) -> None:
        """Do nothing: what was written can still be taken."""

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


class EntryNames:
    """Give each file of an archive a name that is safe to unpack, and that no other has.

    Names that differ only in case are one file on some systems, so they count as the same.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._copies: Counter[str] = Counter()

    def take(self, filename: str) -> str:
        """Return the name of the next file: `filename`, or `filename (2)` where that is taken."""
        stem, suffix = _parts(filename)
        name = _joined(stem, "", suffix)
        first = name.casefold()
        while name.casefold() in self._taken:
            self._copies[first] += 1
            name = _joined(stem, f" ({self._copies[first] + 1})", suffix)
        self._taken.add(name.casefold())
        return name


def _parts(filename: str) -> tuple[str, str]:
    text = filename.encode("utf-8", "replace").decode()
    safe = _UNSAFE.sub("_", unicodedata.normalize("NFC", text)).strip(" .")
    stem, dot, suffix = safe.rpartition(".")
    if not stem or len(suffix) > 10:
        return safe or "file", ""
    return stem, dot + suffix


def _joined(stem: str, number: str, suffix: str) -> str:
    room = _LONGEST_NAME - len((number + suffix).encode())
    return stem.encode()[:room].decode(errors="ignore") + number + suffix
