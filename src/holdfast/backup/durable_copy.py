"""Copy files so that they outlast a loss of power, and know their checksums."""

import hashlib
import os
from pathlib import Path

from holdfast.backup.manifest import Entry
from holdfast.files.durable import sync_folder

_PIECE = 1024 * 1024


def copy_file(source: Path, target: Path) -> Entry:
    """Copy a file to a new one, for its owner only, made durable; return what was copied."""
    digest, size = hashlib.sha256(), 0
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with source.open("rb") as reader, os.fdopen(fd, "wb") as writer:
        while piece := reader.read(_PIECE):
            digest.update(piece)
            size += len(piece)
            writer.write(piece)
        writer.flush()
        os.fsync(fd)
    return Entry(size, digest.hexdigest())


def describe(path: Path) -> Entry:
    """Return the size and checksum of a file, and make it durable."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
        return Entry(file.tell(), digest)


def write_text(path: Path, text: str) -> None:
    """Write a new file, made durable."""
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync_folders(folder: Path) -> None:
    """Make the names in `folder` and all folders below it durable."""
    for place, _, _ in os.walk(folder):
        sync_folder(Path(place))
