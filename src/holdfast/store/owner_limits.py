"""Limits of owners: both stores have statements of the same names and columns."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence

from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.model import Enqueued, NewJob
from holdfast.jobs.operations_port import AuditEntry
from holdfast.jobs.owner_limits import OwnerLimits, dump_rate, load_limits
from holdfast.jobs.owner_port import LimitedOwner
from holdfast.store.operations import audit_change
from holdfast.store.statements import Statements


def limits_to_check(
    jobs: Sequence[NewJob], answers: Sequence[Enqueued], most: Mapping[str, int]
) -> list[tuple[str, int]]:
    """Return the limits in `most` of owners who got at least one new job."""
    created = {job.owner for job, answer in zip(jobs, answers, strict=True) if answer.created}
    return [(owner, limit) for owner, limit in most.items() if owner in created]


class StoredOwnerLimits(Statements):
    """A store's limits of owners, but for how it runs a statement; see `OwnerStore`."""

    @abstractmethod
    def _now(self, now: float | None) -> float | None:
        """Return the time for a statement that reads."""

    async def set_owner_limits(
        self, owner: str, limits: OwnerLimits, *, entry: AuditEntry | None = None
    ) -> None:
        """Store the limits of `owner`, and `entry` with them."""
        given = {
            "owner": owner, "concurrency": limits.concurrency, "rate": dump_rate(limits.rate),
            "waiting": limits.waiting, "storage_bytes": limits.storage_bytes,
        }  # fmt: skip
        await self._changed_together(("owner_set", given), *audit_change(entry))

    async def clear_owner_limits(self, owner: str, *, entry: AuditEntry | None = None) -> bool:
        """Delete the limits of `owner`, and store `entry` with that."""
        cleared, *_ = await self._changed_together(
            ("owner_clear", {"owner": owner}), *audit_change(entry)
        )
        return bool(cleared)

    async def forget_owner_starts(self, owner: str) -> None:
        """Delete what rates have counted of `owner`."""
        await self._changed_rows("owner_forget_starts", None, owner=owner)

    async def owner_limits(self, owner: str) -> OwnerLimits | None:
        """Return the limits of `owner`."""
        found = await self._rows("owner_get", owner=owner)
        return load_limits(*found[0]) if found else None

    async def limited_owners(
        self, *, after: str = "", limit: int = 100
    ) -> tuple[LimitedOwner, ...]:
        """Return owners with limits of their own, by name."""
        rows = await self._rows("owner_list", after=after, limit=limit)
        return tuple(LimitedOwner(owner, load_limits(*rest)) for owner, *rest in rows)

    async def running_jobs(self, owner: str) -> int:
        """Count the jobs of `owner` that run."""
        ((count,),) = await self._rows("owner_running", owner=owner)
        return int(count)

    async def unfinished_jobs(self, owner: str, *, at_most: int) -> int:
        """Count the unfinished jobs of `owner`."""
        ((count,),) = await self._rows("owner_unfinished", owner=owner, most=at_most)
        return int(count)

    async def repeated_jobs(
        self, jobs: Sequence[NewJob], *, now: float | None = None
    ) -> tuple[bool, ...]:
        """Say of each of `jobs` whether it is there already."""
        rows = []
        for job in jobs:
            rule = job.dedup_rule or DedupRule()
            rows.append([job.id, job.kind, job.dedup_key, rule.unfinished, rule.seconds])
        found = await self._rows("enqueue_repeated", jobs=json.dumps(rows), now=self._now(now))
        places = {place for (place,) in found}
        return tuple(place in places for place in range(len(jobs)))
