"""Connections: how a database file is opened, and what SQLite's errors mean to a caller.

SQLite locks a file with POSIX record locks. They belong to the process: closing any other
descriptor of the file in the same process releases them all. SQLite knows its own descriptors and
takes care, so the file is opened only through apsw's copy of SQLite and never in another way.

A forked child inherits the connections but not the locks. SQLite's tables in the child still say
that the locks are held, so no connection in it is safe: an inherited one must not be used or even
closed (a rollback would write into the write-ahead log's index, which parent and child share), and
a new one to the same file would rely on locks that the child does not have. Both are refused.
"""

import errno
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.store_port import (
    ConstraintViolated,
    StoreBusy,
    StoreClosed,
    StoreDiskError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnusable,
)

MINIMUM_VERSION = (3, 51, 3)
"""Older ones can corrupt a WAL database that two connections write to."""

_CHECKPOINT_PAGES = 4000
_LOG_BYTES = 64 * 1024 * 1024
# What a tick touches fits many times over, and more would cost: a commit in which pages were split
# walks over the whole cache.
_CACHE_KIB = 8 * 1024
_STATEMENTS = 200
_SHORTEST_WAIT = 0.0005
_LONGEST_WAIT = 0.01

# Every open connection, with its process and its file's real path. It also keeps inherited
# connections referenced in a forked child, where garbage collection would close them.
_open: dict[apsw.Connection, tuple[int, str]] = {}


def check_version(version: str | None = None) -> None:
    """Refuse an SQLite library that is too old.

    Raises:
        StoreUnusable: it is; the message says what to do.
    """
    found = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")[:3]) < MINIMUM_VERSION:
        needed = ".".join(map(str, MINIMUM_VERSION))
        raise StoreUnusable(
            f"SQLite {found} can corrupt a database that several processes write to; "
            f"{needed} or newer is needed: pip install --upgrade 'apsw>={needed}.0'"
        )


def check_process(opened_by: int | None, path: Path) -> None:
    """Refuse a store that was opened by another process, the one this was forked from.

    Raises:
        StoreClosed: it was; the message says what to do.
    """
    if opened_by not in {None, os.getpid()}:
        raise StoreClosed(
            f"{path}: the store was opened by process {opened_by} and cannot be used in a process "
            "forked from it: open the engine in the child only, or start the child with spawn"
        )


def _check_not_inherited(path: Path) -> None:
    own, file = os.getpid(), os.path.realpath(path)
    if any(process != own and file == name for process, name in _open.values()):
        raise StoreUnusable(
            f"{path}: the file was open when this process was forked, and SQLite cannot open it "
            "again here: open the engine in the child only, or start the child with spawn"
        )


def connect(path: Path, *, busy_timeout: float, read_only: bool = False) -> apsw.Connection:
    """Open `path`; a lock held by others is waited for up to `busy_timeout` seconds.

    Raises:
        StoreUnusable: it cannot be opened, is not a database, or was open before a fork.
        StoreUnavailable: it is locked or unreadable at the moment.
    """
    flags = (
        apsw.SQLITE_OPEN_READONLY
        if read_only
        else (apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    )
    _check_not_inherited(path)
    with translated(path):
        connection = apsw.Connection(str(path), flags=flags, statementcachesize=_STATEMENTS)
        _open[connection] = (os.getpid(), os.path.realpath(path))
        try:
            if not read_only:
                _use_write_ahead_log(connection, busy_timeout)
            _wait_for_locks(connection, busy_timeout)
            _configure(connection, read_only)
        except apsw.Error:
            disconnect(connection)
            raise
    return connection


def disconnect(connection: apsw.Connection) -> None:
    """Close what `connect` opened."""
    connection.close()
    del _open[connection]


def _configure(connection: apsw.Connection, read_only: bool) -> None:
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}").fetchall()
    # Statement journals of large updates: in a file they cost more than the update itself.
    connection.execute("PRAGMA temp_store = MEMORY").fetchall()
    if read_only:
        connection.execute("PRAGMA query_only = ON").fetchall()
        return
    connection.execute("PRAGMA synchronous = FULL").fetchall()
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}").fetchall()
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}").fetchall()


def _use_write_ahead_log(connection: apsw.Connection, busy_timeout: float) -> None:
    """Switch a new file to a write-ahead log.

    Others may open the new file at the same time. The switch holds a shared lock and needs an
    exclusive one, so two that waited inside SQLite would deadlock: each releases and tries again.
    """
    until, rng, mode = SYSTEM_CLOCK.monotonic() + busy_timeout, random.Random(), ""
    while not mode:
        try:
            mode = str(connection.execute("PRAGMA journal_mode = WAL").fetchall()[0][0])
        except apsw.BusyError:
            if SYSTEM_CLOCK.monotonic() >= until:
                raise
            SYSTEM_CLOCK.sleep(rng.uniform(_SHORTEST_WAIT, _LONGEST_WAIT))
    if mode != "wal":
        raise apsw.CantOpenError(f"the file system does not support WAL (journal mode is {mode})")


def _wait_for_locks(connection: apsw.Connection, busy_timeout: float) -> None:
    """Wait in short, random steps: SQLite's own handler soon sleeps 100 ms at a time."""
    began = 0.0
    rng = random.Random()

    def wait_again(times: int) -> bool:
        nonlocal began
        now = SYSTEM_CLOCK.monotonic()
        if times == 0:
            began = now
        if now - began >= busy_timeout:
            return False
        longest = min(_LONGEST_WAIT, _SHORTEST_WAIT * 2 ** min(times, 10))
        SYSTEM_CLOCK.sleep(rng.uniform(_SHORTEST_WAIT, max(_SHORTEST_WAIT, longest)))
        return True

    connection.set_busy_handler(wait_again)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about the database file `path` into a store's."""
    try:
        yield
    except apsw.Error as error:
        raise store_error(error, path) from error


def store_error(error: apsw.Error, path: Path) -> StoreError:
    """Return what `error` means to a caller of the store."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusy(f"{path}: another process keeps the database locked")
    if isinstance(error, apsw.FullError) or _extended(error) == apsw.SQLITE_IOERR_SHMSIZE:
        return StoreFull(f"{path}: the disk is full")
    if isinstance(error, apsw.ConstraintError):
        return ConstraintViolated(f"{path}: {error}")
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return StoreUnusable(f"{path}: not an intact SQLite database ({error})")
    if isinstance(error, apsw.CantOpenError) and _out_of_descriptors():
        return StoreUnavailable(
            f"{path}: the process has no file descriptor left to open the database with; find out "
            "what keeps so many open, or allow more (ulimit -n)"
        )
    if isinstance(error, apsw.CantOpenError):
        return StoreUnusable(
            f"{path}: the database cannot be opened ({error}); "
            "check that its folder exists and may be written to"
        )
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError | apsw.AuthError):
        return StoreUnusable(f"{path}: the database may not be written to ({error})")
    if isinstance(error, apsw.IOError):
        return StoreDiskError(f"{path}: the database cannot be read or written now ({error})")
    if isinstance(error, apsw.NoMemError | apsw.InterruptError):
        return StoreUnavailable(f"{path}: the database cannot be read or written now ({error})")
    return StoreError(f"{path}: {error}")


def _extended(error: apsw.Error) -> int:
    return int(getattr(error, "extendedresult", 0))


def _out_of_descriptors() -> bool:
    """Find out by opening a file: SQLite does not say why it could not."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in {errno.EMFILE, errno.ENFILE}
    return False
