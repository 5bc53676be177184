"""Write a backup while the service runs."""

import secrets
import shutil
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from holdfast import bootstrap
from holdfast.backup.durable_copy import (
    copy_file,
    describe,
    sync_folders,
    write_text,
)
from holdfast.backup.manifest import DATA, DATABASE, MANIFEST, BackupError, Entry, Manifest
from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.files.durable import sync_folder
from holdfast.files.snapshot import FileSnapshot

FILES = "files"
"""The folder below the data folder in which apps keep files."""
_SECRETS = ("secret.key", "admin.token")
"""Files of the data folder without which a restored server would ask everyone to log in again."""


def back_up(url: str, data_dir: Path, target: Path, *, clock: Clock = SYSTEM_CLOCK) -> Manifest:
    """Write the state of the service to the new folder `target`; it may run meanwhile.

    Args:
        url: the database's address. One that is not a file is left out, which the manifest says.
        data_dir: the data folder.
        target: a folder that is not there, or empty.
        clock: the time of the backup.

    Returns:
        What is in the backup.

    Raises:
        BackupError: the target is not empty, or something could not be read or written.
        StoreError: the database cannot be read.
    """
    target = target.absolute()
    _check_target(target, data_dir)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.mkdir(mode=0o700, parents=True)
        try:
            manifest = _write(url, data_dir, partial, clock)
            partial.rename(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        sync_folder(target.parent)
    except OSError as error:
        raise BackupError(f"the backup could not be written: {error}") from error
    return manifest


def _check_target(target: Path, data_dir: Path) -> None:
    files = data_dir.absolute() / FILES
    if target == files or files in target.parents:
        raise BackupError(f"{target} is in the folder that is to be copied; choose another place")
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise BackupError(f"{target} is there already and is not an empty folder")


def _write(url: str, data_dir: Path, folder: Path, clock: Clock) -> Manifest:
    database = bootstrap.database_file(url)
    entries: dict[str, Entry] = {}
    schema: int | None = None
    with FileSnapshot(data_dir / FILES) as files:
        # Most files now, so that those waiting to write wait only for the few new ones.
        files.take()
        created_at = datetime.fromtimestamp(clock.wall(), UTC)
        if database is not None:
            with database.opened():
                with database.frozen():
                    files.take()
                schema = database.copy(folder / DATABASE)
            entries[DATABASE] = describe(folder / DATABASE)
        for name, path in files.files():
            entries[f"{DATA}/{FILES}/{name}"] = copy_file(path, folder / DATA / FILES / name)
    for name in _SECRETS:
        if (data_dir / name).is_file():
            entries[f"{DATA}/{name}"] = copy_file(data_dir / name, folder / DATA / name)
    manifest = Manifest(created_at.isoformat(), version("holdfast"), schema, entries)
    write_text(folder / MANIFEST, manifest.as_json())
    sync_folders(folder)
    return manifest
