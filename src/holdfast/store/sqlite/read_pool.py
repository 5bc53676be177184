"""Connections that read, each in its own thread: a page never waits for a worker's commit."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import apsw

from holdfast.jobs.store_port import StoreClosed
from holdfast.store.sqlite.connection import check_process, connect, disconnect, store_error
from holdfast.store.sqlite.file_identity import FileIdentity
from holdfast.store.sqlite.transaction import SQL, Row

T = TypeVar("T")


class Snapshot:
    """One consistent view of the database."""

    __slots__ = ("_db",)

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def rows(self, query: str, parameters: dict[str, Any] | None = None) -> list[Row]:
        """Run the named `query` and return all its rows."""
        return self.execute(SQL[query], parameters)

    def execute(self, sql: str, parameters: dict[str, Any] | None = None) -> list[Row]:
        """Run `sql` and return all its rows."""
        return self._db.execute(sql, parameters).fetchall()


class ReadPool:
    """A few threads with one connection each. `files` is checked before each read."""

    def __init__(self, path: Path, threads: int, busy_timeout: float, files: FileIdentity) -> None:
        self._path = path
        self._files = files
        self._busy_timeout = busy_timeout
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="holdfast-reader")
        self._own = threading.local()
        self._all: list[apsw.Connection] = []
        self._lock = threading.Lock()
        self._closed = False
        self._process = os.getpid()

    async def read(self, question: Callable[[Snapshot], T]) -> T:
        """Answer `question` from a view that holds everything committed before now.

        Raises:
            StoreClosed: the pool was closed, or belongs to the process this was forked from.
        """
        self.check_open()
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._answer, question)

    def check_open(self) -> None:
        """Check that the pool can be used; raises what `read` raises."""
        check_process(self._process, self._path)
        if self._closed:
            raise StoreClosed(f"{self._path}: the store is not open")

    def _answer(self, question: Callable[[Snapshot], T]) -> T:
        self._files.check()
        try:
            db = self._connection()
            db.execute("BEGIN")
            try:
                return question(Snapshot(db))
            finally:
                db.execute("ROLLBACK")
        except apsw.Error as error:
            raise store_error(error, self._path) from error

    def _connection(self) -> apsw.Connection:
        db: apsw.Connection | None = getattr(self._own, "db", None)
        if db is None:
            db = connect(self._path, busy_timeout=self._busy_timeout, read_only=True)
            self._own.db = db
            with self._lock:
                self._all.append(db)
        return db

    def close(self) -> None:
        """Finish the reads under way and close the connections. Blocks."""
        self._closed = True
        self._pool.shutdown(wait=True)
        with self._lock:
            for db in self._all:
                disconnect(db)
            self._all.clear()
