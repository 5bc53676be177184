"""Which jobs with the same dedup key count as twins."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DedupRule:
    """Narrow which jobs with the same key count; without a rule unfinished and complete ones do.

    The key belongs to one job at a time. A job that does not count loses it to the new one.

    Args:
        unfinished: only unfinished jobs count.
        seconds: only jobs that were created within so many seconds count; None: of any age.
    """

    unfinished: bool = False
    seconds: float | None = None
