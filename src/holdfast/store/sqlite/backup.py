"""Copy a database file while others write to it, and make a restored copy ready to be used."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from holdfast.jobs.store_port import StoreUnusable
from holdfast.store.sqlite.connection import check_version, connect, disconnect, translated
from holdfast.store.sqlite.migrations import recorded

_STEP_PAGES = 2000
"""Pages that are copied at once; between two steps, Ctrl-C is noticed."""

# No worker of the copied file runs here, even where a process of the same id does.
_END_LEASES = """
BEGIN IMMEDIATE;
UPDATE holdfast_jobs SET lease_expires_at = 0 WHERE lease_expires_at IS NOT NULL;
UPDATE holdfast_leaders SET expires_at = 0;
DELETE FROM holdfast_workers;
COMMIT;
"""


class DatabaseFile:
    """The database file at `path`, to be copied or put back.

    Args:
        path: the file.
        busy_timeout: seconds to wait for a lock before `StoreBusy` is raised.
    """

    def __init__(self, path: Path, busy_timeout: float = 5.0) -> None:
        self.path = path
        self._busy_timeout = busy_timeout
        self._reader: apsw.Connection | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Have the file open while the block runs.

        Raises:
            StoreUnusable: there is none, or it is not a database.
        """
        check_version()
        if not self.path.exists():
            raise StoreUnusable(f"{self.path}: there is no database to copy")
        self._reader = connect(self.path, busy_timeout=self._busy_timeout, read_only=True)
        try:
            yield
        finally:
            disconnect(self._reader)
            self._reader = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Keep every process from writing while the block runs; `copy` copies this state.

        Keep the block short: others wait a few seconds for their turn, then fail.
        """
        assert self._reader is not None
        with translated(self.path):
            writer = connect(self.path, busy_timeout=self._busy_timeout)
            try:
                writer.execute("BEGIN IMMEDIATE")
                # Reading is what fixes the state that the transaction sees.
                self._reader.execute("BEGIN; SELECT * FROM sqlite_schema LIMIT 1").fetchall()
                yield
            finally:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                disconnect(writer)

    def copy(self, target: Path) -> int:
        """Write the state of `frozen` to the new file `target`; return its schema's version.

        Others go on writing meanwhile. The copy is checked.

        Raises:
            StoreUnusable: the copy is damaged, and so is the file.
        """
        assert self._reader is not None
        with translated(self.path):
            copied = apsw.Connection(str(target))
            try:
                with copied.backup("main", self._reader, "main") as backup:
                    while not backup.done:
                        backup.step(_STEP_PAGES)
                # One file: without a log beside it.
                copied.execute("PRAGMA journal_mode = DELETE").fetchall()
                self._check(copied)
                return max(recorded(copied), default=0)
            finally:
                copied.close()

    def _check(self, copied: apsw.Connection) -> None:
        found = copied.execute("PRAGMA quick_check(1)").fetchall()[0][0]
        if found != "ok":
            raise StoreUnusable(f"{self.path}: the database is damaged ({found})")


def end_leases(path: Path) -> None:
    """Let the jobs that ran when a copy was made be claimed again, in the copy at `path`."""
    with translated(path):
        copied = apsw.Connection(str(path))
        try:
            copied.execute(_END_LEASES).fetchall()
        finally:
            copied.close()
