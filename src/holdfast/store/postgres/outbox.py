"""The outbox and the inbox on PostgreSQL: see `holdfast.outbox.ports` and functions/outbox.sql."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from holdfast.jobs.callers_thread import in_callers_thread
from holdfast.outbox.handling import Release, RequestClaim
from holdfast.outbox.model import MessageClaim, MessageReport, NewMessage, RelayTick
from holdfast.store.joining import Joined, execute_now, join, join_and_execute
from holdfast.store.message_queries import MessageQueries, release_columns
from holdfast.store.postgres.connection import SQL, Database, Row
from holdfast.store.postgres.identity import DatabaseId, Identity
from holdfast.store.postgres.notify import OUTBOX, Notifier
from holdfast.store.text import clean_or_none

_SYSTEM = "postgresql"
_MISSING = ("3F000", "42883", "42P01", "42703")
"""The SQLSTATEs of an unknown schema, function, table and column."""


class PostgresOutbox(MessageQueries):
    """Implements `OutboxStore`, `InboxStore` and `HandlingStore`."""

    def __init__(self, database: Database, identity: Identity, notifier: Notifier) -> None:
        self._database = database
        self._identity = identity
        self._notifier = notifier

    async def _rows(self, query: str, **parameters: Any) -> list[Row]:
        return await self._database.rows(query, **parameters)

    async def _changed_rows(self, query: str, now: float | None, **parameters: Any) -> list[Row]:
        return await self._database.write(query, now=now, **parameters)

    def _now(self, now: float | None) -> float | None:
        return now

    def _wake_relays(self) -> None:
        self._notifier.messages.send()

    async def requeue(self, message_id: str, *, now: float | None = None) -> bool:
        """Make a failed message pending, and wake the relays of all processes."""
        done = await super().requeue(message_id, now=now)
        if done:
            await self._rows("notify", payload=OUTBOX)
        return done

    async def add_on(
        self, connection: object, messages: Sequence[NewMessage], *, now: float | None = None
    ) -> None:
        """Add `messages` inside the caller's transaction, in one round trip.

        Raises:
            TypeError: it is no connection to this database, or of a driver that is not known.
            NoTransaction: it commits every statement by itself.
        """
        own = await self._identity.own()
        if len(messages) == 1:
            given = {**_as_columns(messages[0]), "now": now}
            given |= {"server_start": own.server_start, "database": own.name}
            joined, rows = await self._execute_on(connection, "outbox_add_one", given)
            added = bool(rows)
        else:
            given = {**as_arrays(messages), "now": now, "system": own.system, "database": own.oid}
            joined, ((added,),) = await self._execute_on(connection, "outbox_add", given)
        if not added:
            await self._identity.check(joined)
            # The server was started again or replaced while the store was open, and is the
            # caller's all the same.
            await self.add_on(connection, messages, now=now)

    async def erase_on(self, connection: object, aggregate_ids: Sequence[str]) -> int:
        """Delete messages inside the caller's transaction."""
        joined = await in_callers_thread(lambda: join(connection))
        await self._identity.check(joined)
        return len(await joined.execute(SQL["outbox_erase"], {"aggregates": list(aggregate_ids)}))

    async def first_on(
        self, connection: object, consumer: str, request_id: str, *, now: float | None = None
    ) -> bool:
        """Record a request inside the caller's transaction."""
        given = _record(await self._identity.own(), consumer, request_id, now)
        joined, ((first,),) = await self._execute_on(connection, "inbox_first", given)
        if first is None:
            await self._identity.check(joined)
            # The server was replaced while the store was open, and is the caller's all the same.
            return await self.first_on(connection, consumer, request_id, now=now)
        return bool(first)

    def first_now(self, connection: object, consumer: str, request_id: str) -> bool | None:
        """Record a request inside the caller's transaction, in the calling thread."""
        own = self._identity.known
        if own is None:
            return None
        given = _record(own, consumer, request_id, None)
        with self._schema_errors():
            rows = execute_now(connection, SQL["inbox_first"], given, _SYSTEM)
        return rows[0][0] if rows else None

    async def _execute_on(
        self, connection: object, query: str, given: dict[str, Any]
    ) -> tuple[Joined, list[Row]]:
        """Run a statement of ours on the caller's connection."""
        with self._schema_errors():
            joined, rows = await join_and_execute(connection, SQL[query], given, _SYSTEM)
        if joined.database != _SYSTEM:
            await self._identity.check(joined)
        return joined, rows

    @contextmanager
    def _schema_errors(self) -> Iterator[None]:
        """Explain the error of a statement that did not find our schema on the connection."""
        try:
            yield
        except Exception as error:
            if not _is_missing(error):
                raise
            raise TypeError(
                f"connection= is one to another database than {self._database.where}, or to one "
                "with the schema of an older release"
            ) from error

    async def tick(
        self,
        reports: Sequence[MessageReport],
        limit: int,
        lease_seconds: float,
        *,
        now: float | None = None,
    ) -> RelayTick:
        """Write `reports` and claim the next messages, in one transaction."""
        mark = self._notifier.messages.count
        # In the order of ids, so that two relays that report one message cannot deadlock.
        ordered = sorted(reports, key=lambda report: report.id)
        found = await self._database.write(
            "outbox_tick",
            ids=[report.id for report in ordered],
            tokens=[report.token for report in ordered],
            statuses=[str(report.status) for report in ordered],
            errors=[clean_or_none(report.error) for report in ordered],
            delays=[float(report.delay) for report in ordered],
            limit=limit,
            seconds=float(lease_seconds),
            now=now,
        )
        refused, wake_in, *_ = found[0]
        claims = tuple(MessageClaim(*row[2:]) for row in map(tuple, found) if row[2] is not None)
        return RelayTick(claims, refused, wake_in, mark)

    async def extend(
        self, claims: Sequence[RequestClaim], lease_seconds: float, *, now: float | None = None
    ) -> None:
        """Let leases last longer, in one statement."""
        given = {
            "consumers": [claim.consumer for claim in claims],
            "request_ids": [claim.request_id for claim in claims],
            "tokens": [claim.token for claim in claims],
            "seconds": float(lease_seconds),
        }
        await self._changed_rows("handling_extend", now, **given)

    async def finish(self, claim: RequestClaim, *, now: float | None = None) -> bool:
        """Record a request as handled."""
        given = {"consumer": claim.consumer, "request_id": claim.request_id}
        return bool((await self._changed_rows("handling_finish", now, **given))[0][0])

    async def release(
        self,
        claim: RequestClaim,
        why: Release,
        messages: Sequence[NewMessage],
        *,
        now: float | None = None,
    ) -> bool:
        """End a delivery and add messages."""
        given = {**release_columns(claim, why), **as_arrays(messages)}
        done = bool((await self._changed_rows("handling_release", now, **given))[0][0])
        self._wake_relays()
        return done

    async def add(self, messages: Sequence[NewMessage], *, now: float | None = None) -> None:
        """Add messages."""
        await self._changed_rows("outbox_insert", now, **as_arrays(messages))
        self._wake_relays()

    async def wait_for_messages(self, mark: int, timeout: float) -> bool:
        """Wait until there may be messages since the tick that returned `mark`."""
        return await self._notifier.wait_for_messages(mark, timeout)


