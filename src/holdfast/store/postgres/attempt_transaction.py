"""The transaction of a handler, which also completes its job."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from holdfast.jobs.exceptions import ContextError, LostLease
from holdfast.jobs.model import Completed, Finished, Lease
from holdfast.jobs.store_port import Overruled, Refused, StoreError, TickResult
from holdfast.jobs.worker.threads import HandlerThreads
from holdfast.store.block_statements import NEEDS_ASYNC, BlockStatements
from holdfast.store.lent_connection import LentConnection
from holdfast.store.postgres.app_database import PostgresDatabase
from holdfast.store.postgres.columns import TIMEOUT_COLUMNS
from holdfast.store.postgres.connection import SQL, Database
from holdfast.store.postgres.enqueue import enqueue_joined
from holdfast.store.postgres.finish import OVERRULINGS, REFUSALS
from holdfast.store.postgres.handler_connections import HandlerConnections
from holdfast.store.postgres.identity import Identity
from holdfast.store.postgres.lanes import Lanes
from holdfast.store.postgres.tick import Ticker
from holdfast.store.text import clean_or_none

_log = logging.getLogger("holdfast.store")

_ENDED = (
    "the transaction was ended before the handler returned; the worker commits it, with the "
    "completion of the job. If the handler closes its connection itself, give ctx.transaction() "
    "the function that opens it instead, such as a sessionmaker or a pool's acquire"
)
_NEEDS_BLOCKING = (
    "the store's own connection is one of asyncpg, which a handler that is not async cannot use: "
    "give ctx.transaction() a psycopg connection, an SQLAlchemy Connection or Session, or the "
    "function that opens one"
)
_ISOLATIONS = ("read committed", "read uncommitted")
_SNAPSHOT = (
    "the transaction is {}, but ctx.transaction() needs read committed: its last statement changes "
    "the job's row, which a heartbeat may have changed since the snapshot, and the server would "
    "refuse that. Set the isolation level of this connection; in the block, lock the rows that you "
    "read with SELECT ... FOR UPDATE"
)


@dataclass(frozen=True, slots=True)
class TransactionParts:
    """The parts of a store that its handlers' transactions use; `wrote` wakes its waiting tasks."""

    database: Database
    identity: Identity
    lanes: Lanes
    ticker: Ticker
    connections: HandlerConnections
    wrote: Callable[[bool], Awaitable[None]]
    threads: HandlerThreads = field(default_factory=lambda: HandlerThreads("holdfast-transaction"))

    def close(self) -> None:
        """Cut the connections that are lent to handlers, and end idle threads."""
        self.connections.close()
        self.threads.close()


class PostgresTransaction:
    """Implements `AttemptTransaction` on any connection of `store.joining`, or one of the store's.

    With the store's `database` for a source, the handler gets statements instead of a connection.

    The row of the job is locked only at the end, by its completion: a heartbeat can extend the
    lease while the handler works.
    """

    def __init__(self, parts: TransactionParts, lease: Lease, source: object) -> None:
        self._parts = parts
        self._lease = lease
        self._source = source
        is_own = isinstance(source, PostgresDatabase) and source.lends(parts.connections)
        self._app_database = cast(PostgresDatabase, source) if is_own else None
        self._statements: BlockStatements | None = None
        self._lent: LentConnection | None = None
        self._xid = ""

    async def begin(self, *, blocking: bool = False) -> Any:
        """Begin, check the lease, and return the connection, or the statements on it."""
        parts, database = self._parts, self._app_database
        source = None if database is not None else self._source
        if source is None and blocking:
            raise ContextError(_NEEDS_BLOCKING if database is None else NEEDS_ASYNC)
        opens = parts.connections.lend if source is None else source
        self._lent = lent = LentConnection(opens, parts.threads, blocking=blocking)
        await lent.begin()
        if source is not None:
            await parts.identity.check(lent)
        answer = await lent.execute(SQL["transaction_lease"], _key(self._lease))
        ((self._xid, isolation, is_held),) = answer
        if isolation not in _ISOLATIONS:
            raise ContextError(_SNAPSHOT.format(isolation))
        if not is_held:
            raise LostLease(self._lease.job_id)
        if database is None:
            return lent.connection
        self._statements = BlockStatements(database.joined(lent.connection))
        return self._statements

    async def complete(self, finished: Finished, *, now: float | None = None) -> TickResult:
        """Write the completion as a tick does, and commit."""
        parts, lent, jobs = self._parts, self._lent, finished.jobs
        assert lent is not None
        if self._statements is not None:
            self._statements.end_idle()
        if not lent.is_open:
            raise ContextError(_ENDED)
        if (await lent.execute(SQL["transaction_check"], {}))[0][0] != self._xid:
            raise ContextError(_ENDED)
        versions = await parts.ticker.quiet_versions(finished.report)
        result = await self._report(lent, finished, versions or {}, now)
        if result is None:
            versions, result = None, await self._report(lent, finished, {}, now)
        assert result is not None
        if result.refused or result.overruled:
            await lent.close()
            return result
        if jobs:
            # After the completion, as in a tick: this job may be the twin of one that follows it.
            await enqueue_joined(lent, parts.database, parts.lanes, jobs, now)
        await lent.commit()
        parts.ticker.reported(finished.lease.job_id)
        return await self._committed(finished, result, judged=versions is not None)

    def explain(self, error: BaseException) -> None:
        """Return None: the server's errors say what they mean."""

    async def rollback(self) -> None:
        """Roll back unless it is committed, and release the connection."""
        if self._statements is not None:
            self._statements.end()
        if self._lent is not None:
            await self._lent.close()

    async def _report(
        self,
        lent: LentConnection,
        finished: Finished,
        versions: dict[str, int | None],
        now: float | None,
    ) -> TickResult | None:
        """Write the completion; None, and nothing is written, if `versions` are outdated."""
        outcome = finished.outcome
        assert isinstance(outcome, Completed)
        lines = await lent.execute(
            SQL["transaction_complete"],
            {
                **_key(finished.lease),
                "names": list(versions),
                "versions": [None if each is None else str(each) for each in versions.values()],
                "result": clean_or_none(outcome.result),
                "duration": finished.duration,
                "meta": clean_or_none(finished.meta),
                "timeout": list(TIMEOUT_COLUMNS),
                "now": now,
            },
        )
        answers: dict[str, float] = dict(lines)
        if "outdated" in answers:
            return None
        lease = finished.lease
        return TickResult(
            claims=(),
            refused=tuple(Refused(lease, REFUSALS[what]) for what in answers if what in REFUSALS),
            overruled=tuple(
                Overruled(lease, OVERRULINGS[what]) for what in answers if what in OVERRULINGS
            ),
            moved=(),
            timed_out=(),
            wake_at=None,
            mark=0,
            now=answers["now"],
        )

    async def _committed(
        self, finished: Finished, result: TickResult, *, judged: bool
    ) -> TickResult:
        """Do what follows the commit; what fails here is only logged."""
        parts, report = self._parts, finished.report
        try:
            if report is not None and not judged:
                work = await parts.ticker.judge(finished.lease.worker_id, report, result.now)
                result = replace(result, moved=tuple(work.moved))
            if finished.jobs:
                parts.ticker.memory.enqueued(finished.jobs)
            await parts.wrote(bool(finished.jobs or result.moved))
        except StoreError as error:
            _log.warning("after a handler's transaction was committed: %s", error)
        return result


def _key(lease: Lease) -> dict[str, Any]:
    return {"id": lease.job_id, "token": str(lease.token), "worker": lease.worker_id}
