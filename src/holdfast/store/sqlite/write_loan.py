"""The write lock, lent to the transaction of a handler, or of an app's own code.

SQLite has one write lock, and the writer's thread is the only one of this process that takes it.
For the transaction of a handler the thread begins a transaction on another connection, lends that
to the handler, and waits until the handler has ended or its time is over. So the transactions of
handlers and the writes of the store take turns, and none of them meets a locked database. The same
holds for `engine.database.transaction()`.

The handler cannot commit by itself: a hook turns every commit on that connection that is not ours
into a rollback. That also holds for what it executes after its time is over.
"""

import queue
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.exceptions import ContextError
from holdfast.jobs.store_values import TransactionTooLong
from holdfast.store.sqlite.connection import store_error

_PAUSE = 0.005
"""Most seconds between two tries to take a lock that another process holds."""


@dataclass(frozen=True, slots=True)
class LoanWords:
    """How error messages speak of a loan.

    `holder` is who had the lock, `ended` what was wrong where the block ended its transaction, and
    `advice` what to do where the transaction took too long.
    """

    holder: str
    ended: str
    advice: str


HANDLER = LoanWords(
    "a handler's transaction",
    "the transaction was ended inside the block of ctx.transaction(); the worker commits it, with "
    "the completion of the job",
    "Do slow work before ctx.transaction(); inside, enqueue with ctx.enqueue()",
)

Ending = Callable[[apsw.Connection], tuple[Any, bool]]
"""Executes the last statements of a transaction; returns a value, and whether to commit."""


