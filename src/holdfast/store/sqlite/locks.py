"""Locks that a second SQLite library in the same process can neither break nor ignore.

SQLite locks a file with POSIX record locks. Those belong to the process: a second copy of the
library in it (Python's own `sqlite3` beside ours) is let through where it should wait, and when it
closes the file our locks are gone. Two writers at once lose each other's commits, and the last one
out deletes the log under the other. Yet joining a caller's transaction on a `sqlite3` connection
means exactly that: both in one process, on one file.

Linux has locks that belong to the open file instead (`F_OFD_SETLK`). They exclude POSIX locks, also
those of the same process, and closing another descriptor leaves them alone. So our library is told
to make its lock calls through a function that asks for those.

It is a few instructions of the machine and no function of Python's. SQLite locks under mutexes that
all connections to a file share, and apsw keeps the interpreter's lock while it closes one: a thread
that closes would wait for the mutex of one that locks, and that one for the interpreter's.
"""

import ctypes
import fcntl
import mmap
import platform
import struct
import sys
import tempfile
from functools import cache

import apsw

_WANTED = getattr(fcntl, "F_OFD_SETLK", 0)

# fcntl(descriptor, command, argument). Of the three lock commands, 5 to 7, the ones that lock by
# open file are 31 further on; these demand that l_pid, at 24 in struct flock, is 0, which SQLite
# leaves open. Then on to the system's own fcntl, whose address follows.
_CODE = {
    "x86_64": (
        "f30f1efa"        # endbr64
        "8d46fb"          # lea  eax, [rsi - 5]
        "83f802"          # cmp  eax, 2
        "770a"            # ja   1f
        "83c61f"          # add  esi, 31
        "c7421800000000"  # mov  dword [rdx + 24], 0
        "31c0"            # 1: xor eax, eax
        "49bb%s"          # mov  r11, fcntl
        "41ffe3"          # jmp  r11
    ),
    "aarch64": (
        "5f2403d5"  # bti  c
        "29140051"  # sub  w9, w1, #5
        "3f090071"  # cmp  w9, #2
        "68000054"  # b.hi 1f
        "217c0011"  # add  w1, w1, #31
        "5f1800b9"  # str  wzr, [x2, #24]
        "50000058"  # 1: ldr x16, fcntl
        "00021fd6"  # br   x16
        "%s"        # fcntl
    ),
}  # fmt: skip


@cache
def lock_by_open_file() -> bool:
    """Have our SQLite lock by open file from now on; False where the system cannot.

    Done once a process, before the first connection is opened.
    """
    code = _CODE.get(platform.machine()) if sys.platform == "linux" else None
    if code is None or not _kernel_can():
        return False
    function = _placed(code)
    if function is None:
        return False
    vfs = apsw.VFS("holdfast-locks", base="unix", makedefault=False)
    try:
        return vfs.xSetSystemCall("fcntl", function)
    finally:
        vfs.unregister()


def _kernel_can() -> bool:
    """Try such a lock on a file of our own."""
    # struct flock of 64-bit Linux: type, whence, start, length, process.
    lock = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 1, 0)
    try:
        with tempfile.TemporaryFile() as file:
            fcntl.fcntl(file, _WANTED, lock)
    except OSError:
        return False
    return _WANTED != 0


def _placed(code: str) -> int | None:
    """Put `code` where it can be run, for as long as the process lives; None where that may not be.

    Connections may outlive every module at the end of the process; so must what they call.
    """
    system = ctypes.CDLL(None, use_errno=True)
    target = ctypes.cast(system.fcntl, ctypes.c_void_p).value or 0
    data = bytes.fromhex(code % target.to_bytes(8, "little").hex())
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    )  # fmt: skip
    writable, private = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    place = system.mmap(None, mmap.PAGESIZE, writable, private, -1, 0)
    if place in (None, ctypes.c_void_p(-1).value):
        return None
    ctypes.memmove(place, data, len(data))
    readable = mmap.PROT_READ | mmap.PROT_EXEC
    if system.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(mmap.PAGESIZE), readable) != 0:
        return None
    return int(place)
