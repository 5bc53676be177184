"""What every maintenance service is."""

from typing import Protocol


class Service(Protocol):
    """A chore that is done again and again.

    Attributes:
        name: what it is called in events and logs.
        interval: seconds between two rounds.
    """

    @property
    def name(self) -> str:
        """What it is called in events and logs."""
        ...

    @property
    def interval(self) -> float:
        """Seconds between two rounds."""
        ...

    async def round(self) -> int:
        """Do what there is to do, to the end, and return how many things were handled."""
        ...
