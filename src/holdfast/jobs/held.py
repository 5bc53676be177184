"""What holds a job."""

from enum import StrEnum


class HeldBy(StrEnum):
    """What holds a queued job that is due."""

    QUEUE = "queue"
    """Its queue is paused."""
    KIND = "kind"
    """Its kind is paused."""
    DOWNSTREAM = "downstream"
    """Its downstream's breaker is open, or a person holds it."""
