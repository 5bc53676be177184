"""The outbox and the inbox on PostgreSQL: see `holdfast.outbox.ports` and functions/outbox.sql."""

from collections.abc import Sequence
from typing import Any

from holdfast.jobs.callers_thread import in_callers_thread
from holdfast.outbox.model import MessageClaim, MessageReport, NewMessage, RelayTick
from holdfast.store.joining import Joined, join
from holdfast.store.message_queries import MessageQueries
from holdfast.store.postgres.connection import SQL, Database, Row
from holdfast.store.postgres.identity import Identity
from holdfast.store.postgres.notify import OUTBOX, Notifier
from holdfast.store.text import clean_or_none


class PostgresOutbox(MessageQueries):
    """Implements `OutboxStore` and `InboxStore`."""

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
        joined = await self._joined(connection)
        system, database = await self._identity.own()
        given = {
            "ids": [message.id for message in messages],
            "aggregates": [message.aggregate_id for message in messages],
            "types": [message.message_type for message in messages],
            "payloads": [message.payload for message in messages],
            "system": system,
            "database": database,
            "now": now,
        }
        (added,) = (await joined.execute(SQL["outbox_add"], given))[0]
        if not added:
            await self._identity.check(joined)
            # The server was replaced while the store was open, and is the caller's all the same.
            await self.add_on(connection, messages, now=now)

    async def first_on(
        self, connection: object, consumer: str, request_id: str, *, now: float | None = None
    ) -> bool:
        """Record a request inside the caller's transaction."""
        joined = await self._joined(connection)
        await self._identity.check(joined)
        given = {"consumer": consumer, "request_id": request_id, "now": now}
        return bool(await joined.execute(SQL["inbox_first"], given))

    async def _joined(self, connection: object) -> Joined:
        joined = await in_callers_thread(lambda: join(connection))
        if joined.database != "postgresql":
            await self._identity.check(joined)
        return joined

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

    async def wait_for_messages(self, mark: int, timeout: float) -> bool:
        """Wait until there may be messages since the tick that returned `mark`."""
        return await self._notifier.wait_for_messages(mark, timeout)
