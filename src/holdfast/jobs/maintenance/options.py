"""How often maintenance does each of its tasks."""

from dataclasses import dataclass

from holdfast.resilience import checks


@dataclass(frozen=True, slots=True)
class MaintenanceOptions:
    """How often each chore is done. All times are seconds.

    Args:
        lead_seconds: how long the leadership lasts unless it is renewed; a third of it passes
            between two renewals.
        rescue_every: between two looks for leases that have run out.
        deadlines_every: between two looks for deadlines that have passed.
        retention_every: between two rounds of deleting finished jobs.
        probes_every: between two looks for open downstreams that declare a probe.
    """

    lead_seconds: float = 30.0
    rescue_every: float = 5.0
    deadlines_every: float = 60.0
    retention_every: float = 60.0
    probes_every: float = 1.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            checks.number(name, getattr(self, name), above=0)
