"""The limits of owners in one claim, read under a lock that one claim at a time has."""

from collections import defaultdict
from collections.abc import Iterable

from holdfast.jobs.downstreams.claim_permits import RateSpent
from holdfast.jobs.owner_limits import STARTS_KEPT, OwnerLimits, OwnerRooms, load_limits
from holdfast.store.postgres.connection import Connection, rows


class ClaimOwners:
    """How many more jobs of each owner a claim may start; `rooms` counts.

    Attributes:
        full: owners of whom no job may start.
    """

    def __init__(
        self, connection: Connection, default: OwnerLimits, now: float, running: dict[str, int]
    ) -> None:
        self._connection = connection
        self._default = default
        self._running = running
        self.rooms = OwnerRooms(now)
        self.full: set[str] = set()

    @classmethod
    async def locked(
        cls, connection: Connection, default: OwnerLimits, now: float
    ) -> "ClaimOwners":
        """Wait until no other claim counts owners, and return them."""
        await rows(connection, "claim_lock_owners")
        running = dict(map(tuple, await rows(connection, "claim_running_by_owner")))
        found = cls(connection, default, now, running)
        await found.look_up(running)
        return found

    async def look_up(self, owners: Iterable[str]) -> None:
        """Read the limits of `owners`; those without room are `full` from then on."""
        named = set(owners)
        new = sorted(owner for owner in named if not self.rooms.knows(owner))
        if new:
            stored = await rows(self._connection, "claim_limits_of_owners", owners=new)
            own = {owner: load_limits(*rest) for owner, *rest in stored}
            limits = {owner: own.get(owner, self._default) for owner in new}
            spent = await self._spent([owner for owner in new if limits[owner].rate])
            for owner in new:
                running = self._running.get(owner, 0)
                self.rooms.add(owner, limits[owner], running, spent[owner])
        self.full.update(owner for owner in named if self.rooms.room(owner) == 0)

    async def _spent(self, owners: list[str]) -> defaultdict[str, list[RateSpent]]:
        spent: defaultdict[str, list[RateSpent]] = defaultdict(list)
        if owners:
            for owner, *slot in await rows(self._connection, "claim_owner_spent", owners=owners):
                spent[owner].append(RateSpent(*slot))
        return spent

    def start(self, owners: Iterable[str | None]) -> None:
        """Count one started job of each of `owners`; None is no owner."""
        started = [owner for owner in owners if owner is not None]
        self.rooms.start(started)
        self.full.update(owner for owner in started if self.rooms.room(owner) == 0)

    async def save(self) -> None:
        """Store the starts that rates count."""
        lines = self.rooms.spending()
        if lines:
            owners, widths, buckets, spent, oldest = zip(*lines, strict=True)
            slots = {"owners": owners, "widths": widths}
            given = {**slots, "buckets": buckets, "spent": spent, "now": self.rooms.now}
            await rows(self._connection, "claim_owner_spend", **given)
            await rows(self._connection, "claim_owner_forget_spent", **slots, oldest=oldest)
            age = {"now": self.rooms.now, "kept": STARTS_KEPT}
            await rows(self._connection, "claim_owner_trim", **age)