def _is_missing(error: Exception) -> bool:
    """Say whether the schema or a function was not found, by the error of any driver."""
    shown = (error, getattr(error, "orig", None), error.__cause__)
    return any(getattr(each, "sqlstate", None) in _MISSING for each in shown)


def _record(own: DatabaseId, consumer: str, request_id: str, now: float | None) -> dict[str, Any]:
    """Return the parameters of `inbox_first` on the database `own`."""
    given = {"consumer": consumer, "request_id": request_id, "now": now}
    return {**given, "server_start": own.server_start, "database": own.name}


def _as_columns(message: NewMessage) -> dict[str, Any]:
    """Return `message` as the parameters of `outbox_add_one`."""
    return {
        "id": message.id,
        "aggregate": message.aggregate_id,
        "type": message.message_type,
        "payload": message.payload,
        "headers": message.headers,
        "delay": float(message.delay),
    }


def as_arrays(messages: Sequence[NewMessage]) -> dict[str, list[Any]]:
    """Return `messages` as the array parameters of the function `insert_messages`."""
    return {
        "ids": [message.id for message in messages],
        "aggregates": [message.aggregate_id for message in messages],
        "types": [message.message_type for message in messages],
        "payloads": [message.payload for message in messages],
        "headers": [message.headers for message in messages],
        "delays": [float(message.delay) for message in messages],
    }
