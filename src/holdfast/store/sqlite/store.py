"""The store on one SQLite file: each method of the ports hands its work to the module for it."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.jobs.callers_thread import in_callers_thread
from holdfast.jobs.control_port import WorkerRecord
from holdfast.jobs.database_port import Database
from holdfast.jobs.model import Enqueued, Finished, JobError, Lease, NewJob
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
    StoreUnusable,
    TickResult,
)
from holdfast.jobs.transaction_port import AttemptTransaction
from holdfast.jobs.views import JobFilter, Stats
from holdfast.store.api_keys import ApiKeys
from holdfast.store.dead_letter_kinds import StoredDeadLetterKinds
from holdfast.store.intake import Intake
from holdfast.store.job_queries import JobQueries
from holdfast.store.migrations import Missing, Schema, app_schema
from holdfast.store.operations import Operations
from holdfast.store.owner_limits import StoredOwnerLimits
from holdfast.store.pauses import Pauses
from holdfast.store.sqlite import (
    control,
    enqueue,
    maintenance,
    migrations,
    queries,
    schedules,
    tick,
    workers,
)
from holdfast.store.sqlite.app_database import SQLiteDatabase, StatementThreads
from holdfast.store.sqlite.attempt_transaction import SQLiteTransaction
from holdfast.store.sqlite.claim import Turns
from holdfast.store.sqlite.connection import check_process, check_version
from holdfast.store.sqlite.downstream_methods import DownstreamMethods
from holdfast.store.sqlite.heartbeats import SQLiteHeartbeats
from holdfast.store.sqlite.outbox import SQLiteOutbox
from holdfast.store.sqlite.rates import SharedRates
from holdfast.store.sqlite.read_pool import ReadPool, Snapshot
from holdfast.store.sqlite.transaction import Row, Transaction, as_json
from holdfast.store.sqlite.writer import Writer
from holdfast.store.statements import StatementCall
from holdfast.store.webhooks import Webhooks

T = TypeVar("T")


class SQLiteStore(
    JobQueries, Pauses, ApiKeys, DownstreamMethods, Intake, Operations, SharedRates,
    StoredDeadLetterKinds, StoredOwnerLimits, Webhooks,
):  # fmt: skip
    """The embedded store.

    Args:
        path: the database file; its folder must exist.
        clock: the time when `now` is None; all processes on the file share the machine's clock.
        busy_timeout: seconds to wait for a lock before `StoreBusy` is raised.
        readers: how many threads read.
    """

    ticks_apart = False

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock = SYSTEM_CLOCK,
        busy_timeout: float = 5.0,
        readers: int = 2,
    ) -> None:
        self.path = Path(path)
        self._clock = clock
        self._busy_timeout = busy_timeout
        self._threads = readers
        self._process: int | None = None
        self._turns: Turns = {}
        self._app_schemas: list[Schema] = []
        self.address = f"SQLite file {self.path}"
        self.outbox = SQLiteOutbox(self.path, clock)
        self._prepare()

    def _prepare(self) -> None:
        self._writer = self._new_writer()
        self._reads = self._new_reads()
        self._app_reads = self._new_reads()
        self._statements = self._new_statements()
        self._database = SQLiteDatabase(
            self.path, self._writer, self._app_reads, self._statements.run, self._busy_timeout
        )
        self.outbox.attach(self._writer, self._reads)

    def _new_writer(self) -> Writer:
        return Writer(self.path, self._clock, self._busy_timeout, self._app_schemas)

    def _new_statements(self) -> StatementThreads:
        return StatementThreads()

    def _new_reads(self) -> ReadPool:
        return ReadPool(self.path, self._threads, self._busy_timeout, self._writer.files)

    @property
    def database(self) -> Database:
        """The file, for an app's own tables."""
        return self._database

    def use_tables(self, app: str, package: str) -> None:
        """Also create and migrate the tables of `app` when the file is opened."""
        self._app_schemas.append(app_schema(app, package, "sqlite"))

    async def open(self) -> None:
        """Open the file, create it if it is missing, and migrate it.

        Raises:
            StoreUnusable: it cannot be opened, or is open already.
            StoreClosed: it is open in the process that this one was forked from.
        """
        check_version()
        check_process(self._process, self.path)
        if self._process is not None:
            raise StoreUnusable(
                f"{self.path}: the store is open already: open an engine once at a time, or make "
                "a second one"
            )
        self._process = os.getpid()
        self._prepare()
        try:
            await asyncio.wrap_future(self._writer.start())
        except BaseException:
            self._process = None
            self._writer.stop()
            raise

    async def close(self) -> None:
        """Finish what was begun and close the file.

        Raises:
            StoreClosed: it was opened by the process that this one was forked from.
        """
        check_process(self._process, self.path)
        self._process = None
        # The writer last: SQLite removes the log with the last connection, if that one may write.
        await asyncio.to_thread(self._reads.close)
        await asyncio.to_thread(self._app_reads.close)
        self._statements.close()
        self._database.close()
        await asyncio.to_thread(self._writer.close)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _write(self, work: Callable[[Transaction], T], now: float | None = None) -> T:
        value, _ = await asyncio.wrap_future(self._writer.submit(work, now))
        return value

    async def _read(self, question: Callable[[Snapshot], T]) -> T:
        return await self._reads.read(question)

    async def _rows(self, query: str, **parameters: Any) -> list[Row]:
        return await self._read(lambda view: view.rows(query, parameters))

    async def _changed_rows(self, query: str, now: float | None, **parameters: Any) -> list[Row]:
        def change(tx: Transaction) -> list[Row]:
            tx.woke = True
            return tx.rows(query, {**parameters, "now": tx.now})

        return await self._write(change, now)

    async def _changed_together(self, *changes: StatementCall) -> list[list[Row]]:
        def change(tx: Transaction) -> list[list[Row]]:
            tx.woke = True
            return [tx.rows(query, parameters) for query, parameters in changes]

        return await self._write(change)

    def _list_query(self, where: JobFilter) -> str:
        return queries.list_query(where)

    def _array(self, values: Sequence[str]) -> str:
        return as_json(values)

    def _now(self, now: float | None) -> float:
        return self._clock.wall() if now is None else now

    async def ping(self) -> float:
        """Answer with the store's clock after reading from the file."""
        await self.last_sequence()
        return self._clock.wall()

    async def missing(self) -> Missing:
        """Return what the schema of the file lacks; the store need not be open."""
        return await asyncio.to_thread(
            migrations.missing_from_file, self.path, self._busy_timeout, self._app_schemas
        )

    async def migration_script(self) -> str:
        """Return the SQL that opening the file would run, as one transaction; "" for none."""
        return migrations.script(await self.missing())

    async def schema_version(self) -> int:
        """Return the number of the last migration that was applied."""
        return int((await self._rows("read_schema_version"))[0][0])

    async def enqueue(
        self,
        jobs: Sequence[NewJob],
        *,
        most: Mapping[str, int] | None = None,
        now: float | None = None,
    ) -> tuple[Enqueued, ...]:
        """Create `jobs`, all or none."""
        return await self._write(lambda tx: enqueue.enqueue(tx, jobs, most), now)

    async def enqueue_on(
        self, connection: object, jobs: Sequence[NewJob], *, now: float | None = None
    ) -> tuple[Enqueued, ...]:
        """Create `jobs` inside the transaction of a caller's own connection to the same file.

        Raises:
            TypeError: it is not an apsw connection to this file.
            NoTransaction: it has no open transaction.
            StoreClosed: the store is not open in this process.
            StoreUnusable: the file was deleted or replaced.
        """
        self._writer.check_open()
        self._writer.files.check()
        at = self._now(now)
        own = self._database.lends(connection)
        run = self._statements.run if own else in_callers_thread
        return await run(lambda: enqueue.enqueue_on(self.path, connection, jobs, at))

    async def submit(self, job_id: str, *, now: float | None = None) -> Change:
        """Move an uploaded job to queued."""
        return await self._write(lambda tx: control.submit(tx, job_id), now)

    async def reject(self, job_id: str, error: JobError, *, now: float | None = None) -> Change:
        """Move an uploaded job to failed."""
        return await self._write(lambda tx: control.reject(tx, job_id, error), now)

    async def tick(
        self,
        worker_id: str,
        finished: Sequence[Finished] = (),
        claim: ClaimRequest | None = None,
        *,
        now: float | None = None,
    ) -> TickResult:
        """Record what `finished` and claim what comes next."""
        result, mark = await asyncio.wrap_future(
            self._writer.submit(
                lambda tx: tick.tick(tx, worker_id, finished, claim, self._turns), now
            )
        )
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
        return await self._write(
            lambda tx: control.progress(tx, lease, progress, note, record=record), now
        )

    async def wait_for_work(self, mark: int, timeout: float) -> bool:
        """Wait until there may be work since the tick that returned `mark`."""
        self._writer.check_open()
        return await self._writer.work.wait(mark, timeout)

    def transaction(
        self, lease: Lease, source: object = None, *, seconds: float = 3.0
    ) -> AttemptTransaction:
        """Return a transaction that also completes the job of `lease`.

        `source` is an apsw connection to the same file, a function that opens one, or `database`.
        """
        return SQLiteTransaction(
            self._writer, self.path, self._clock, lease, source, seconds=seconds,
            busy_timeout=self._busy_timeout,
        )  # fmt: skip

    def heartbeats(self, kinds: Sequence[str] | None = None) -> Heartbeats:
        """Return the part that a heartbeat thread uses."""
        return SQLiteHeartbeats(self._writer, self._reads, self._clock, kinds)

    async def cancel(self, job_id: str, *, now: float | None = None) -> Change:
        """Cancel a job, or ask its worker to."""
        return await self._write(lambda tx: control.cancel(tx, job_id), now)

    async def expedite(self, job_id: str, *, now: float | None = None) -> Change:
        """Make a scheduled job ready at once."""
        return await self._write(lambda tx: control.expedite(tx, job_id), now)

    async def retry(
        self, job_ids: Sequence[str], *, now: float | None = None
    ) -> tuple[Change, ...]:
        """Put failed jobs back in the queue."""
        return await self._write(lambda tx: control.retry(tx, job_ids), now)

    async def discard(self, job_ids: Sequence[str], *, now: float | None = None) -> int:
        """Take jobs out of the dead letters."""
        return await self._write(lambda tx: control.discard(tx, job_ids), now)

    async def delete(self, job_ids: Sequence[str]) -> tuple[Deleted, ...]:
        """Delete the finished jobs among `job_ids`, with all their history."""
        return await self._write(lambda tx: maintenance.delete_of_ids(tx, job_ids))

    async def workers(self) -> tuple[WorkerRecord, ...]:
        """Return the workers that are alive or have jobs."""
        return await self._read(workers.overview)

    async def request_finish(self, worker_id: str, *, now: float | None = None) -> bool:
        """Ask a worker to finish."""
        return await self._write(lambda tx: workers.request_finish(tx, worker_id), now)

    async def wait_for_changes(self, sequence: int, timeout: float) -> bool:
        """Wait until there may be events after `sequence`."""
        seen = self._writer.changes.count
        if await self.last_sequence() > sequence:
            return True
        return await self._writer.changes.wait(seen, timeout)

    async def stats(self) -> Stats:
        """Return the maintained counters."""
        return await self._read(queries.stats)

    async def lead(
        self, name: str, holder: str, seconds: float, *, now: float | None = None
    ) -> Leadership | None:
        """Become or stay the leader."""
        return await self._write(lambda tx: maintenance.lead(tx, name, holder, seconds), now)

    async def resign(self, name: str, holder: str) -> bool:
        """Release the leadership."""
        return await self._write(lambda tx: maintenance.resign(tx, name, holder))

    async def rescue(self, *, limit: int = 500, now: float | None = None) -> Rescued:
        """Requeue, fail or cancel jobs whose leases have expired or whose workers are dead."""
        return await self._write(lambda tx: maintenance.rescue(tx, limit), now)

    async def expire_deadlines(
        self, *, limit: int = 500, now: float | None = None
    ) -> tuple[FailedJob, ...]:
        """Fail unfinished jobs past their deadline."""
        return await self._write(lambda tx: maintenance.expire_deadlines(tx, limit), now)

    async def unknown_kinds(self, worker_id: str) -> Mapping[str, int]:
        """Return the kinds of waiting jobs that no registered worker knows."""
        return dict(await self._rows("maintain_unknown_kinds", worker=worker_id))

    async def store_late_result(
        self, job_id: str, token: int, result: str | None, *, now: float | None = None
    ) -> bool:
        """Keep a result that came after `TIMEOUT`."""
        return await self._write(
            lambda tx: maintenance.store_late_result(tx, job_id, token, result), now
        )

    async def delete_finished(
        self, rule: RetentionRule, *, limit: int = 500, now: float | None = None
    ) -> tuple[Deleted, ...]:
        """Delete jobs that `rule` no longer keeps, with all their history."""
        return await self._write(lambda tx: maintenance.delete_finished(tx, rule, limit), now)

    async def create_schedules(self, records: Sequence[ScheduleRecord]) -> None:
        """Store the schedules whose names are not stored yet."""
        await self._write(lambda tx: schedules.create(tx, records))

    async def write_schedule(
        self, record: ScheduleRecord, jobs: Sequence[NewJob] = (), *, now: float | None = None
    ) -> ScheduleRecord | None:
        """Store `record` where the version stored is still its own, and create `jobs` with it."""
        return await self._write(lambda tx: schedules.write(tx, record, jobs), now)
