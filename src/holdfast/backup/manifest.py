"""What a backup holds, as its `manifest.json` says."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast.errors import ErrorCode, HoldfastError

MANIFEST = "manifest.json"
DATABASE = "database.db"
DATA = "data"
"""The folder of what lies in the data folder beside the database."""
FORMAT = 1
"""The form of a backup; one that this release does not know is refused."""


class BackupError(HoldfastError):
    """A backup cannot be made, read or restored; the message is one line for people."""

    code = ErrorCode.IO_ERROR


class BackupDamaged(BackupError):
    """A backup is not as it was written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a backup: its size in bytes and its SHA-256 in hex."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup holds.

    Args:
        created_at: when the copied state was that of the service, ISO 8601 in UTC.
        holdfast: the version of Holdfast that wrote it.
        schema: the version of the database's schema; None where the database is not in it.
        entries: every file, by its name below the backup's folder.
    """

    created_at: str
    holdfast: str
    schema: int | None
    entries: Mapping[str, Entry]

    @property
    def has_database(self) -> bool:
        """Whether the database is in it."""
        return DATABASE in self.entries

    @property
    def files(self) -> int:
        """How many files of apps are in it."""
        return sum(name.startswith(f"{DATA}/files/") for name in self.entries)

    @property
    def bytes(self) -> int:
        """How large all of it is."""
        return sum(entry.bytes for entry in self.entries.values())

    def as_json(self) -> str:
        """Return the text of `manifest.json`."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Return the manifest of the backup in `folder`.

        Raises:
            BackupError: it is no backup, or of a release that this one does not know.
            BackupDamaged: the manifest cannot be understood.
        """
        try:
            text = (folder / MANIFEST).read_text("utf-8")
        except OSError:
            raise BackupError(f"{folder} is not a backup: it has no {MANIFEST}") from None
        try:
            found = json.loads(text)
            if found["format"] != FORMAT:
                raise BackupError(
                    f"{folder} was written by Holdfast {found['holdfast']}, in a form that this "
                    "release cannot read: use a newer one"
                )
            return cls(
                str(found["created_at"]),
                str(found["holdfast"]),
                found["schema"],
                {_checked(name): _entry(entry) for name, entry in found["entries"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise BackupDamaged(f"{folder}/{MANIFEST} is damaged") from None


def _entry(found: Any) -> Entry:
    return Entry(int(found["bytes"]), str(found["sha256"]))


def _checked(name: str) -> str:
    """Return a name, which leads nowhere but below the folder of the backup."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or path.parts[0] not in {DATA, DATABASE}:
        raise ValueError(name)
    return name
