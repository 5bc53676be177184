"""How the commands that run jobs work, from the settings."""

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.settings import BadSetting, Settings

FILES = "files"
"""The folder below the data directory that apps keep files in."""

_COLLECTIONS = (10_000, 20, 50)
"""How many more objects there may be before Python looks for circles among the young, and how many
such looks before it looks among the older ones and among all; by default 700, 10 and 10."""


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python look for circles of objects that nobody holds more rarely.

    A worker has thousands of jobs in its hands, which are no such circles, and would be made to go
    through them all again and again: a tenth of what it does for a job that does nothing. In a
    program of somebody else's that is not for us to decide, nor where an app has said it to be
    rarer still, or never.
    """
    before = gc.get_threshold()
    if 0 < before[0] < _COLLECTIONS[0]:
        gc.set_threshold(*_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def worker_options(settings: Settings, concurrency: int | None = None) -> WorkerOptions:
    """Return how a worker is to work; `concurrency` goes before the settings'."""
    chores, lease = MaintenanceOptions(), settings.lease_seconds
    return WorkerOptions(
        concurrency=settings.concurrency if concurrency is None else concurrency,
        lease_seconds=lease,
        extend_every=settings.extend_every,
        # Who sets short leases wants a dead worker's jobs soon; a dead leader must not be waited
        # for longer than they are.
        maintenance=MaintenanceOptions(
            lead_seconds=min(chores.lead_seconds, lease),
            rescue_every=min(chores.rescue_every, lease / 2),
        ),
    )


def database_address(settings: Settings, named: str | None = None) -> str:
    """Return the database's address; a folder is made for the default one alone.

    Any other must be there, lest a typo make a new one. `named` goes before the settings'.

    Raises:
        BadSetting: the folder cannot be made or used.
    """
    named = named or settings.database_url
    if named is not None:
        return named
    prepare_data_dir(settings.data_dir)
    return f"sqlite:///{quote(str(settings.data_dir / 'holdfast.db'))}"


def prepare_data_dir(folder: Path) -> None:
    """Make the folder that data are kept in where it is not there.

    Raises:
        BadSetting: it cannot be made, is none, or cannot be written to.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise _unusable(folder, "it is no folder") from None
    except OSError as error:
        raise _unusable(folder, error.strerror or str(error)) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unusable(folder, "it cannot be written to")
    # Apps keep theirs below it; they would find out when the server has half started.
    files = folder / FILES
    if os.path.lexists(files) and not files.is_dir():
        raise _unusable(folder, f"{files} is no folder")


def _unusable(folder: Path, reason: str) -> BadSetting:
    return BadSetting(f"HOLDFAST_DATA_DIR {str(folder)!r} cannot be used: {reason}")
