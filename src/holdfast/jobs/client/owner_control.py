"""Limits of owners: look at them, change them, and refuse what would exceed them."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from holdfast.clock import Clock
from holdfast.errors import ErrorCode, HoldfastError
from holdfast.jobs.declare.registry import Registry
from holdfast.jobs.exceptions import TooManyJobs
from holdfast.jobs.operations_port import AuditEntry
from holdfast.jobs.owner_limits import NO_LIMITS, OwnerLimits, default_for
from holdfast.jobs.owner_locks import OwnerLocks
from holdfast.jobs.owner_port import LimitedOwner
from holdfast.jobs.store_port import Store
from holdfast.resilience import checks

_KNOWN_FOR = 1.0
"""Seconds for which an engine remembers that no owner has limits of its own."""

_NEAR = 1000
"""Jobs below the limit at which a single one is counted again where it is created: that takes a
lock, and time for each unfinished job."""
MOST_COUNTED = 10_000
"""Unfinished jobs at which `OwnerControl.use` stops counting."""
_TURN_WAIT = 10.0
"""Seconds for which a block waits for its turn. Blocks take some ten milliseconds each, so a longer
wait means a store or a disk that does not answer: a request must not wait for each before it."""
_Counting = aclosing[AsyncGenerator[int, None]]
_MOST_PARTS = 20
"""Numbers of an app's `stored_bytes` at which `OwnerControl.use` stops adding."""


class StorageExceeded(HoldfastError):
    """What an owner brings does not fit into its storage; it was not taken in.

    Attributes:
        owner: whose storage it is.
        limit: how many bytes it may have.
        used: how many it has at least.
    """

    code = ErrorCode.STORAGE_EXCEEDED

    def __init__(self, owner: str, limit: int, used: int) -> None:
        super().__init__(f"owner {owner!r} may store {limit} bytes, and has stored at least {used}")
        self.owner = owner
        self.limit = limit
        self.used = used


@dataclass(frozen=True, slots=True)
class OwnerUse:
    """What an owner may use, and what it uses now.

    Args:
        owner: its name.
        limits: those that hold for it.
        own: whether they are its own; otherwise they are those of every owner.
        running: jobs that run.
        unfinished: jobs that are not finished, running ones included; 10,000 stands for that many
            or more.
        stored: bytes that each app keeps of it, by the app's name.
        stored_complete: False if the apps keep more than was counted, because counting ended after
            20 numbers of an app's `stored_bytes`: 10,000 uploads, or 10,000 submissions.
    """

    owner: str
    limits: OwnerLimits
    own: bool
    running: int
    unfinished: int
    stored: Mapping[str, int] = field(default_factory=dict)
    stored_complete: bool = True

    @property
    def more_unfinished(self) -> bool:
        """Whether it may have more unfinished jobs than were counted."""
        return self.unfinished >= MOST_COUNTED

    @property
    def stored_bytes(self) -> int:
        """Bytes that all apps together keep of it."""
        return sum(self.stored.values())


