"""`holdfast backup` and `holdfast restore`."""

import os
from pathlib import Path

from holdfast.backup import Manifest, back_up, restore
from holdfast.cli.worker_setup import database_url, set_up_log
from holdfast.settings import Environment, Settings

_DUMP = (
    "The database is not in it: it is PostgreSQL, so take it with pg_dump "
    "(docs/how-to/back-up-and-restore.md says how both fit together)."
)


def write_backup(target: str, database: str | None = None) -> int:
    """Write a backup to the folder `target` while the service runs; return the exit code."""
    settings = _settings()
    manifest = back_up(database_url(settings, database), settings.data_dir, Path(target))
    print(f"Backed up to {target}: {_summary(manifest)}.")
    if not manifest.has_database:
        print(_DUMP)
    return 0


def restore_backup(source: str, database: str | None = None) -> int:
    """Put the backup in `source` into the empty data folder; return the exit code."""
    settings = _settings()
    url = database_url(settings, database)
    manifest = restore(Path(source), url, settings.data_dir)
    print(f"Restored {source} to {settings.data_dir}: {_summary(manifest)}; all checksums match.")
    print(f"It is the state of {manifest.created_at}, written by Holdfast {manifest.holdfast}.")
    if manifest.has_database:
        print("Jobs that were running then run again when the service starts.")
    else:
        print("The database is not in it: restore the dump of PostgreSQL with pg_restore.")
    return 0


def _settings() -> Settings:
    settings = Settings.load(Environment(os.environ))
    set_up_log(settings, os.environ)
    return settings


def _summary(manifest: Manifest) -> str:
    files = "1 file" if manifest.files == 1 else f"{manifest.files} files"
    database = "the database and " if manifest.has_database else ""
    return f"{database}{files}, {manifest.bytes / 2**20:.1f} MB"
