"""Messages and handled requests: both stores have statements of the same names and columns."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from holdfast.outbox.handling import Release, RequestClaim, RequestStart, StartState
from holdfast.outbox.model import (
    COUNTED_AT_MOST,
    Backlog,
    MessagePage,
    MessageStatus,
    OutboxMessage,
)
from holdfast.store.row_mapping import Row

_CURSOR = re.compile(r"[0-9a-f]{32}")
_NEWEST = "~"
"""After every id."""


class MessageQueries(ABC):
    """A store's outbox and inbox, but for how it runs a statement; see `holdfast.outbox.ports`."""

    @abstractmethod
    async def _rows(self, query: str, **parameters: Any) -> Sequence[Row]:
        """Run the named `query` and return its rows."""

    @abstractmethod
    async def _changed_rows(
        self, query: str, now: float | None, **parameters: Any
    ) -> Sequence[Row]:
        """Run the named `query`, which writes, and return its rows."""

    @abstractmethod
    def _now(self, now: float | None) -> float | None:
        """Return the time to ask for; None lets the database use its own."""

    @abstractmethod
    def _wake_relays(self) -> None:
        """Wake the relays of this process: a message can be claimed."""

    async def get(self, message_id: str) -> OutboxMessage | None:
        """Return one message."""
        rows = await self._rows("outbox_get", id=message_id)
        return _message(rows[0]) if rows else None

    async def list(
        self, status: MessageStatus | None = None, *, cursor: str | None = None, limit: int = 50
    ) -> MessagePage:
        """Return messages, newest first."""
        if cursor is not None and not _CURSOR.fullmatch(cursor):
            raise ValueError(f"not a cursor of this list: {cursor!r}")
        query = "outbox_list" if status is None else f"outbox_list_{status}"
        rows = await self._rows(query, before=cursor or _NEWEST, limit=limit + 1)
        found = tuple(_message(row) for row in rows[:limit])
        return MessagePage(found, found[-1].id if len(rows) > limit else None)

    async def requeue(self, message_id: str, *, now: float | None = None) -> bool:
        """Make a failed message pending."""
        done = bool(await self._changed_rows("outbox_requeue", now, id=message_id))
        if done:
            self._wake_relays()
        return done

    async def discard(self, message_id: str) -> bool:
        """Delete a failed message."""
        return bool(await self._changed_rows("outbox_discard", None, id=message_id))

    async def backlog(self, *, now: float | None = None) -> Backlog:
        """Return how much waits, and for how long."""
        given = {"most": COUNTED_AT_MOST, "now": self._now(now)}
        ready, waiting, failed, lag = (await self._rows("outbox_backlog", **given))[0]
        return Backlog(min(ready + waiting, COUNTED_AT_MOST), failed, max(0.0, lag or 0.0))

    async def delete_published(
        self, max_age: float, *, limit: int = 500, now: float | None = None
    ) -> int:
        """Delete messages that were published long ago."""
        given = {"max_age": float(max_age), "limit": limit}
        return len(await self._changed_rows("outbox_delete_published", now, **given))

    async def handled(self, consumer: str, request_id: str) -> bool:
        """Say whether a request is recorded."""
        given = {"consumer": consumer, "request_id": request_id}
        return bool(await self._rows("inbox_handled", **given))

    async def delete_handled(
        self, max_age: float, *, limit: int = 500, now: float | None = None
    ) -> int:
        """Delete old records of requests, both of handled ones and of those that were given up."""
        given = {"max_age": float(max_age), "limit": limit}
        handled = await self._changed_rows("inbox_delete", now, **given)
        begun = await self._changed_rows("handling_delete", now, **given)
        return len(handled) + len(begun)

    async def begin(
        self,
        consumer: str,
        request_id: str,
        round_: int,
        lease_seconds: float,
        *,
        now: float | None = None,
    ) -> RequestStart:
        """Claim a request for a delivery."""
        request = {"consumer": consumer, "request_id": request_id}
        given = {**request, "round": round_, "seconds": float(lease_seconds)}
        claimed = await self._changed_rows("handling_begin", now, **given)
        if claimed:
            attempt, token = claimed[0]
            claim = RequestClaim(consumer, request_id, round_, attempt, token)
            return RequestStart(StartState.CLAIMED, claim)
        if await self.handled(consumer, request_id):
            return RequestStart(StartState.HANDLED)
        rows = await self._rows("handling_get", **request, now=self._now(now))
        if not rows:  # ended between the two statements
            return RequestStart(StartState.RUNNING)
        known_round, dead, wait = rows[0]
        if round_ < known_round or (round_ == known_round and dead):
            return RequestStart(StartState.STALE)
        return RequestStart(StartState.RUNNING, wait=max(0.0, wait or 0.0))


def release_columns(claim: RequestClaim, why: Release) -> dict[str, Any]:
    """Return what ending a delivery changes, as parameters of the statement `handling_release`.

    A dead letter is of the same round: only a person raises it.
    """
    dead = why is Release.DEAD
    return {
        "consumer": claim.consumer,
        "request_id": claim.request_id,
        "token": claim.token,
        "replaced": int(not dead),
        "uncounted": int(why is Release.HOLD),
        "dead": dead,
    }


def _message(row: Row) -> OutboxMessage:
    identifier, aggregate_id, message_type, payload, status, *rest = row
    return OutboxMessage(
        identifier, aggregate_id, message_type, payload, MessageStatus(status), *rest
    )