class OwnerControl:
    """Look at and change limits of owners; jobs without an owner have none.

    An owner's own limits replace the default as a whole. They are stored and hold for the whole
    fleet: for claims at once, for what is enqueued within a second.

    Args:
        default: the limits of owners without limits of their own.
        engine: what the apps' `stored_bytes` are called with.
    """

    def __init__(
        self, store: Store, registry: Registry, clock: Clock, default: OwnerLimits, engine: Any
    ) -> None:
        checks.instance("owner_limits", default, OwnerLimits)
        self.default = default
        self._store = store
        self._registry = registry
        self._clock = clock
        self._engine = engine
        self._none_until = 0.0
        self._turns = OwnerLocks(seconds=_TURN_WAIT)

    async def limits(self, owner: str) -> OwnerLimits:
        """Return the limits that hold for `owner`."""
        checks.label("owner", owner)
        found = await self._store.owner_limits(owner)
        return default_for(owner, self.default) if found is None else found

    async def set_limits(
        self, owner: str, limits: OwnerLimits, *, entry: AuditEntry | None = None
    ) -> None:
        """Give `owner` limits of its own, in place of all that held for it.

        Running jobs go on, also if there are more than the new limit allows.

        Args:
            owner: whose limits they are.
            limits: what it may use.
            entry: of `engine.audit.entry`, is written to the audit log in the same transaction.
        """
        checks.label("owner", owner)
        checks.instance("limits", limits, OwnerLimits)
        await self._store.set_owner_limits(owner, limits, entry=entry)
        self._none_until = 0.0

    async def clear_limits(self, owner: str, *, entry: AuditEntry | None = None) -> bool:
        """Delete the owner's own limits, so that the default holds; False if it had none.

        `entry` as in `set_limits`.
        """
        checks.label("owner", owner)
        return await self._store.clear_owner_limits(owner, entry=entry)

    async def forget(self, owner: str) -> None:
        """Delete the owner's own limits and what rates have counted of it; jobs and data stay."""
        await self.clear_limits(owner)
        await self._store.forget_owner_starts(owner)

    async def list(self, *, after: str = "", limit: int = 100) -> tuple[LimitedOwner, ...]:
        """Return up to `limit` owners with limits of their own, by name, those behind `after`."""
        return await self._store.limited_owners(after=after, limit=limit)

    async def use(self, owner: str) -> OwnerUse:
        """Return what `owner` may use, and what it uses now."""
        checks.label("owner", owner)
        found = await self._store.owner_limits(owner)
        stored = {name: await _first_parts(each) for name, each in self._countings(owner)}
        return OwnerUse(
            owner,
            limits=default_for(owner, self.default) if found is None else found,
            own=found is not None,
            running=await self._store.running_jobs(owner),
            unfinished=await self._store.unfinished_jobs(owner, at_most=MOST_COUNTED),
            stored={name: count for name, (count, _) in stored.items()},
            stored_complete=all(complete for _, complete in stored.values()),
        )

    @asynccontextmanager
    async def turn(self, owner: str | None) -> AsyncIterator[None]:
        """Hold a lock of `owner` in this engine, for a check of its limits and what it permits.

        So a check sees what the blocks before it have kept; other processes have locks of their
        own. Owners without limits of jobs or storage are not locked. A block takes no other turn.

        Raises:
            StoreBusy: the blocks before it take more than 10 s.
        """
        limits = await self._limits_at_intake(owner)
        if owner is None or (limits.waiting is None and limits.storage_bytes is None):
            yield
            return
        async with self._turns.hold([owner]):
            yield

    async def check_storage(self, owner: str | None, more: int) -> None:
        """Refuse `more` bytes of `owner` where its storage has no room for them.

        Apps call it before they keep something, in one `turn` with that: calls at the same moment
        do not see each other's bytes.

        Raises:
            StorageExceeded: there is no room.
        """
        limits = await self._limits_at_intake(owner)
        if owner is None or limits.storage_bytes is None:
            return
        room = limits.storage_bytes - more
        used = await self._stored(owner, enough=room)
        if used > room:
            raise StorageExceeded(owner, limits.storage_bytes, used)

    async def check_jobs(self, owner: str | None, more: int = 1) -> int | None:
        """Refuse `more` jobs of `owner` where it would have more unfinished ones than it may.

        Returns the limit where it is near, or where there are several: calls at the same moment do
        not see each other's jobs and may exceed it together, so `engine.enqueue` counts again where
        it creates them.

        Raises:
            TooManyJobs: there is no room.
        """
        most = (await self._limits_at_intake(owner)).waiting
        if owner is None or most is None:
            return None
        count = await self._store.unfinished_jobs(owner, at_most=most) + more
        if count > most:
            raise TooManyJobs(owner, most)
        return most if more > 1 or count > most - _NEAR else None

    async def _limits_at_intake(self, owner: str | None) -> OwnerLimits:
        """Return the limits of `owner`; without asking the store while no owner has its own."""
        if owner is None:
            return NO_LIMITS
        now = self._clock.monotonic()
        if now < self._none_until:
            return default_for(owner, self.default)
        if not await self._store.limited_owners(limit=1):
            self._none_until = now + _KNOWN_FOR
            return default_for(owner, self.default)
        return await self.limits(owner)

    async def _stored(self, owner: str, enough: int) -> int:
        """Return how many bytes all apps keep of `owner`; stop counting beyond `enough`."""
        used = 0
        for _, counting in self._countings(owner):
            async with counting as parts:
                async for part in parts:
                    used += part
                    if used > enough:
                        return used
        return used

    def _countings(self, owner: str) -> Iterator[tuple[str, _Counting]]:
        """Yield each app that says what it keeps, and what counts the bytes of `owner` there."""
        for app in self._registry.apps:
            if app.stored_bytes is not None:
                yield app.name, aclosing(app.stored_bytes(self._engine, owner))


async def _first_parts(counting: _Counting) -> tuple[int, bool]:
    """Return the sum of the first parts that an app keeps of an owner, and whether it is all."""
    used = count = 0
    async with counting as parts:
        async for part in parts:
            if count == _MOST_PARTS:
                return used, False
            used += part
            count += 1
    return used, True
