"""The one thread that writes: requests that wait together share one commit.

Every write begins with `BEGIN IMMEDIATE`: a transaction that begins with a read fails if another
process writes before it does. If several requests share a transaction, each has a savepoint, so a
failing request is rolled back alone. No request is answered before its commit is on disk.

Transactions of handlers, `WriteLoan`, take turns with the requests: after each of them all requests
that wait are done.
"""

import contextlib
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.jobs.store_port import StoreClosed
from holdfast.store.migrations import Schema
from holdfast.store.sqlite.change_counter import ChangeCounter
from holdfast.store.sqlite.connection import check_process, connect, disconnect, store_error
from holdfast.store.sqlite.file_identity import FileIdentity
from holdfast.store.sqlite.migrations import migrate
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.write_loan import WriteLoan

T = TypeVar("T")

_MOST_AT_ONCE = 100
_POLL_SECONDS = 0.01
_LENT_SECONDS = 0.1
"""Seconds for which the lock is lent in all before it is left free for a moment."""
_PAUSE_SECONDS = 0.015
"""That moment: longer than other processes wait between two tries to take the lock. SQLite has no
queue for it, so without a pause they might never get it."""


class _Signal(Enum):
    """What else is sent to the thread through its queue."""

    POLL = "a task waits for changes: poll for commits of other processes"
    STOP = "no request will follow"


@dataclass(slots=True, eq=False)
class Write(Generic[T]):
    """One write, and the future that its caller waits for."""

    work: Callable[[Transaction], T]
    now: float | None
    future: "Future[tuple[T, int]]" = field(default_factory=Future)
    value: T | None = None
    woke: bool = False


