"""Inspect and stop processes through /proc."""

import os
import signal
import time
from pathlib import Path

import apsw
from tests.support.waiting import SOON


def children_of(pid: int) -> list[int]:
    """Return the ids of the direct children of `pid`."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter: it ended after the open
        return False
    return state != "Z"


def pause(pid: int, database: Path) -> None:
    """Stop a process (SIGSTOP) while it does not hold the write lock of a SQLite file.

    Stopped during a transaction it would keep every other process from writing. If the file does
    not exist, the process uses a server.
    """
    end = time.monotonic() + SOON
    os.kill(pid, signal.SIGSTOP)
    while database.exists() and not _can_write(database):
        assert time.monotonic() < end, f"process {pid} holds the write lock all the time"
        os.kill(pid, signal.SIGCONT)
        _can_write(database)  # which waits for the end of its transaction
        os.kill(pid, signal.SIGSTOP)


def _can_write(database: Path) -> bool:
    """Return whether the write lock is free within a second; others may be writing."""
    connection = apsw.Connection(str(database))
    connection.set_busy_timeout(1000)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except apsw.BusyError:
        return False
    finally:
        connection.close()
    return True
