"""Detect that a database was deleted or replaced while it was open.

SQLite goes on with the open files, and a process that opens the database later finds none of what
was committed to them. So each write and each read checks before it is acknowledged.
"""

import os
from pathlib import Path

from holdfast.jobs.store_port import StoreUnusable

_File = tuple[int, int]


class FileIdentity:
    """Device and inode of the database and its log, compared with what their names mean now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, _File] = {}

    def record(self) -> None:
        """Remember the files that were just opened.

        Raises:
            StoreUnusable: one is gone already.
        """
        # Absolute, as in SQLite: the process may change its working directory.
        path = os.path.abspath(self._path)  # noqa: PTH100 - a str, which is quicker to look up
        try:
            self._files = {name: _file_at(name) for name in (path, f"{path}-wal")}
        except OSError as error:
            raise _gone(path) from error

    def check(self) -> None:
        """Refuse to go on with files that were deleted or replaced; costs two `stat` calls.

        Raises:
            StoreUnusable: they were.
        """
        for name, file in self._files.items():
            try:
                if _file_at(name) == file:
                    continue
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError:
                continue  # unknown at the moment; if it matters, SQLite fails too
            raise _gone(name)


def _gone(name: str) -> StoreUnusable:
    return StoreUnusable(
        f"{name}: the file was deleted, moved or replaced while it was open; stop everything that "
        "has it open, put it back, and start again"
    )


def _file_at(name: str) -> _File:
    # By name, and never by a descriptor: closing one would release SQLite's locks on the file.
    found = os.stat(name)  # noqa: PTH116 - a str, which is quicker to look up
    return found.st_dev, found.st_ino