class Writer:
    """Owns the connection that writes.

    `work` counts when something may have become claimable, `changes` when anything was committed,
    by this process or, noticed within 10 ms while a task waits, by another one. `messages` counts
    when the outbox may have been added to, which only other connections do. `files` says
    whether the database was deleted or replaced. `app_schemas` are those of apps with tables of
    their own.
    """

    def __init__(
        self, path: Path, clock: Clock, busy_timeout: float, app_schemas: Sequence[Schema] = ()
    ) -> None:
        self.work = ChangeCounter(self._poll_soon)
        self.changes = ChangeCounter(self._poll_soon)
        self.messages = ChangeCounter(self._poll_soon)
        self.files = FileIdentity(path)
        self._path = path
        self._clock = clock
        self._busy_timeout = busy_timeout
        self._app_schemas = app_schemas
        self._requests: queue.SimpleQueue[Write[Any] | WriteLoan | _Signal] = queue.SimpleQueue()
        self._loans: deque[WriteLoan] = deque()
        self._lent = 0.0
        self._opened: Future[None] = Future()
        self._closed = False
        self._process: int | None = None
        self._lock = threading.Lock()
        self._seen_version: int | None = None
        # A daemon, so that a process can end without closing the store.
        self._thread = threading.Thread(target=self._run, name="holdfast-writer", daemon=True)

    def start(self) -> "Future[None]":
        """Start the thread; the future is done when the database is open and migrated."""
        self._process = os.getpid()
        self._opened.set_running_or_notify_cancel()  # it cannot be cancelled, only stopped
        self._thread.start()
        return self._opened

    def check_open(self) -> None:
        """Check that the writer can be used.

        Raises:
            StoreClosed: it is not open, or belongs to the process that this one was forked from.
        """
        check_process(self._process, self._path)
        if self._closed or self._process is None:
            raise StoreClosed(f"{self._path}: the store is not open")

    def submit(
        self, work: Callable[[Transaction], T], now: float | None = None
    ) -> "Future[tuple[T, int]]":
        """Do `work` in a transaction.

        Once that is on disk, the future returns the value of `work` and the count of `self.work`.
        """
        request = Write(work, now)
        self._put(request)
        return request.future

    def lend(self, loan: WriteLoan) -> None:
        """Begin the transaction of `loan` when it is its turn."""
        self._put(loan)

    def _put(self, item: Write[Any] | WriteLoan) -> None:
        self.check_open()  # before the lock, which another thread may have held at a fork
        with self._lock:
            self.check_open()
            self._requests.put(item)

    def stop(self) -> None:
        """Accept no more requests; close the connection after those that were submitted."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._requests.put(_Signal.STOP)

    def close(self) -> None:
        """Finish what was submitted, then close the connection. Blocks."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def _poll_soon(self) -> None:
        self._requests.put(_Signal.POLL)

    def _run(self) -> None:
        try:
            db = self._connect()
        except BaseException as error:
            self._refuse_all(error)
            return
        try:
            self._prepare(db)
            self._opened.set_result(None)
            self._serve(db)
        except BaseException as error:
            self._refuse_all(error)
        finally:
            disconnect(db)

    def _connect(self) -> apsw.Connection:
        return connect(self._path, busy_timeout=self._busy_timeout)

    def _prepare(self, db: apsw.Connection) -> None:
        """Bring the schema up to date, and note what is compared later."""
        try:
            migrate(db, apps=self._app_schemas)
        except apsw.Error as error:
            raise store_error(error, self._path) from error
        self._seen_version = _data_version(db)
        self.files.record()

    def _refuse_all(self, error: BaseException) -> None:
        """Fail all waiting and all later requests: the writer is gone."""
        with self._lock:
            self._closed = True
        if not self._opened.done():
            self._opened.set_exception(error)
        for loan in self._loans:
            loan.refuse(self._gone(error))
        with contextlib.suppress(queue.Empty):
            while True:
                request = self._requests.get_nowait()
                if isinstance(request, WriteLoan):
                    request.refuse(self._gone(error))
                elif isinstance(request, Write) and request.future.set_running_or_notify_cancel():
                    request.future.set_exception(self._gone(error))

    def _serve(self, db: apsw.Connection) -> None:
        while True:
            group, last = self._next_group()
            if group:
                self._do(db, group)
            if last:
                self._refuse_all(StoreClosed("it was closed"))
                return
            if self._loans:
                began = SYSTEM_CLOCK.monotonic()
                self._loans.popleft().serve()
                self._lent += SYSTEM_CLOCK.monotonic() - began
            self._notice_other_commits(db)
            if self._lent >= _LENT_SECONDS:
                self._lent = 0.0
                SYSTEM_CLOCK.sleep(_PAUSE_SECONDS)

    def _next_group(self) -> tuple[list[Write[Any]], bool]:
        """Wait for requests and take all there are; the flag is True after the last ones."""
        counters = (self.work, self.changes, self.messages)
        awaited = any(counter.has_waiters for counter in counters)
        group: list[Write[Any]] = []
        with contextlib.suppress(queue.Empty):
            timeout = 0.0 if self._loans else _POLL_SECONDS if awaited else None
            item = self._requests.get(timeout=timeout)
            while True:
                if item is _Signal.STOP:
                    return group, True
                if isinstance(item, WriteLoan):
                    self._loans.append(item)
                elif isinstance(item, Write) and item.future.set_running_or_notify_cancel():
                    group.append(item)
                if len(group) == _MOST_AT_ONCE:
                    break
                item = self._requests.get_nowait()
        return group, False

    def _notice_other_commits(self, db: apsw.Connection) -> None:
        """Wake waiting tasks if another connection has committed since the last call."""
        version = _data_version(db)
        if version != self._seen_version:
            self._seen_version = version
            for counter in (self.work, self.changes, self.messages):
                counter.increment()

    def _do(self, db: apsw.Connection, group: list[Write[Any]]) -> None:
        """Do the requests of `group` in one transaction, and answer them."""
        before = db.total_changes()
        try:
            done = self._do_all(db, group)
            self.files.check()
        except BaseException as error:
            self._fail_all(group, error)
            if not isinstance(error, Exception):
                raise
            return
        if db.total_changes() != before:
            self.changes.increment()
        for request in done:
            count = self.work.increment() if request.woke else self.work.count
            request.future.set_result((request.value, count))

    def _do_all(self, db: apsw.Connection, group: list[Write[Any]]) -> list[Write[Any]]:
        """Commit `group`; on a full disk, once more after a checkpoint. Return what succeeded."""
        try:
            return self._commit(db, group)
        except apsw.FullError:
            if not _checkpointed(db):
                raise
        return self._commit(db, [request for request in group if not request.future.done()])

    def _commit(self, db: apsw.Connection, group: list[Write[Any]]) -> list[Write[Any]]:
        """Do the requests of `group` in one transaction, and return those that succeeded."""
        db.execute("BEGIN IMMEDIATE")
        try:
            alone = len(group) == 1
            done = [request for request in group if self._do_one(db, request, alone=alone)]
            if db.in_transaction:
                db.execute("COMMIT")
        finally:
            if db.in_transaction:
                with contextlib.suppress(apsw.Error):
                    db.execute("ROLLBACK")
        return done

    def _do_one(self, db: apsw.Connection, request: Write[Any], *, alone: bool) -> bool:
        """Do one request; if it fails, roll back this one alone and answer it."""
        if not alone:
            db.execute("SAVEPOINT request")
        try:
            self._work(db, request)
        except Exception as error:
            if not db.in_transaction:  # SQLite rolled back everything: disk full, I/O error
                raise
            db.execute("ROLLBACK" if alone else "ROLLBACK TO request")
            request.future.set_exception(self._as_store_error(error))
            return False
        finally:
            if not alone and db.in_transaction:
                db.execute("RELEASE request")
        return True

    def _work(self, db: apsw.Connection, request: Write[Any]) -> None:
        # One reading of the wall clock for both: a jump cannot come between them.
        wall = self._clock.wall()
        now = wall if request.now is None else request.now
        tx = Transaction(db, now, wall - self._clock.monotonic())
        request.value = request.work(tx)
        tx.flush()
        request.woke = tx.woke

    def _as_store_error(self, error: BaseException) -> Exception:
        """Return `error` as the caller sees it, with its cause."""
        if not isinstance(error, Exception):
            return self._gone(error)
        if not isinstance(error, apsw.Error):
            return error
        translated = store_error(error, self._path)
        translated.__cause__ = error
        return translated

    def _gone(self, error: BaseException) -> StoreClosed:
        return StoreClosed(f"{self._path}: the store is closed ({error!r})")

    def _fail_all(self, group: list[Write[Any]], error: BaseException) -> None:
        for request in group:
            if not request.future.done():
                request.future.set_exception(self._as_store_error(error))


def _data_version(db: apsw.Connection) -> int | None:
    """Return a number that changes when another connection commits; None if it is locked."""
    with contextlib.suppress(apsw.Error):
        rows: list[tuple[Any, ...]] = db.execute("PRAGMA data_version").fetchall()
        return int(rows[0][0])
    return None


def _checkpointed(db: apsw.Connection) -> bool:
    """Write the whole log into the database file; False if that is not possible now.

    After that SQLite reuses the log from its start, which may be enough on a full disk.
    """
    with contextlib.suppress(apsw.Error):
        rows: list[tuple[Any, ...]] = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        _, pages, written = rows[0]
        return bool(pages == written)
    return False
