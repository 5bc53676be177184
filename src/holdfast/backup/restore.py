"""Put a backup into an empty data folder."""

import os
import secrets
import shutil
from pathlib import Path

from holdfast import bootstrap
from holdfast.backup.durable_copy import copy_file, describe, sync_folders
from holdfast.backup.manifest import DATA, DATABASE, BackupDamaged, BackupError, Manifest
from holdfast.files.durable import sync_folder


def restore(source: Path, url: str, data_dir: Path) -> Manifest:
    """Put the backup in `source` into `data_dir`, and its database where `url` says.

    Nothing that is there is overwritten, and nothing appears before every checksum was right.
    Jobs that ran when the backup was made are claimed again as if their workers had died.

    Returns:
        What was restored.

    Raises:
        BackupError: something is there already, or could not be read or written.
        BackupDamaged: a file of the backup is missing or is not as it was written.
    """
    manifest = Manifest.read(source)
    database = _database(url, manifest)
    _check_empty(data_dir, database)
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        suffix = f".restore-{secrets.token_hex(4)}"
        staging = data_dir / suffix
        beside = None if database is None else database.with_name(f"{database.name}{suffix}")
        try:
            _copy(source, staging, beside, manifest)
            _publish(staging, data_dir)
            if database is not None and beside is not None:
                _publish_database(beside, database)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            if beside is not None:
                beside.unlink(missing_ok=True)
    except OSError as error:
        raise BackupError(f"the backup could not be restored: {error}") from error
    return manifest


def _database(url: str, manifest: Manifest) -> Path | None:
    """Return where the backup's database goes; None where it holds none."""
    file = bootstrap.database_file(url)
    if not manifest.has_database:
        return None
    if file is None:
        raise BackupError(
            "the backup holds a database file, which cannot be put into a database server; "
            "name a file with --database, or leave HOLDFAST_DATABASE_URL out"
        )
    return file.path


def _check_empty(data_dir: Path, database: Path | None) -> None:
    if data_dir.exists() and not (data_dir.is_dir() and not any(data_dir.iterdir())):
        raise BackupError(
            f"{data_dir} is not empty, and nothing is overwritten: move it away, or let "
            "HOLDFAST_DATA_DIR name another folder"
        )
    for suffix in ("", "-wal", "-journal"):
        if database is not None and os.path.lexists(f"{database}{suffix}"):
            raise BackupError(f"{database}{suffix} is there already, and nothing is overwritten")


def _copy(source: Path, staging: Path, database: Path | None, manifest: Manifest) -> None:
    for name, expected in manifest.entries.items():
        target = database if name == DATABASE and database is not None else staging / name
        try:
            found = copy_file(source / name, target)
        except FileNotFoundError:
            raise BackupDamaged(f"the backup is damaged: {name} is missing") from None
        if found != expected:
            raise BackupDamaged(f"the backup is damaged: {name} is not as it was written")


def _publish(staging: Path, data_dir: Path) -> None:
    data = staging / DATA
    if data.is_dir():
        sync_folders(data)
        for path in data.iterdir():
            path.rename(data_dir / path.name)
        sync_folder(data_dir)


def _publish_database(copied: Path, database: Path) -> None:
    """Let the database appear, after the files: before, nothing is taken for a service."""
    bootstrap.end_leases(copied)
    describe(copied)  # which makes it durable
    # A link is made only where nothing has that name; a rename would overwrite it.
    os.link(copied, database)
    sync_folder(database.parent)
