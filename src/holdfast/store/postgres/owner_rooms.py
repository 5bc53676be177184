"""The limits of owners in one claim, read under a lock that one claim at a time has."""

import json
from collections import defaultdict
from collections.abc import Iterable

from holdfast.jobs.downstreams.claim_permits import RateSpent
from holdfast.jobs.owner_limits import (
    STARTS_KEPT,
    OwnerLimits,
    RemainingStarts,
    default_for,
    load_limits,
)
from holdfast.store.postgres.connection import Connection, rows


class ClaimOwners:
    """How many more jobs of each owner a claim may start; `starts` counts.

    Only owners with ready jobs are looked up, so only they say when to claim again.
    """

    def __init__(
        self, connection: Connection, default: OwnerLimits, now: float, running: dict[str, int]
    ) -> None:
        self._connection = connection
        self._default = default
        self._running = running
        self._left_out: set[str] = set()
        self.starts = RemainingStarts(now)

    @classmethod
    async def locked(
        cls, connection: Connection, default: OwnerLimits, now: float
    ) -> "ClaimOwners":
        """Wait until no other claim counts owners, and return them."""
        await rows(connection, "claim_lock_owners")
        running = dict(map(tuple, await rows(connection, "claim_running_by_owner")))
        return cls(connection, default, now, running)

    async def look_up(self, owners: Iterable[str]) -> None:
        """Read the limits of those of `owners` who are not known yet."""
        new = sorted({owner for owner in owners if not self.starts.knows(owner)})
        if not new:
            return
        stored = await rows(self._connection, "claim_limits_of_owners", owners=new)
        own = {owner: load_limits(*rest) for owner, *rest in stored}
        limits = {owner: own.get(owner, default_for(owner, self._default)) for owner in new}
        spent = await self._spent([owner for owner in new if limits[owner].rate])
        for owner in new:
            self.starts.add(owner, limits[owner], self._running.get(owner, 0), spent[owner])

    def remaining(self, owner: str) -> int:
        """Return how many more jobs of a known owner this claim may take."""
        return 0 if owner in self._left_out else self.starts.remaining(owner)

    def remaining_json(self) -> str:
        """Return how many more jobs of each known owner may start, as a JSON object."""
        known = self._left_out.union(self.starts.owners())
        return json.dumps({owner: self.remaining(owner) for owner in known})

    def leave_out(self, owners: Iterable[str]) -> None:
        """Take no jobs of `owners`: other transactions have locked those that wait."""
        self._left_out.update(owners)

    async def _spent(self, owners: list[str]) -> defaultdict[str, list[RateSpent]]:
        spent: defaultdict[str, list[RateSpent]] = defaultdict(list)
        if owners:
            for owner, *slot in await rows(self._connection, "claim_owner_spent", owners=owners):
                spent[owner].append(RateSpent(*slot))
        return spent

    async def save(self) -> None:
        """Store the starts that rates count."""
        lines = self.starts.spending()
        if lines:
            owners, widths, buckets, spent, oldest = zip(*lines, strict=True)
            slots = {"owners": owners, "widths": widths}
            given = {**slots, "buckets": buckets, "spent": spent, "now": self.starts.now}
            await rows(self._connection, "claim_owner_spend", **given)
            await rows(self._connection, "claim_owner_forget_spent", **slots, oldest=oldest)
            age = {"now": self.starts.now, "kept": STARTS_KEPT}
            await rows(self._connection, "claim_owner_trim", **age)
