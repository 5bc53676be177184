"""`holdfast backup` and `holdfast restore`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import CARE, Database

if TYPE_CHECKING:
    from holdfast.backup import Manifest
    from holdfast.settings import Settings

APP = typer.Typer()
APPS = (APP,)
_DUMP = (
    "The database is not in it: it is PostgreSQL, so take it with pg_dump "
    "(docs/how-to/back-up-and-restore.md says how both fit together)."
)


@APP.command(rich_help_panel=CARE)
def backup(
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="A folder that is not there, or empty.")
    ],
    database: Database = None,
) -> int:
    """Copy the database and the files as one consistent set, while the service runs.

    The set has the database, the files below HOLDFAST_DATA_DIR, and a manifest with checksums.
    """
    from holdfast.backup import back_up
    from holdfast.cli.worker_setup import database_url

    settings = _settings()
    manifest = back_up(database_url(settings, database), settings.data_dir, target)
    print(f"Backed up to {target}: {_summary(manifest)}.")
    if not manifest.has_database:
        print(_DUMP)
    return 0


@APP.command(rich_help_panel=CARE)
def restore(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="The folder of the backup.")],
    database: Database = None,
) -> int:
    """Check every file of a backup and put it into HOLDFAST_DATA_DIR, which must be empty.

    Nothing is overwritten.
    """
    from holdfast import backup as copies
    from holdfast.cli.worker_setup import database_url

    settings = _settings()
    manifest = copies.restore(source, database_url(settings, database), settings.data_dir)
    print(f"Restored {source} to {settings.data_dir}: {_summary(manifest)}; all checksums match.")
    print(f"It is the state of {manifest.created_at}, written by Holdfast {manifest.holdfast}.")
    if manifest.has_database:
        print("Jobs that were running then run again when the service starts.")
    else:
        print("The database is not in it: restore the dump of PostgreSQL with pg_restore.")
    return 0


def _settings() -> "Settings":
    from holdfast.cli.worker_setup import set_up_log
    from holdfast.settings import Environment, Settings

    settings = Settings.load(Environment(os.environ))
    set_up_log(settings, os.environ)
    return settings


def _summary(manifest: "Manifest") -> str:
    files = "1 file" if manifest.files == 1 else f"{manifest.files} files"
    database = "the database and " if manifest.has_database else ""
    return f"{database}{files}, {manifest.bytes / 2**20:.1f} MB"
