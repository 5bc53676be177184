"""The outbox and the inbox on SQLite: see `holdfast.outbox.ports`."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, TypeVar

from holdfast.clock import Clock
from holdfast.jobs.callers_thread import in_callers_thread
from holdfast.outbox.handling import Release, RequestClaim
from holdfast.outbox.model import MessageClaim, MessageReport, NewMessage, RelayTick
from holdfast.store.message_queries import MessageQueries, release_columns
from holdfast.store.sqlite import clock_jumps
from holdfast.store.sqlite.enqueue import join
from holdfast.store.sqlite.read_pool import ReadPool
from holdfast.store.sqlite.transaction import SQL, Row, Transaction, as_json
from holdfast.store.sqlite.writer import Writer
from holdfast.store.text import clean_or_none

T = TypeVar("T")


class SQLiteOutbox(MessageQueries):
    """Implements `OutboxStore`, `InboxStore` and `HandlingStore`."""

    _writer: Writer
    _reads: ReadPool

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def attach(self, writer: Writer, reads: ReadPool) -> None:
        """Use these from now on: a store that is opened again has new ones."""
        self._writer = writer
        self._reads = reads

    async def _rows(self, query: str, **parameters: Any) -> list[Row]:
        return await self._reads.read(lambda view: view.rows(query, parameters))

    async def _changed_rows(self, query: str, now: float | None, **parameters: Any) -> list[Row]:
        return await self._write(lambda tx: tx.rows(query, {**parameters, "now": tx.now}), now)

    async def _write(self, work: Callable[[Transaction], T], now: float | None) -> T:
        def after_jumps(tx: Transaction) -> T:
            clock_jumps.follow(tx)
            return work(tx)

        value, _ = await asyncio.wrap_future(self._writer.submit(after_jumps, now))
        return value

    def _now(self, now: float | None) -> float:
        return self._clock.wall() if now is None else now

    def _wake_relays(self) -> None:
        self._writer.messages.increment()

    async def add_on(
        self, connection: object, messages: Sequence[NewMessage], *, now: float | None = None
    ) -> None:
        """Add `messages` inside the caller's transaction.

        Raises:
            TypeError: it is not an apsw connection to this file.
            NoTransaction: it has no open transaction.
        """
        await self._on(connection, "outbox_add", {"messages": as_parameter(messages)}, now)

    async def erase_on(self, connection: object, aggregate_ids: Sequence[str]) -> int:
        """Delete messages inside the caller's transaction."""
        given = {"aggregates": as_json(list(aggregate_ids))}
        return len(await self._on(connection, "outbox_erase", given, None))

    async def first_on(
        self, connection: object, consumer: str, request_id: str, *, now: float | None = None
    ) -> bool:
        """Record a request inside the caller's transaction."""
        return await in_callers_thread(lambda: self._first(connection, consumer, request_id, now))

    def first_now(self, connection: object, consumer: str, request_id: str) -> bool | None:
        """Record a request inside the caller's transaction, in the calling thread."""
        return self._first(connection, consumer, request_id, None)

    def _first(self, connection: object, consumer: str, request_id: str, now: float | None) -> bool:
        given = {"consumer": consumer, "request_id": request_id}
        self._execute(connection, "handling_end", given, now)
        return bool(self._execute(connection, "inbox_first", given, now))

    async def _on(
        self, connection: object, query: str, given: dict[str, Any], now: float | None
    ) -> Sequence[Row]:
        return await in_callers_thread(lambda: self._execute(connection, query, given, now))

    def _execute(
        self, connection: object, query: str, given: dict[str, Any], now: float | None
    ) -> Sequence[Row]:
        self._writer.check_open()
        self._writer.files.check()
        return join(self._path, connection)(SQL[query], {**given, "now": self._now(now)})

    async def tick(
        self,
        reports: Sequence[MessageReport],
        limit: int,
        lease_seconds: float,
        *,
        now: float | None = None,
    ) -> RelayTick:
        """Write `reports` and claim the next messages, in one transaction."""
        mark = self._writer.messages.count
        at = self._now(now)
        if not reports and not (await self._rows("outbox_any_ready", now=at))[0][0]:
            wake_in = (await self._rows("outbox_next_wait", now=at))[0][0]
            return RelayTick((), 0, wake_in, mark)

        def work(tx: Transaction) -> RelayTick:
            refused = sum(_report(tx, report) == 0 for report in reports)
            claims = _claim(tx, limit, lease_seconds) if limit else ()
            wake_in = tx.value("outbox_next_wait", {"now": tx.now})
            return RelayTick(claims, refused, wake_in, mark)

        return await self._write(work, now)

    async def extend(
        self, claims: Sequence[RequestClaim], lease_seconds: float, *, now: float | None = None
    ) -> None:
        """Let leases last longer."""

        def work(tx: Transaction) -> None:
            for claim in claims:
                given = {**_key(claim), "token": claim.token, "seconds": lease_seconds}
                tx.change("handling_extend", {**given, "now": tx.now})

        await self._write(work, now)

    async def finish(self, claim: RequestClaim, *, now: float | None = None) -> bool:
        """Record a request as handled."""

        def work(tx: Transaction) -> bool:
            tx.rows("handling_end", _key(claim))
            return bool(tx.rows("inbox_first", {**_key(claim), "now": tx.now}))

        return await self._write(work, now)

    async def release(
        self,
        claim: RequestClaim,
        why: Release,
        messages: Sequence[NewMessage],
        *,
        now: float | None = None,
    ) -> bool:
        """End a delivery and add messages."""

        def work(tx: Transaction) -> bool:
            if not tx.rows("handling_release", {**release_columns(claim, why), "now": tx.now}):
                return False
            _add(tx, messages)
            return True

        done = await self._write(work, now)
        self._wake_relays()
        return done

    async def add(self, messages: Sequence[NewMessage], *, now: float | None = None) -> None:
        """Add messages."""
        await self._write(lambda tx: _add(tx, messages), now)
        self._wake_relays()

    async def wait_for_messages(self, mark: int, timeout: float) -> bool:
        """Wait until there may be messages since the tick that returned `mark`."""
        self._writer.check_open()
        return await self._writer.messages.wait(mark, timeout)


def as_parameter(messages: Sequence[NewMessage]) -> str:
    """Return `messages` as the parameter of the statement `outbox_add`."""
    return as_json([astuple(message) for message in messages])


def _add(tx: Transaction, messages: Sequence[NewMessage]) -> None:
    tx.change("outbox_add", {"messages": as_parameter(messages), "now": tx.now})


def _key(claim: RequestClaim) -> dict[str, str]:
    return {"consumer": claim.consumer, "request_id": claim.request_id}


def _report(tx: Transaction, report: MessageReport) -> int:
    given = {
        "id": report.id,
        "token": report.token,
        "status": str(report.status),
        "error": clean_or_none(report.error),
        "delay": report.delay,
        "now": tx.now,
    }
    return tx.change("outbox_report", given)


def _claim(tx: Transaction, limit: int, lease_seconds: float) -> tuple[MessageClaim, ...]:
    tx.change("outbox_expire_claims", {"now": tx.now})
    tx.change("outbox_end_delays", {"now": tx.now})
    rows = tx.rows("outbox_claim", {"until": tx.now + lease_seconds, "limit": limit})
    return tuple(MessageClaim(*row) for row in sorted(rows))