class WriteLoan:
    """One transaction of a handler.

    Args:
        path: the database file.
        open_connection: returns the connection; called on the writer's thread.
        seconds: how long the transaction may last.
        busy_timeout: seconds to wait for another process.
        words: how error messages speak of it.

    Attributes:
        began: done when the transaction has begun.
        seconds: how long the transaction may last.
    """

    def __init__(
        self,
        path: Path,
        open_connection: Callable[[], apsw.Connection],
        *,
        seconds: float,
        busy_timeout: float,
        words: LoanWords = HANDLER,
    ) -> None:
        self.began: Future[apsw.Connection] = Future()
        self._path = path
        self._open = open_connection
        self.seconds = seconds
        self._busy_timeout = busy_timeout
        self._words = words
        self._endings: queue.SimpleQueue[tuple[Ending | None, Future[Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_over = False
        self._may_commit = self._refused_commit = self._was_rolled_back = False
        self._inline: tuple[apsw.Connection, Callable[[], None]] | None = None

    # -- called by the handler's side, from any thread -----------------------------------------

    def end(self, ending: Ending | None) -> "Future[Any]":
        """Call `ending` on the writer's thread and commit, if it says so; by default roll back.

        Raises:
            TransactionTooLong: it was rolled back because its time was over.
        """
        done: Future[Any] = Future()
        with self._lock:
            if self._is_over:
                raise self._too_long()
            if self._inline is None:
                self._endings.put((ending, done))
                return done
        connection, on_end = self._inline
        self._finish(connection, ending, done)
        on_end()
        return done

    def why_ended(self) -> Exception | None:
        """Return the error that says why the transaction has ended under the handler, if it has."""
        if self._is_over:
            return self._too_long()
        return ContextError(self._words.ended) if self._refused_commit else None

    def _too_long(self) -> TransactionTooLong:
        return TransactionTooLong(
            f"{self._path}: {self._words.holder} held the only write lock for more than "
            f"{self.seconds:g} s and was rolled back. {self._words.advice}"
        )

    # -- called on the writer's thread ---------------------------------------------------------

    def serve(self) -> None:
        """Begin, wait for the end, and end it."""
        connection = self._start()
        if connection is None:
            return
        try:
            ending, done = self._next_ending()
        except queue.Empty:
            _roll_back(connection)
        else:
            self._finish(connection, ending, done)

    def serve_inline(self, on_end: Callable[[], None]) -> bool:
        """Begin now; `end` then ends it in the thread that calls it, and calls `on_end`.

        For a writer without a thread, as tests on virtual time use it; that writer calls `expire`
        after `seconds`. False: it did not begin.
        """
        connection = self._start()
        if connection is not None:
            self._inline = connection, on_end
        return connection is not None

    def expire(self) -> None:
        """Roll back what `serve_inline` has begun, because its time is over."""
        assert self._inline is not None
        connection, on_end = self._inline
        self._is_over = True
        _roll_back(connection)
        on_end()

    def _start(self) -> apsw.Connection | None:
        """Begin, and notify the handler; None if it no longer waits, or that failed."""
        if not self.began.set_running_or_notify_cancel():
            return None
        try:
            connection = self._begin()
        except BaseException as error:
            self.began.set_exception(self._as_store_error(error))
            self._answer_endings()
            if not isinstance(error, Exception):
                raise
            return None
        self.began.set_result(connection)
        return connection

    def _finish(
        self, connection: apsw.Connection, ending: Ending | None, done: "Future[Any]"
    ) -> None:
        if not done.set_running_or_notify_cancel():
            _roll_back(connection)
            return
        try:
            value = self._end(connection, ending)
        except BaseException as error:
            _roll_back(connection)
            done.set_exception(self._as_store_error(error))
            if not isinstance(error, Exception):
                raise
        else:
            _roll_back(connection)  # changes nothing after a commit
            done.set_result(value)

    def refuse(self, error: Exception) -> None:
        """Answer that there will be no transaction."""
        if self.began.set_running_or_notify_cancel():
            self.began.set_exception(error)
            self._answer_endings()

    def _begin(self) -> apsw.Connection:
        connection = self._open()
        until = SYSTEM_CLOCK.monotonic() + self._busy_timeout
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except apsw.BusyError:
                # The caller's own connection may not wait by itself.
                if SYSTEM_CLOCK.monotonic() >= until:
                    raise
                SYSTEM_CLOCK.sleep(random.Random().uniform(0, _PAUSE))
            else:
                connection.set_commit_hook(self._refuses_commit, id=self)
                connection.set_rollback_hook(self._note_rollback, id=self)
                return connection

    def _refuses_commit(self) -> bool:
        self._refused_commit = not self._may_commit
        return self._refused_commit

    def _note_rollback(self) -> None:
        self._was_rolled_back = True

    def _next_ending(self) -> tuple[Ending | None, "Future[Any]"]:
        try:
            return self._endings.get(timeout=self.seconds)
        except queue.Empty:
            with self._lock:
                self._is_over = True
            return self._endings.get_nowait()

    def _answer_endings(self) -> None:
        """Answer those who end a transaction that never began."""
        with self._lock:
            self._is_over = True
        while not self._endings.empty():
            _, done = self._endings.get_nowait()
            if done.set_running_or_notify_cancel():
                done.set_result(None)

    def _end(self, connection: apsw.Connection, ending: Ending | None) -> Any:
        if ending is None:
            return None
        if not connection.in_transaction or self._was_rolled_back:
            raise ContextError(self._words.ended)
        value, commits = ending(connection)
        if commits:
            self._may_commit = True
            connection.execute("COMMIT")
        return value

    def release(self, connection: apsw.Connection) -> None:
        """Let the caller's own connection commit again."""
        connection.set_commit_hook(None, id=self)
        connection.set_rollback_hook(None, id=self)

    def _as_store_error(self, error: BaseException) -> BaseException:
        if not isinstance(error, apsw.Error):
            return error
        translated = store_error(error, self._path)
        translated.__cause__ = error
        return translated


def _roll_back(connection: apsw.Connection) -> None:
    """Roll back, also while the handler's thread executes a statement: that is interrupted."""
    while True:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except apsw.ThreadingViolationError:
            connection.interrupt()
            SYSTEM_CLOCK.sleep(_PAUSE)
        except apsw.Error:
            return
        else:
            return
