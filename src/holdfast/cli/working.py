"""How the commands that run jobs work, from the settings."""

from urllib.parse import quote

from holdfast.jobs.options import MaintenanceOptions, WorkerOptions
from holdfast.settings import Settings


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
    """
    named = named or settings.database_url
    if named is not None:
        return named
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{quote(str(settings.data_dir / 'holdfast.db'))}"
