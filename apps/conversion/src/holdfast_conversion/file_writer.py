"""Write an upload to disk while more of it arrives, in bounded memory."""

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.files import Draft
from holdfast_conversion.file_names import storing

LARGEST_BATCH = 1024 * 1024
"""Bytes that are handed at the most to the thread that writes them: each time costs a wake-up."""
_SMALLEST_BATCH = 64 * 1024
_SHARED_BYTES = 2 * 1024 * 1024


class UploadMemory:
    """The buffer memory that the uploads of one server share: more uploads, smaller buffers."""

    def __init__(self) -> None:
        self._uploads = 0

    @property
    def batch_bytes(self) -> int:
        """Bytes that one upload may gather; as many again may be on their way to the disk."""
        share = _SHARED_BYTES // (2 * max(1, self._uploads))
        return max(_SMALLEST_BATCH, min(LARGEST_BATCH, share))

    @contextmanager
    def place(self) -> Iterator[None]:
        """Count one upload while the block runs."""
        self._uploads += 1
        try:
            yield
        finally:
            self._uploads -= 1


class FileWriter:
    """Hash and write a file in a thread, a batch at a time, while the next batch comes in.

    At most one batch is being written and one gathered, so memory does not grow with the file.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._digest = hashlib.sha256()
        self._batch: list[bytes | memoryview] = []
        self._writing: asyncio.Task[None] | None = None
        self.waiting = 0
        """Bytes that were gathered and not handed to the thread yet."""

    def add(self, piece: bytes | memoryview) -> None:
        """Gather a piece."""
        self._batch.append(piece)
        self.waiting += len(piece)

    async def flush(self) -> None:
        """Hand what was gathered to the thread, once its last batch is written.

        A batch that cannot be written raises here or in `finish`, see `storing`.
        """
        await self._written()
        batch, self._batch, self.waiting = self._batch, [], 0
        self._writing = asyncio.create_task(asyncio.to_thread(self._write, batch))

    async def finish(self) -> str:
        """Write the rest, and return the SHA-256 of the whole, in hexadecimal."""
        await self.flush()
        await self._written()
        return self._digest.hexdigest()

    async def settle(self) -> None:
        """Wait until the thread is done, whether it succeeds or not."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
            if not self._writing.cancelled():
                self._writing.exception()  # it has been seen

    async def _written(self) -> None:
        if self._writing is not None:
            await self._writing
            self._writing = None

    def _write(self, batch: list[bytes | memoryview]) -> None:
        for piece in batch:
            self._digest.update(piece)
            with storing():
                self._draft.write(piece)
