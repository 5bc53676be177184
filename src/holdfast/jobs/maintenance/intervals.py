"""How often each maintenance service runs."""

from dataclasses import dataclass

from holdfast.resilience import checks


@dataclass(frozen=True, slots=True)
class MaintenanceOptions:
    """Intervals of the maintenance services, in seconds.

    Args:
        lead_seconds: how long the leadership lasts unless renewed; renewed after a third of it.
        compete_every: between two tries of others to take it over from a leader that is dead.
        rescue_every: between two searches for dead workers and expired leases.
        deadlines_every: between two searches for passed deadlines.
        retention_every: between two deletions of finished jobs, and of other old records.
        probes_every: between two searches for open downstreams with a probe.
        kinds_every: between two searches for waiting kinds that no worker knows.
        webhooks_every: between two looks for ends of jobs that webhooks are notified of.
        marks_every: between two copies of the counters, for rates of the last hour and day.
    """

    lead_seconds: float = 30.0
    compete_every: float = 1.0
    rescue_every: float = 1.0
    deadlines_every: float = 60.0
    retention_every: float = 60.0
    probes_every: float = 1.0
    kinds_every: float = 10.0
    webhooks_every: float = 1.0
    marks_every: float = 300.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            checks.number(name, getattr(self, name), above=0)
