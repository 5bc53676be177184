"""Keep every file of an artifact store as it is now, for a backup, while others delete theirs.

A file never changes once it is there, so a hard link keeps it: that takes no room and no time to
speak of. The links lie below the store's own folder, since a link cannot leave its file system.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Self

_SNAPSHOTS = ".snapshots"


class SnapshotBusy(OSError):
    """Another snapshot of the same folder is being kept."""


class FileSnapshot:
    """The files below `root` at the moment of the last `take`, and those of earlier ones.

    Use it with `with`: at the end the links are removed. There is one at a time for each folder.
    Every method blocks.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / _SNAPSHOTS / secrets.token_hex(16)
        self._lock = -1
        self._seen: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock >= 0:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1

    def take(self) -> None:
        """Keep the files that are there now; a folder that is not there has none.

        Raises:
            SnapshotBusy: another snapshot of this folder is being kept.
            OSError: the file system has no hard links, or the folder cannot be read.
        """
        if self._lock < 0 and not self._begin():
            return
        for name in _names(self._root):
            # Remembered, since looking at each link would take long while others wait.
            if name not in self._seen:
                self._seen.add(name)
                link = self._folder / name
                link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                # One that was deleted just now belongs to nothing that is still wanted.
                with contextlib.suppress(FileNotFoundError):
                    os.link(self._root / name, link)

    def _begin(self) -> bool:
        """Lock the place of the links, and say whether there is a folder to look at."""
        if not self._root.is_dir():
            return False
        place = self._folder.parent
        place.mkdir(mode=0o700, exist_ok=True)
        try:
            self._lock = _lock(place)
        except BlockingIOError:
            raise SnapshotBusy(f"another backup of {self._root} is running") from None
        _empty(place)
        self._folder.mkdir(mode=0o700)
        return True

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield what is kept: each file's name below the store's folder, and where it lies."""
        if self._lock >= 0:
            for name in sorted(_names(self._folder)):
                yield name, self._folder / name


def _names(folder: Path) -> Iterator[str]:
    """Yield the files of all folders below `folder` except hidden ones."""
    for place, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".")]
        below = Path(place).relative_to(folder).as_posix()
        prefix = "" if below == "." else f"{below}/"
        for file in files:
            yield f"{prefix}{file}"


def delete_abandoned(root: Path) -> None:
    """Delete the links that a process left which died before its snapshot was at an end."""
    place = root / _SNAPSHOTS
    if place.is_dir() and any(place.iterdir()):
        with contextlib.suppress(BlockingIOError):
            lock = _lock(place)
            try:
                _empty(place)
            finally:
                os.close(lock)


def _empty(place: Path) -> None:
    for path in place.iterdir():
        shutil.rmtree(path, ignore_errors=True)


def _lock(folder: Path) -> int:
    """Lock a folder; the system releases it when the process ends, however it does."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd
