"""How the commands that run jobs work, from the settings."""

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
