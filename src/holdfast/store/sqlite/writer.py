"""The one thread that writes: requests that wait together share one commit.

Every write is `BEGIN IMMEDIATE`: SQLite gives no second chance to a transaction that began as a
reader. Where several requests share a transaction each has a savepoint, so that one that fails
takes nothing of the others with it. No request is answered before its commit is on disk.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

from holdfast.clock import Clock
from holdfast.jobs.store_port import StoreClosed
from holdfast.store.sqlite.connection import check_process, connect, disconnect, store_error
from holdfast.store.sqlite.migrations import migrate
from holdfast.store.sqlite.presence import Presence
from holdfast.store.sqlite.transaction import Claimed, Misremembered, Transaction
from holdfast.store.sqlite.wake import Bell

T = TypeVar("T")

_MOST_AT_ONCE = 100
_POLL_SECONDS = 0.01
_MOST_REMEMBERED = 100_000


class _Signal(Enum):
    """What else the thread is told through its queue."""

    LOOK = "somebody waits: look at what others commit"
    STOP = "no request will follow"


@dataclass(slots=True, eq=False)
class _Request(Generic[T]):
    work: Callable[[Transaction], T]
    now: float | None
    future: "Future[tuple[T, int]]" = field(default_factory=Future)
    value: T | None = None
    woke: bool = False


class Writer:
    """Owns the connection that writes.

    `work` rings when something may have become claimable, `changes` whenever anything was
    committed, by this process or, within 10 ms while somebody waits, by another. `presence` knows
    whether the file is still where it was.
    """

    def __init__(self, path: Path, clock: Clock, busy_timeout: float) -> None:
        self.work = Bell(self._look)
        self.changes = Bell(self._look)
        self.presence = Presence(path)
        self._path = path
        self._clock = clock
        self._busy_timeout = busy_timeout
        self._requests: queue.SimpleQueue[_Request[Any] | _Signal] = queue.SimpleQueue()
        self._opened: Future[None] = Future()
        self._closed = False
        self._process: int | None = None
        self._lock = threading.Lock()
        self._seen_version: int | None = None
        self._claimed: dict[str, Claimed] = {}
        # A daemon: a process that forgets to close must still be able to end.
        self._thread = threading.Thread(target=self._run, name="holdfast-writer", daemon=True)

    def start(self) -> "Future[None]":
        """Start the thread; the future tells when the database is open and migrated."""
        self._process = os.getpid()
        self._opened.set_running_or_notify_cancel()  # whoever gives up waiting, it is told to stop
        self._thread.start()
        return self._opened

    def check_process(self) -> None:
        """Refuse to be used in a process forked from the one that started it.

        Raises:
            StoreClosed: this is one.
        """
        check_process(self._process, self._path)

    def submit(
        self, work: Callable[[Transaction], T], now: float | None = None
    ) -> "Future[tuple[T, int]]":
        """Have `work` done in a transaction.

        The future gives, once it is on disk, what `work` returned and how often `self.work` had
        rung when it was done.
        """
        self.check_process()
        request = _Request(work, now)
        with self._lock:
            if self._closed or self._process is None:
                raise StoreClosed(f"{self._path}: the store is not open")
            self._requests.put(request)
        return request.future

    def stop(self) -> None:
        """Take nothing more, and have the connection closed after what was submitted."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._requests.put(_Signal.STOP)

    def close(self) -> None:
        """Finish what was submitted, then close the connection. Blocks."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def _look(self) -> None:
        self._requests.put(_Signal.LOOK)

    def _run(self) -> None:
        try:
            db = connect(self._path, busy_timeout=self._busy_timeout)
        except BaseException as error:
            self._refuse_all(error)
            return
        try:
            try:
                migrate(db, self._clock.wall())
            except apsw.Error as error:
                raise store_error(error, self._path) from error
            self._seen_version = _data_version(db)
            self.presence.learn()
            self._opened.set_result(None)
            self._serve(db)
        except BaseException as error:
            self._refuse_all(error)
        finally:
            disconnect(db)

    def _refuse_all(self, error: BaseException) -> None:
        """Answer everybody who waits, and who comes later, that the writer is gone."""
        with self._lock:
            self._closed = True
        if not self._opened.done():
            self._opened.set_exception(error)
        with contextlib.suppress(queue.Empty):
            while True:
                request = self._requests.get_nowait()
                if isinstance(request, _Request) and request.future.set_running_or_notify_cancel():
                    request.future.set_exception(self._gone(error))

    def _serve(self, db: apsw.Connection) -> None:
        while True:
            group, last = self._next_group()
            if group:
                self._do(db, group)
            if last:
                return
            self._look_at_others(db)

    def _next_group(self) -> tuple[list[_Request[Any]], bool]:
        """Wait for requests and take all there are; the flag says that none will follow."""
        awaited = self.work.has_waiters or self.changes.has_waiters
        group: list[_Request[Any]] = []
        with contextlib.suppress(queue.Empty):
            item = self._requests.get(timeout=_POLL_SECONDS if awaited else None)
            while True:
                if item is _Signal.STOP:
                    return group, True
                if isinstance(item, _Request) and item.future.set_running_or_notify_cancel():
                    group.append(item)
                if len(group) == _MOST_AT_ONCE:
                    break
                item = self._requests.get_nowait()
        return group, False

    def _look_at_others(self, db: apsw.Connection) -> None:
        """Ring where another connection has committed since we looked."""
        version = _data_version(db)
        if version != self._seen_version:
            self._seen_version = version
            self.work.ring()
            self.changes.ring()

    def _do(self, db: apsw.Connection, group: list[_Request[Any]]) -> None:
        """Do the requests of `group` in one transaction, and answer them."""
        before = db.total_changes()
        try:
            done = self._do_all(db, group)
            self.presence.check()
        except BaseException as error:
            self._give_up(group, error)
            if not isinstance(error, Exception):
                raise
            return
        if db.total_changes() != before:
            self.changes.ring()
        for request in done:
            rings = self.work.ring() if request.woke else self.work.rings
            request.future.set_result((request.value, rings))

    def _do_all(self, db: apsw.Connection, group: list[_Request[Any]]) -> list[_Request[Any]]:
        """Do the requests of `group`, and return those that succeeded."""
        try:
            return self._commit(db, group)
        except apsw.FullError:
            if not _written_back(db):
                raise
        return self._commit(db, [request for request in group if not request.future.done()])

    def _commit(self, db: apsw.Connection, group: list[_Request[Any]]) -> list[_Request[Any]]:
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

    def _do_one(self, db: apsw.Connection, request: _Request[Any], *, alone: bool) -> bool:
        """Do one request; where it fails, undo it alone and answer it."""
        if not alone:
            db.execute("SAVEPOINT request")
        try:
            try:
                self._work(db, request)
            except Misremembered:
                # What was remembered is forgotten by now: this time it is read.
                db.execute("ROLLBACK; BEGIN IMMEDIATE" if alone else "ROLLBACK TO request")
                self._work(db, request)
        except Exception as error:
            if not db.in_transaction:  # SQLite itself rolled all of it back: disk full, I/O error
                raise
            db.execute("ROLLBACK" if alone else "ROLLBACK TO request")
            request.future.set_exception(self._told(error))
            return False
        finally:
            if not alone and db.in_transaction:
                db.execute("RELEASE request")
        return True

    def _work(self, db: apsw.Connection, request: _Request[Any]) -> None:
        now = self._clock.wall() if request.now is None else request.now
        if len(self._claimed) > _MOST_REMEMBERED:  # workers that never reported
            self._claimed.clear()
        tx = Transaction(db, now, self._claimed)
        request.value = request.work(tx)
        tx.flush()
        request.woke = tx.woke

    def _told(self, error: BaseException) -> Exception:
        """Return `error` as a caller is told of it, with its cause."""
        if not isinstance(error, Exception):
            return self._gone(error)
        if not isinstance(error, apsw.Error):
            return error
        told = store_error(error, self._path)
        told.__cause__ = error
        return told

    def _gone(self, error: BaseException) -> StoreClosed:
        return StoreClosed(f"{self._path}: the store is closed ({error!r})")

    def _give_up(self, group: list[_Request[Any]], error: BaseException) -> None:
        for request in group:
            if not request.future.done():
                request.future.set_exception(self._told(error))


def _data_version(db: apsw.Connection) -> int | None:
    """Return a number that changes when another connection commits; None where it is locked."""
    with contextlib.suppress(apsw.Error):
        rows: list[tuple[Any, ...]] = db.execute("PRAGMA data_version").fetchall()
        return int(rows[0][0])
    return None


def _written_back(db: apsw.Connection) -> bool:
    """Write the whole log back into the database; False where that cannot be done now.

    The log then begins anew in the room it has: on a full disk that may be room enough.
    """
    with contextlib.suppress(apsw.Error):
        rows: list[tuple[Any, ...]] = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        _, pages, written = rows[0]
        return bool(pages == written)
    return False
