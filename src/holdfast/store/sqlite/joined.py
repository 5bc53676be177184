"""Enqueue inside a caller's own transaction on the same file."""

import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.jobs.model import Enqueued, NewJob
from holdfast.store.joining import Execute, join
from holdfast.store.sqlite.enqueue import enqueue_with
from holdfast.store.sqlite.locks import lock_by_open_file

_FILE = "SELECT file FROM pragma_database_list WHERE name = 'main'"
# Writes nothing, and takes the write lock: a driver that opens a transaction by itself does so
# here, and what is read from now on is what will be written upon.
_TAKE_THE_LOCK = "UPDATE lanes SET held = held WHERE false"


async def enqueue_on(
    path: Path, connection: object, jobs: Sequence[NewJob], now: float
) -> tuple[Enqueued, ...]:
    """Create `jobs` inside the transaction of `connection`, whose owner decides what becomes of it.

    Raises:
        TypeError: it is no connection to the file `path`, or of a library that cannot share it.
        NoTransaction: it commits every statement by itself.
    """
    transaction = join(connection)
    if transaction.database != "sqlite":
        raise TypeError(
            f"connection= is one of a {transaction.database} database, and the jobs are in the "
            f"file {path}: only a transaction of the same database can hold both"
        )
    _check_library(connection)

    def work(execute: Execute) -> tuple[Enqueued, ...]:
        file = execute(_FILE, {})[0][0]
        if not file or not path.samefile(file):
            raise TypeError(
                f"connection= is one of another file than {path}: only a transaction of the same "
                "database can hold both"
            )
        execute(_TAKE_THE_LOCK, {})
        return enqueue_with(execute, jobs, now)

    return await transaction.run(work)


def _check_library(connection: object) -> None:
    """Refuse another SQLite library in this process where its locks and ours do not see each other.

    Raises:
        TypeError: they do not.
    """
    apsw = sys.modules["apsw"]
    if not isinstance(connection, apsw.Connection) and not lock_by_open_file():
        raise TypeError(
            "on this system a sqlite3 connection beside the engine's own would damage the "
            "database: pass an apsw connection, or enqueue after the commit"
        )
