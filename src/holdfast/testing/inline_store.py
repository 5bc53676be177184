"""The SQLite store without threads: each call is done when it returns, in the same order always.

SQL, transactions and schema are those of the real store; only its threads are missing, since a
virtual clock cannot know what a thread still has to do.
"""

import asyncio
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import apsw

from holdfast.clock import Clock
from holdfast.jobs.model import Finished, Lease
from holdfast.jobs.store_port import ClaimRequest, TickResult
from holdfast.jobs.transaction_port import AttemptTransaction
from holdfast.store.block_statements import BlockStatements
from holdfast.store.sqlite.app_database import StatementThreads
from holdfast.store.sqlite.attempt_transaction import SQLiteTransaction
from holdfast.store.sqlite.connection import disconnect
from holdfast.store.sqlite.read_pool import ReadPool, Snapshot
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.store.sqlite.write_loan import WriteLoan
from holdfast.store.sqlite.writer import Write, Writer

T = TypeVar("T")

_NEXT_LIMIT = """
SELECT
    (SELECT min(deadline_at) FROM holdfast_jobs
        WHERE deadline_at IS NOT NULL AND finished_at IS NULL),
    (SELECT min(lease_expires_at) FROM holdfast_jobs WHERE lease_expires_at IS NOT NULL)
"""


class InlineStore(SQLiteStore):
    """Keep jobs in the file `path`, without threads and without waiting for the disk.

    Attributes:
        waiting_threads: ids of jobs whose handlers wait for the write lock on their threads.
    """

    def __init__(self, path: str | Path, *, clock: Clock) -> None:
        self.waiting_threads: set[str] = set()
        self._claimable_at: float | None = None
        super().__init__(path, clock=clock)

    def _new_writer(self) -> Writer:
        return InlineWriter(self.path, self._clock, self._busy_timeout, self._app_schemas)

    def _new_reads(self) -> ReadPool:
        return InlineReads(self.path, 1, self._busy_timeout, self._writer.files)

    def _new_statements(self) -> StatementThreads:
        return InlineStatements()

    async def tick(
        self,
        worker_id: str,
        finished: Sequence[Finished] = (),
        claim: ClaimRequest | None = None,
        *,
        now: float | None = None,
    ) -> TickResult:
        """Record what `finished` and claim what comes next."""
        result = await super().tick(worker_id, finished, claim, now=now)
        if claim is not None:
            self._claimable_at = result.wake_at
        return result

    def transaction(
        self, lease: Lease, source: object = None, *, seconds: float = 3.0
    ) -> AttemptTransaction:
        """Return a transaction that also completes the job of `lease`."""
        return InlineTransaction(
            self._writer, self.path, self._clock, lease, source, seconds=seconds,
            busy_timeout=self._busy_timeout, waiting_threads=self.waiting_threads,
        )  # fmt: skip

    async def next_moments(self) -> tuple[float, ...]:
        """Return when the next job may be claimed, has passed its deadline, has lost its lease.

        In epoch seconds, without those that no job has. What may be claimed is as of the last tick
        that claimed.
        """

        def read(view: Snapshot) -> tuple[float | None, float | None]:
            ((deadline, lease),) = view.execute(_NEXT_LIMIT)
            # A deadline has passed only after its moment.
            return (None if deadline is None else math.nextafter(deadline, math.inf)), lease

        found = (self._claimable_at, *await self._read(read))
        return tuple(moment for moment in found if moment is not None)


class InlineTransaction(SQLiteTransaction):
    """A transaction that says whether a thread waits for its begin."""

    def __init__(self, *args: Any, waiting_threads: set[str], **options: Any) -> None:
        super().__init__(*args, **options)
        self._waiting_threads = waiting_threads

    async def begin(self, *, blocking: bool = False) -> apsw.Connection | BlockStatements:
        """Take the write lock, and return the connection, or the statements on it."""
        if not blocking:
            return await super().begin()
        self._waiting_threads.add(self._lease.job_id)
        try:
            return await super().begin(blocking=True)
        finally:
            self._waiting_threads.discard(self._lease.job_id)


class InlineWriter(Writer):
    """Do each request at once, in the thread that submits it."""

    _db: apsw.Connection | None = None
    _is_lent = False
    _limit: asyncio.TimerHandle | None = None

    def start(self) -> "Future[None]":
        """Open the database; the future is done."""
        self._process = os.getpid()
        self._opened.set_running_or_notify_cancel()
        try:
            self._db = self._connect()
            self._prepare(self._db)
            # The file is deleted after the test: a power failure would lose nothing.
            self._db.execute("PRAGMA synchronous = OFF").fetchall()
        except BaseException as error:
            self._refuse_all(error)
        else:
            self._opened.set_result(None)
        return self._opened

    def _put(self, item: Write[Any] | WriteLoan) -> None:
        self.check_open()
        if self._is_lent:  # it waits for the end of a handler's transaction
            self._requests.put(item)
        elif isinstance(item, WriteLoan):
            self._is_lent = item.serve_inline(self._returned)
            if self._is_lent:  # only coroutines begin a loan
                loop = asyncio.get_running_loop()
                self._limit = loop.call_later(item.seconds, item.expire)
        elif item.future.set_running_or_notify_cancel():
            assert self._db is not None
            with self._lock:
                self._do(self._db, [item])
                self._notice_other_commits(self._db)

    def _returned(self) -> None:
        """Do what has waited for the end of a handler's transaction."""
        assert self._limit is not None
        self._limit.cancel()
        self._is_lent = False
        assert self._db is not None
        self._notice_other_commits(self._db)
        while not self._is_lent and not self._requests.empty():
            item = self._requests.get()
            assert not isinstance(item, Enum)
            self._put(item)

    def stop(self) -> None:
        """Accept no more requests."""
        self._closed = True

    def close(self) -> None:
        """Close the connection."""
        self.stop()
        db, self._db = self._db, None
        if db is not None:
            disconnect(db)

    def _poll_soon(self) -> None:
        """Do nothing: no thread polls."""


class InlineStatements(StatementThreads):
    """Run each statement in the thread that asks."""

    async def run(self, work: Callable[[], T]) -> T:
        """Return `work()`."""
        return work()


class InlineReads(ReadPool):
    """Read in the thread that asks."""

    async def read(self, question: Callable[[Snapshot], T]) -> T:
        """Answer `question` from a view that holds everything committed before now."""
        self.check_open()
        return self._answer(question)
