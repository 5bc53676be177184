"""Backups: the database and the files of a data folder as one consistent set.

A backup is a folder:

    manifest.json   what it holds: every file with its size and SHA-256, versions, and when
    database.db     the database, where it is a file
    data/           what else lies in the data folder: `files/`, and the secrets of the server

It is consistent because the files are fixed while no transaction can commit: a file is always there
before the row that names it, and deleted after the row has said that it is not needed any more. It
is written under another name, made durable, then renamed: what has the name of a backup is whole.
"""

from holdfast.backup.back_up import back_up
from holdfast.backup.manifest import BackupDamaged, BackupError, Manifest
from holdfast.backup.restore import restore

__all__ = ["BackupDamaged", "BackupError", "Manifest", "back_up", "restore"]
