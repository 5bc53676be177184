"""What a store does for the limits of owners; the claim enforces two of them, see `OwnerLimits`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.jobs.model import NewJob
from holdfast.jobs.operations_port import AuditEntry
from holdfast.jobs.owner_limits import OwnerLimits


@dataclass(frozen=True, slots=True)
class LimitedOwner:
    """An owner with limits of its own."""

    owner: str
    limits: OwnerLimits


class OwnerStore(Protocol):
    """Keep limits of owners, and count their jobs."""

    async def set_owner_limits(
        self, owner: str, limits: OwnerLimits, *, entry: AuditEntry | None = None
    ) -> None:
        """Store the limits of `owner`, in place of those that it has.

        `entry` is appended to the audit log in the same transaction.
        """
        ...

    async def clear_owner_limits(self, owner: str, *, entry: AuditEntry | None = None) -> bool:
        """Delete the limits of `owner`; False if it had none. What rates have counted stays.

        `entry` is appended to the audit log in the same transaction, in both cases.
        """
        ...

    async def forget_owner_starts(self, owner: str) -> None:
        """Delete what rates have counted of `owner`."""
        ...

    async def owner_limits(self, owner: str) -> OwnerLimits | None:
        """Return the limits of `owner`; None if it has none of its own."""
        ...

    async def limited_owners(
        self, *, after: str = "", limit: int = 100
    ) -> tuple[LimitedOwner, ...]:
        """Return up to `limit` owners with limits of their own, by name, those behind `after`."""
        ...

    async def running_jobs(self, owner: str) -> int:
        """Count the jobs of `owner` that run; the cost grows with the running jobs of all."""
        ...

    async def unfinished_jobs(self, owner: str, *, at_most: int) -> int:
        """Count the unfinished jobs of `owner`, running ones included, and stop at `at_most`.

        The cost grows with this number, not with that of the jobs.
        """
        ...

    async def repeated_jobs(
        self, jobs: Sequence[NewJob], *, now: float | None = None
    ) -> tuple[bool, ...]:
        """Say of each of `jobs` whether enqueueing would answer it with a job that is stored.

        By its id, and by its dedup key and rule; whether `jobs` repeat each other does not matter.
        """
        ...
