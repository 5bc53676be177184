"""What a store does to keep new work out: it remembers that operators have paused the intake."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class IntakePause:
    """The intake is paused: why, in a line for people, and since when in epoch seconds."""

    reason: str
    paused_at: float


class IntakeStore(Protocol):
    """Keep whether the intake is paused, for all processes."""

    async def pause_intake(self, reason: str, *, now: float | None = None) -> IntakePause:
        """Pause the intake; one that is paused keeps its time and gets the new reason."""
        ...

    async def resume_intake(self) -> bool:
        """End the pause; False if there was none."""
        ...

    async def intake_pause(self) -> IntakePause | None:
        """Return the pause; None while there is none."""
        ...
