"""Local files, written under another name, made durable, then renamed.

A draft is locked from its creation until it is closed, also after it was published. So cleanup can
tell a file whose row is still to be written from one whose process has died: the system releases
a dead process's locks. A disk that is full or broken is an `OSError`.
"""

import contextlib
import fcntl
import os
import re
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Self

from holdfast.files.durable import sync_folder
from holdfast.files.snapshot import delete_abandoned

_NAME = re.compile(r"[a-z]{1,20}/[A-Za-z0-9][A-Za-z0-9._:~-]{0,199}")
_DRAFTS = ".drafts"
_AHEAD = 8 * 1024 * 1024
"""Bytes that are written before they are made durable, so that the end need not wait for all."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file as it is listed: its `name`, `size` in bytes, `modified_at` in epoch seconds."""

    name: str
    size: int
    modified_at: float


class Draft:
    """A file that is being written. Closing it without publishing it deletes it.

    Threads may use it one after the other, and close it under one that still writes: that one then
    gets an error, and never writes to another file.
    """

    def __init__(self, store: "ArtifactStore", path: Path, fd: int) -> None:
        self._store = store
        self._path: Path | None = path
        self._fd = fd
        self._lock = threading.Lock()
        self._durable = 0
        self.size = 0
        """Bytes written so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append `data`, all of it."""
        rest = memoryview(data)
        with self._lock:
            while rest:
                written = os.write(self._fd, rest)
                self.size += written
                rest = rest[written:]
            if self.size - self._durable >= _AHEAD:
                os.fdatasync(self._fd)
                self._durable = self.size

    def publish(self, name: str) -> None:
        """Let it appear under `name`, whole and durable; after an error nothing has appeared."""
        target = self._store.path(name)
        with self._lock:
            if self._path is None:
                raise ValueError(f"the draft of {name!r} was published or closed before")
            os.fsync(self._fd)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.rename(target)
            self._path = None
            try:
                sync_folder(target.parent)
            except OSError:
                with contextlib.suppress(OSError):
                    target.unlink()
                raise

    def close(self) -> None:
        """Release it, and delete it unless it was published. Closing twice is harmless."""
        with self._lock:
            if self._fd < 0:
                return
            if self._path is not None:
                with contextlib.suppress(OSError):
                    self._path.unlink()
                self._path = None
            os.close(self._fd)
            self._fd = -1


class ArtifactStore:
    """Files below `root`, named `folder/name`. Every method blocks; use threads from async code."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def prepare(self) -> None:
        """Create the folder, for its owner only, and delete what dead processes left."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.root / _DRAFTS).mkdir(mode=0o700, exist_ok=True)
        self.sweep_drafts()

    def path(self, name: str) -> Path:
        """Return where `name` lies.

        Raises:
            ValueError: it is no `folder/name` of letters, digits and `._:~-`.
        """
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"an artifact is called folder/name, got {name[:100]!r}")
        return self.root / name

    def draft(self) -> Draft:
        """Begin to write a file."""
        folder = self.root / _DRAFTS
        while True:
            path = folder / secrets.token_hex(16)
            fd = _created(path)
            if _locked(fd, fcntl.LOCK_EX) and _is_at(fd, path):
                return Draft(self, path, fd)
            # A cleanup took it for abandoned in the moment before it was locked.
            os.close(fd)
            with contextlib.suppress(OSError):
                path.unlink()

    def open(self, name: str) -> BufferedReader:
        """Open a file for reading.

        Raises:
            FileNotFoundError: there is none.
        """
        return self.path(name).open("rb")

    def find(self, name: str) -> Artifact | None:
        """Return what is known of a file, or None where there is none."""
        try:
            found = self.path(name).stat()
        except FileNotFoundError:
            return None
        return Artifact(name, found.st_size, found.st_mtime)

    def list(self, folder: str) -> Iterator[Artifact]:
        """Yield the files of a folder, in no order."""
        try:
            entries = os.scandir(self.root / folder)
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                name = f"{folder}/{entry.name}"
                if _NAME.fullmatch(name) is not None and (found := self.find(name)) is not None:
                    yield found

    def is_held(self, name: str) -> bool:
        """Say whether the process that wrote the file still holds its draft."""
        try:
            with self.open(name) as file:
                return not _locked(file.fileno(), fcntl.LOCK_SH)
        except FileNotFoundError:
            return False

    def delete(self, name: str) -> bool:
        """Delete a file; False where there was none."""
        try:
            self.path(name).unlink()
        except FileNotFoundError:
            return False
        return True

    def sweep_drafts(self) -> int:
        """Delete the drafts of processes that have died; return how many there were.

        The links of a backup that was killed are deleted too.
        """
        delete_abandoned(self.root)
        count = 0
        for path in (self.root / _DRAFTS).glob("*"):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                if _locked(file.fileno(), fcntl.LOCK_EX):
                    path.unlink()
                    count += 1
        return count


def _created(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, flags, 0o600)


def _locked(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(fd: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
