"""Locks that a second SQLite library in the same process can neither break nor ignore.

SQLite locks a file with POSIX record locks. Those belong to the process: a second copy of the
library in it (Python's own `sqlite3` beside ours) is let through where it should wait, and when it
closes the file our locks are gone. Two writers at once lose each other's commits, and the last one
out deletes the log under the other. Yet joining a caller's transaction on a `sqlite3` connection
means exactly that: both in one process, on one file.

Linux has locks that belong to the open file instead (`F_OFD_SETLK`). They exclude POSIX locks, also
those of the same process, and closing another descriptor leaves them alone. So our library is told
to make its lock calls through a function that asks for those.

No other call may be replaced by one of Python's: apsw keeps the interpreter's lock while it closes,
and `close` is called under a mutex that all connections share. Two that close at once would wait
for each other for ever.
"""

import ctypes
import fcntl
import platform
import sys
import tempfile
from functools import cache

import apsw

_BY_OPEN_FILE = {
    fcntl.F_SETLK: getattr(fcntl, "F_OFD_SETLK", 0),
    fcntl.F_SETLKW: getattr(fcntl, "F_OFD_SETLKW", 0),
    fcntl.F_GETLK: getattr(fcntl, "F_OFD_GETLK", 0),
}
locked_descriptors: set[int] = set()
"""What our SQLite has ever locked; by now a number may be another file's."""

# Where a function with three plain arguments can stand in for one with a variable number.
_MACHINES = frozenset({"x86_64", "aarch64"})


class _Flock(ctypes.Structure):
    """`struct flock` of 64-bit Linux."""

    _fields_ = (
        ("l_type", ctypes.c_short),
        ("l_whence", ctypes.c_short),
        ("l_start", ctypes.c_int64),
        ("l_len", ctypes.c_int64),
        ("l_pid", ctypes.c_int),
    )


@cache
def lock_by_open_file() -> bool:
    """Have our SQLite lock by open file from now on; False where the system cannot.

    Done once a process, before the first connection is opened.
    """
    if sys.platform != "linux" or platform.machine() not in _MACHINES or not _kernel_can():
        return False
    function = _lock_function()
    # Connections may outlive every module at the end of the process; so must what they call.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
    vfs = apsw.VFS("holdfast-locks", base="unix", makedefault=False)
    try:
        return vfs.xSetSystemCall("fcntl", ctypes.cast(function, ctypes.c_void_p).value or 0)
    finally:
        vfs.unregister()


def _kernel_can() -> bool:
    """Try such a lock on a file of our own."""
    wanted = _BY_OPEN_FILE[fcntl.F_SETLK]
    lock = bytes(_Flock(fcntl.F_WRLCK, 0, 0, 1, 0))
    try:
        with tempfile.TemporaryFile() as file:
            fcntl.fcntl(file, wanted, lock)
    except OSError:
        return False
    return wanted != 0


def _lock_function() -> "ctypes._FuncPointer":
    signature = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, use_errno=True
    )
    system = signature(("fcntl", ctypes.CDLL(None, use_errno=True)))
    by_open_file, cast, flock = dict(_BY_OPEN_FILE), ctypes.cast, ctypes.POINTER(_Flock)
    descriptors = locked_descriptors

    def lock(descriptor: int, command: int, argument: int) -> int:
        wanted = by_open_file.get(command)
        if wanted is None:
            return int(system(descriptor, command, argument))
        descriptors.add(descriptor)
        cast(argument, flock).contents.l_pid = 0  # which the kernel demands and SQLite leaves open
        return int(system(descriptor, wanted, argument))

    return signature(lock)
