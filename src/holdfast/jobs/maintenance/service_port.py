"""The protocol of a maintenance service."""

from typing import Protocol


class MaintenanceService(Protocol):
    """A periodic task that the leader runs."""

    @property
    def name(self) -> str:
        """Its name in events and logs."""
        ...

    @property
    def interval(self) -> float:
        """Seconds between two rounds."""
        ...

    async def round(self) -> int:
        """Do all pending work and return how many jobs or records were handled."""
        ...
