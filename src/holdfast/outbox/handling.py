"""Handle a request in one delivery at a time, however often its message comes.

A delivery begins by claiming its request for the length of a lease, which counts as an attempt: a
request whose worker dies each time runs out of attempts like any other. While the lease lasts,
other deliveries of the request are refused. A delivery ends in one of three ways:

- `finish` records the request in the inbox; it is never begun again.
- `release` adds a message to the outbox that replaces the one it was started by: after a delay, for
  the next attempt, or for the dead-letter queue. The request's *round* rises with it, so a copy of
  the old message that is delivered again is stale. Both happen in one transaction: after a crash
  either the old message or the new one is valid, never none.
- It dies, and its lease expires: whichever delivery comes next claims the request.

A person who requeues a dead letter raises the round too, and the request has a fresh budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.ids import new_ids
from holdfast.outbox.client import checked_name, drafted_message, traced
from holdfast.outbox.model import MessageDraft, NewMessage
from holdfast.trace_port import Tracing


class StartState(StrEnum):
    """Whether a delivery may run."""

    CLAIMED = "claimed"
    """It may: the request is its own until the lease expires."""
    RUNNING = "running"
    """Another delivery of the request runs, or has died and still has its lease."""
    STALE = "stale"
    """Another message has replaced this one, or the request is in the dead letters."""
    HANDLED = "handled"
    """The request was finished before."""


class Release(StrEnum):
    """Why a delivery ends without a result."""

    RETRY = "retry"
    """It failed and is tried again."""
    HOLD = "hold"
    """It did not run, so its attempt does not count; it comes again."""
    DEAD = "dead"
    """It is not tried again without a person."""


@dataclass(frozen=True, slots=True)
class RequestClaim:
    """A request that one delivery may handle, under the fencing `token` of its lease.

    Attributes:
        consumer: who handles it.
        round: of the message that it was started by.
        attempt: from 1; counts since the request was new or requeued by a person.
    """

    consumer: str
    request_id: str
    round: int
    attempt: int
    token: int


@dataclass(frozen=True, slots=True)
class RequestStart:
    """The answer to a delivery.

    Attributes:
        claim: set if it may run.
        wait: seconds until the lease of the running delivery expires; 0 if none runs.
    """

    state: StartState
    claim: RequestClaim | None = None
    wait: float = 0.0


class HandlingStore(Protocol):
    """Keep the requests that were begun. Each method is one transaction; see `OutboxStore`."""

    async def begin(
        self,
        consumer: str,
        request_id: str,
        round_: int,
        lease_seconds: float,
        *,
        now: float | None = None,
    ) -> RequestStart:
        """Claim a request for a delivery of a message of `round_`."""
        ...

    async def extend(
        self, claims: Sequence[RequestClaim], lease_seconds: float, *, now: float | None = None
    ) -> None:
        """Let the leases of `claims` last until `lease_seconds` from now; lost ones stay lost."""
        ...

    async def finish(self, claim: RequestClaim, *, now: float | None = None) -> bool:
        """Record a request as handled; False if another delivery has done so."""
        ...

    async def release(
        self,
        claim: RequestClaim,
        why: Release,
        messages: Sequence[NewMessage],
        *,
        now: float | None = None,
    ) -> bool:
        """End a delivery and add `messages`; False, and neither, if the claim was lost."""
        ...

    async def add(self, messages: Sequence[NewMessage], *, now: float | None = None) -> None:
        """Add `messages` to the outbox in a transaction of their own."""
        ...


class Handling:
    """Begin, finish and release requests; `engine.handling`."""

    def __init__(self, store: HandlingStore, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._clock = clock
        self.tracing: Tracing | None = None

    async def begin(
        self, consumer: str, request_id: str, *, round_: int = 0, lease_seconds: float = 30.0
    ) -> RequestStart:
        """Claim a request for one delivery; the attempt counts from now on.

        Args:
            consumer: who handles it: consumers with different names handle a request each.
            round_: of the message; see this module.
            lease_seconds: after which another delivery may take over, unless it is extended.

        Raises:
            BadMessage: the name or the id cannot be stored.
        """
        names = checked_name("consumer", consumer), checked_name("request_id", request_id)
        return await self._store.begin(*names, round_, lease_seconds)

    async def extend(self, claims: Sequence[RequestClaim], lease_seconds: float) -> None:
        """Let the leases of `claims` last until `lease_seconds` from now."""
        await self._store.extend(claims, lease_seconds)

    async def finish(self, claim: RequestClaim) -> bool:
        """Record a request as handled; False if another delivery has done so."""
        return await self._store.finish(claim)

    async def release(
        self, claim: RequestClaim, why: Release, messages: Sequence[MessageDraft]
    ) -> bool:
        """End a delivery without a result and add `messages`, in one transaction.

        False, and nothing is added, if the claim was lost: its lease has expired and another
        delivery has taken over, or a crash of the database server has forgotten it.

        Raises:
            BadMessage: a message cannot be stored.
        """
        return await self._store.release(claim, why, self._new(messages))

    async def add(self, messages: Sequence[MessageDraft]) -> None:
        """Add `messages` to the outbox in a transaction of their own.

        Raises:
            BadMessage: a message cannot be stored.
        """
        new = self._new(messages)
        if self.tracing is not None and new:
            with self.tracing.sending(new[0].message_type, len(new)) as headers:
                await self._store.add(traced(new, headers))
        else:
            await self._store.add(new)

    def _new(self, messages: Sequence[MessageDraft]) -> list[NewMessage]:
        ids = new_ids(len(messages), self._clock.wall())
        return [
            drafted_message(identifier, draft)
            for identifier, draft in zip(ids, messages, strict=True)
        ]
