"""The store on PostgreSQL: every port, each method a few lines onto the work it stands for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.jobs import database_port
from holdfast.jobs.control_port import WorkerRecord
from holdfast.jobs.model import Enqueued, Finished, JobError, Lease, NewJob
from holdfast.jobs.owner_locks import OwnerLocks
from holdfast.jobs.store_port import (
    Change,
    ClaimRequest,
    Deleted,
    FailedJob,
    Heartbeats,
    Leadership,
    Rescued,
    RetentionRule,
    ScheduleRecord,
    TickResult,
)
from holdfast.jobs.transaction_port import AttemptTransaction
from holdfast.jobs.views import JobFilter, Stats
from holdfast.store.api_keys import ApiKeys
from holdfast.store.dead_letter_kinds import StoredDeadLetterKinds
from holdfast.store.error_columns import error_columns
from holdfast.store.intake import Intake
from holdfast.store.job_queries import JobQueries
from holdfast.store.operations import Operations
from holdfast.store.owner_limits import StoredOwnerLimits
from holdfast.store.pauses import Pauses
from holdfast.store.postgres import (
    control,
    enqueue,
    finish,
    maintenance,
    queries,
    schedules,
)
from holdfast.store.postgres.app_database import PostgresDatabase
from holdfast.store.postgres.attempt_transaction import PostgresTransaction, TransactionParts
from holdfast.store.postgres.connection import Connection, Database, Row, rows
from holdfast.store.postgres.counters import Counters
from holdfast.store.postgres.downstream_methods import DownstreamMethods
from holdfast.store.postgres.enqueue_single import enqueue_one
from holdfast.store.postgres.handler_connections import HandlerConnections
from holdfast.store.postgres.heartbeats import PostgresHeartbeats
from holdfast.store.postgres.identity import Identity
from holdfast.store.postgres.lanes import Lanes
from holdfast.store.postgres.notify import Notifier
from holdfast.store.postgres.outbox import PostgresOutbox
from holdfast.store.postgres.rates import SharedRates
from holdfast.store.postgres.schema_methods import SchemaMethods
from holdfast.store.postgres.tick import Ticker
from holdfast.store.statements import StatementCall
from holdfast.store.webhooks import Webhooks


class PostgresStore(
    JobQueries, Pauses, ApiKeys, DownstreamMethods, Intake, Operations, SharedRates, SchemaMethods,
    StoredDeadLetterKinds, StoredOwnerLimits, Webhooks,
):  # fmt: skip
    """The store for more than one machine.

    Args:
        url: `postgresql://user:password@host:port/database`.
        clock: times the pauses between wake-ups and reconnects; leases and deadlines are judged by
            the database's clock alone.
        migrate: bring the schema up to date when opening; without it `holdfast migrate` does.
        connections: connections that may be open at once, besides one that listens and one that
            keeps leases alive; and as many again that are lent to handlers and transactions of
            apps, and that read for apps.
        timeout: seconds after which a statement without an answer counts as a server that is gone.
    """

    ticks_apart = True

    def __init__(
        self,
        url: str,
        *,
        clock: Clock = SYSTEM_CLOCK,
        migrate: bool = False,
        connections: int = 10,
        timeout: float = 30.0,
    ) -> None:
        SchemaMethods.__init__(self, Database(url, connections=connections, timeout=timeout))
        self.address = self._database.where
        self._clock = clock
        self._migrates = migrate
        self._identity = Identity(self._database)
        self._lanes = Lanes(self._database)
        self._owner_locks = OwnerLocks(seconds=timeout)
        self._ticker = Ticker(self._database, self._lanes, clock)
        self._notifier = Notifier(self._database, clock)
        self._counters = Counters(self._database)
        self.outbox = PostgresOutbox(self._database, self._identity, self._notifier)
        self._heartbeats: set[PostgresHeartbeats] = set()
        lent = HandlerConnections(self._database, connections)
        self._transactions = TransactionParts(
            self._database, self._identity, self._lanes, self._ticker,
            lent, lambda work: self._wrote(work=work),
        )  # fmt: skip
        self._app_database = PostgresDatabase(
            self._database, lent, timeout=timeout, most=connections, committed=self._enqueued
        )

    @property
    def database(self) -> database_port.Database:
        """The database, for an app's own tables."""
        return self._app_database

    async def open(self) -> None:
        """Connect, and see that the schema is the one this version works with."""
        await self._database.open()
        try:
            await self._check_schema(migrates=self._migrates)
            # Now: many callers that ask for it at once would open a connection each.
            await self._identity.read()
        except BaseException:
            await self._database.close()
            raise
        self._lanes.forget()
        self._notifier.start()

    async def close(self) -> None:
        """Finish open statements and disconnect."""
        await self._notifier.close()
        for heartbeats in tuple(self._heartbeats):
            await heartbeats.close()
        self._transactions.close()
        self._app_database.close()
        await self._database.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _wrote(self, *, work: bool = False, notified: bool = False) -> None:
        """Wake what waits for changes, and fold the counters once in a while."""
        self._notifier.changed(work=work, notified=notified)
        await self._counters.wrote()

    async def _rows(self, query: str, **parameters: Any) -> list[Row]:
        return await self._database.rows(query, **parameters)

    async def _changed_rows(self, query: str, now: float | None, **parameters: Any) -> list[Row]:
        found = await self._database.write(query, now=now, **parameters)
        await self._wrote(work=True)
        return found

    async def _changed_together(self, *changes: StatementCall) -> list[list[Row]]:
        async def change(connection: Connection) -> list[list[Row]]:
            return [await rows(connection, query, **given) for query, given in changes]

        found = await self._database.transaction(change)
        await self._wrote(work=True)
        return found

    def _list_query(self, where: JobFilter) -> str:
        return queries.list_query(where)

    def _array(self, values: Sequence[str]) -> list[str]:
        return list(map(str, values))

    def _now(self, now: float | None) -> float | None:
        return now

    async def ping(self) -> float:
        """Answer with the database's clock."""
        return float((await self._rows("read_clock"))[0][0])

    async def enqueue(
        self,
        jobs: Sequence[NewJob],
        *,
        most: Mapping[str, int] | None = None,
        now: float | None = None,
    ) -> tuple[Enqueued, ...]:
        """Create `jobs`, all or none."""
        if len(jobs) == 1 and not most and jobs[0].dedup_key is None:
            notified = await enqueue_one(
                self._database, self._lanes, jobs[0], now, self._notifier.work_payload()
            )
            if notified is not None:
                await self._enqueued(jobs, notified=notified)
                return (Enqueued(jobs[0].id, True),)
        answers = await enqueue.enqueue(
            self._database, self._lanes, jobs, now, most or {}, self._owner_locks
        )
        if any(answer.created for answer in answers):
            await self._enqueued(jobs)
        return answers

    async def _enqueued(self, jobs: Sequence[NewJob], *, notified: bool = False) -> None:
        """Wake the workers of this process for `jobs`, which are committed."""
        self._ticker.memory.enqueued(jobs)
        await self._wrote(work=True, notified=notified)

    async def enqueue_on(
        self, connection: object, jobs: Sequence[NewJob], *, now: float | None = None
    ) -> tuple[Enqueued, ...]:
        """Create `jobs` inside the transaction that `connection` is in, see `store.joining`.

        The caller commits or rolls back, and the jobs with it; workers are woken by the commit. A
        driver that blocks does so here too, for two statements.

        Raises:
            TypeError: it is no connection to this database, or of a driver that is not known.
            NoTransaction: it commits every statement by itself.
        """
        answers = await enqueue.enqueue_on(
            connection, self._database, self._identity, self._lanes, jobs, now
        )
        self._app_database.note_enqueued(connection, jobs)
        return answers

    async def _change(self, query: str, **parameters: Any) -> Change:
        """Change one job on request."""
        change = Change((await self._database.write(query, **parameters))[0][0])
        await self._wrote(work=change is Change.DONE)
        return change

    async def submit(self, job_id: str, *, now: float | None = None) -> Change:
        """Move an uploaded job to queued."""
        return await self._change("control_submit", id=job_id, now=now)

    async def reject(self, job_id: str, error: JobError, *, now: float | None = None) -> Change:
        """Move an uploaded job to failed."""
        return await self._change("control_reject", id=job_id, error=error_columns(error), now=now)

    async def tick(
        self,
        worker_id: str,
        finished: Sequence[Finished] = (),
        claim: ClaimRequest | None = None,
        *,
        now: float | None = None,
    ) -> TickResult:
        """Record what `finished` and claim what comes next."""
        mark = self._notifier.work.count
        result = await self._ticker.tick(worker_id, finished, claim, now)
        if finished or result.claims or result.timed_out:
            moved = bool(result.moved)
            await self._wrote(work=moved or finish.wakes(finished))
        return replace(result, mark=mark)

    async def progress(
        self,
        lease: Lease,
        progress: float | None,
        note: str | None = None,
        *,
        record: bool = False,
        now: float | None = None,
    ) -> bool:
        """Store how far a job is, under its lease."""
        done = await control.progress(self._database, lease, progress, note, record=record, now=now)
        if record:
            await self._wrote()
        return done

    async def wait_for_work(self, mark: int, timeout: float) -> bool:
        """Wait until there may be work since the tick that returned `mark`."""
        return await self._notifier.wait_for_work(mark, timeout)

    def transaction(
        self,
        lease: Lease,
        source: object = None,
        *,
        seconds: float = 3.0,  # noqa: ARG002 - no transaction here keeps all others from writing
    ) -> AttemptTransaction:
        """Return a transaction that also completes the job of `lease`.

        `source` is a connection or session that `store.joining` knows, a function that opens one,
        or `database`.
        """
        return PostgresTransaction(self._transactions, lease, source)

    def heartbeats(self, kinds: Sequence[str] | None = None) -> Heartbeats:
        """Return the part that a heartbeat thread uses, with a connection of its own."""
        heartbeats = PostgresHeartbeats(self._database, kinds)
        self._heartbeats.add(heartbeats)
        return heartbeats

    async def cancel(self, job_id: str, *, now: float | None = None) -> Change:
        """Cancel a job, or ask its worker to."""
        return await self._change("control_cancel", id=job_id, now=now)

    async def expedite(self, job_id: str, *, now: float | None = None) -> Change:
        """Let a queued job that waits for its time start at once."""
        return await self._change("control_expedite", id=job_id, now=now)

    async def retry(
        self, job_ids: Sequence[str], *, now: float | None = None
    ) -> tuple[Change, ...]:
        """Put failed jobs back in the queue."""
        changes = await control.retry(self._database, job_ids, now)
        await self._wrote(work=Change.DONE in changes)
        return changes

    async def discard(self, job_ids: Sequence[str], *, now: float | None = None) -> int:
        """Take jobs out of the dead letters."""
        discarded = await control.discard(self._database, job_ids, now)
        await self._wrote()
        return discarded

    async def delete(self, job_ids: Sequence[str]) -> tuple[Deleted, ...]:
        """Delete the finished jobs among `job_ids`, with all their history."""
        return await maintenance.delete_of_ids(self._database, job_ids)

    async def workers(self) -> tuple[WorkerRecord, ...]:
        """Return the workers that are alive or have jobs."""
        return tuple(WorkerRecord(*row) for row in await self._rows("worker_overview"))

    async def request_finish(self, worker_id: str, *, now: float | None = None) -> bool:
        """Ask a worker to finish."""
        found = await self._database.write("worker_request_finish", worker=worker_id, now=now)
        return bool(found[0][0])

    async def wait_for_changes(self, sequence: int, timeout: float) -> bool:
        """Wait until there may be events after `sequence`."""
        ends_at = self._clock.monotonic() + timeout
        while True:
            seen = self._notifier.changes.count
            if (await self._rows("read_has_changes", sequence=sequence))[0][0]:
                return True
            remaining = ends_at - self._clock.monotonic()
            if not await self._notifier.wait_for_changes(seen, remaining):
                return False

    async def stats(self) -> Stats:
        """Return the maintained counters."""
        return await queries.stats(self._database)

    async def lead(
        self, name: str, holder: str, seconds: float, *, now: float | None = None
    ) -> Leadership | None:
        """Become or stay the leader."""
        return await maintenance.lead(self._database, name, holder, seconds, now)

    async def resign(self, name: str, holder: str) -> bool:
        """Give the leadership up."""
        return await maintenance.resign(self._database, name, holder)

    async def rescue(self, *, limit: int = 500, now: float | None = None) -> Rescued:
        """Take back jobs whose leases have run out, and fold the counters."""
        rescued = await maintenance.rescue(self._database, limit, now)
        await self._counters.fold()
        if rescued != Rescued():
            await self._wrote(work=True)
        return rescued

    async def expire_deadlines(
        self, *, limit: int = 500, now: float | None = None
    ) -> tuple[FailedJob, ...]:
        """Fail unfinished jobs past their deadline."""
        expired = await maintenance.expire_deadlines(self._database, limit, now)
        if expired:
            await self._wrote()
        return expired

    async def unknown_kinds(self, worker_id: str) -> Mapping[str, int]:
        """Return the kinds of waiting jobs that no registered worker knows."""
        return dict(map(tuple, await self._rows("maintain_unknown_kinds", worker=worker_id)))

    async def store_late_result(
        self, job_id: str, token: int, result: str | None, *, now: float | None = None
    ) -> bool:
        """Keep a result that came after `TIMEOUT`."""
        kept = await maintenance.store_late_result(self._database, job_id, token, result, now)
        await self._wrote()
        return kept

    async def delete_finished(
        self, rule: RetentionRule, *, limit: int = 500, now: float | None = None
    ) -> tuple[Deleted, ...]:
        """Delete jobs that `rule` no longer keeps, with all their history."""
        return await maintenance.delete_finished(self._database, rule, limit, now)

    async def create_schedules(self, records: Sequence[ScheduleRecord]) -> None:
        """Store the schedules whose names are not stored yet."""
        await self._database.transaction(lambda connection: schedules.create(connection, records))

    async def write_schedule(
        self, record: ScheduleRecord, jobs: Sequence[NewJob] = (), *, now: float | None = None
    ) -> ScheduleRecord | None:
        """Store `record` where the version stored is still its own, and create `jobs` with it."""
        written = await schedules.write(self._database, self._lanes, record, jobs, now)
        if written is not None and jobs:
            await self._enqueued(jobs)
        return written
