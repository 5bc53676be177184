"""Options, database and garbage collection of the commands that run jobs or a relay."""

import contextlib
import gc
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from holdfast.bootstrap import BadReference, load_reference, open_store
from holdfast.cli.usage import NoDatabase, one_line
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.traceback_text import Redact
from holdfast.settings import BadSetting, Settings, unknown_names
from holdfast.telemetry.logging import set_up_logging

_log = logging.getLogger("holdfast.settings")

FILES = "files"
"""The folder below the data directory that apps keep files in."""

_COLLECTIONS = (10_000, 20, 50)
"""Thresholds of the garbage collector's three generations; Python's defaults are 700, 10 and 10."""


def set_up_log(
    settings: Settings, environment: Mapping[str, str], level: int = logging.INFO
) -> None:
    """Set up the log of a command; warn of settings that do not exist, such as misspelt ones.

    Called after the apps are imported: an app that configures logging itself is left alone.
    """
    set_up_logging(settings.log_format, level=level)
    for line in unknown_names(environment):
        _log.warning("%s", line)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Run the garbage collector less often.

    A worker holds thousands of jobs, and a relay hundreds of messages, that are not reference
    cycles; scanning them again and again costs a tenth of the time of a job that does nothing, and
    a twentieth of that of a message. Only our own commands change this, and not where an app has
    already made collections rarer or turned them off.
    """
    before = gc.get_threshold()
    if 0 < before[0] < _COLLECTIONS[0]:
        gc.set_threshold(*_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def worker_options(settings: Settings, concurrency: int | None = None) -> WorkerOptions:
    """Return how a worker is to work; `concurrency` overrides the settings."""
    defaults, lease = MaintenanceOptions(), settings.lease_seconds
    return WorkerOptions(
        concurrency=settings.concurrency if concurrency is None else concurrency,
        lease_seconds=lease,
        extend_every=settings.extend_every,
        shutdown_seconds=settings.shutdown_seconds,
        tracebacks=_tracebacks(settings.tracebacks),
        # Short leases mean that a dead worker's jobs are wanted soon, so a dead leader must be
        # replaced within a lease too.
        maintenance=MaintenanceOptions(
            lead_seconds=min(defaults.lead_seconds, lease),
            rescue_every=min(defaults.rescue_every, lease / 2),
        ),
    )


def _tracebacks(choice: str) -> bool | Redact:
    if choice in {"on", "off"}:
        return choice == "on"
    name = "HOLDFAST_TRACEBACKS"
    try:
        found = load_reference(choice, name)
    except BadReference as error:
        raise BadSetting(str(error)) from None
    except (Exception, SystemExit) as error:
        raise BadSetting(f"{name} {choice!r} cannot be imported: {one_line(error)}") from error
    if not callable(found):
        raise BadSetting(f"{name}: there is no function {choice!r}")
    redact: Redact = found
    return redact


def database_address(settings: Settings, named: str | None = None) -> str:
    """Return the database's URL; the folder of the default database is created.

    Any other must exist, so that a typo creates no new one. `named` overrides the settings.

    Raises:
        BadSetting: the folder cannot be created or used.
    """
    if not (named or settings.database_url):
        prepare_data_dir(settings.data_dir)
    return database_url(settings, named)


def existing_database(settings: Settings, named: str | None = None) -> str:
    """Return the URL of a database that exists; nothing is created.

    Raises:
        NoDatabase: it is a file that is not there.
    """
    url = database_url(settings, named)
    path: Path | None = getattr(open_store(url), "path", None)
    if path is not None and not path.exists():
        raise NoDatabase(
            f"there is no database {str(path)!r}; name yours with --database, "
            f"HOLDFAST_DATABASE_URL or HOLDFAST_DATA_DIR"
        )
    return url


def database_url(settings: Settings, named: str | None = None) -> str:
    """Return the database's URL and create nothing; `named` overrides the settings."""
    default = f"sqlite:///{quote(str(settings.data_dir / 'holdfast.db'))}"
    return named or settings.database_url or default


def prepare_data_dir(folder: Path) -> None:
    """Create the data folder if it is missing.

    Raises:
        BadSetting: it cannot be created, is not a folder, or is not writable.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise _unusable(folder, "it is not a folder") from None
    except OSError as error:
        raise _unusable(folder, error.strerror or str(error)) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unusable(folder, "it cannot be written to")
    # Apps keep their files below it; find out before the server has half started.
    files = folder / FILES
    if os.path.lexists(files) and not files.is_dir():
        raise _unusable(folder, f"{files} is not a folder")


def _unusable(folder: Path, reason: str) -> BadSetting:
    return BadSetting(f"HOLDFAST_DATA_DIR {str(folder)!r} cannot be used: {reason}")
