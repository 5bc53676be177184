"""Notice that a database was deleted or replaced while it was open.

SQLite goes on with the files it has open, and so would every promise made on them: whoever opens
the database next finds nothing of it.
"""

import os
from pathlib import Path

from holdfast.jobs.store_port import StoreUnusable

_File = tuple[int, int]


class Presence:
    """Whether the names of the database and its log still mean the files that are open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, _File] = {}

    def learn(self) -> None:
        """Remember what the names mean now: the files that were just opened.

        Raises:
            StoreUnusable: one is gone already.
        """
        # As SQLite does: a process may change its folder.
        path = os.path.abspath(self._path)  # noqa: PTH100 - a plain name, for it is looked up often
        try:
            self._files = {name: _file_at(name) for name in (path, f"{path}-wal")}
        except OSError as error:
            raise _gone(path) from error

    def check(self) -> None:
        """Refuse to go on where they mean others; costs two looks into the file system.

        Raises:
            StoreUnusable: they do.
        """
        for name, file in self._files.items():
            try:
                if _file_at(name) == file:
                    continue
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError:
                continue  # it cannot be told now; should it matter, SQLite will say so
            raise _gone(name)


def _gone(name: str) -> StoreUnusable:
    return StoreUnusable(
        f"{name}: the file was deleted, moved or replaced while it was open; stop everything that "
        "has it open, put it back, and start again"
    )


def _file_at(name: str) -> _File:
    found = os.stat(name)  # noqa: PTH116 - a plain name, for it is looked up often
    return found.st_dev, found.st_ino
