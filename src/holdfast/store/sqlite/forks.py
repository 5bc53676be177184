"""Let go, in a forked child, of every database that its parent has open.

Locks by open file (see `locks`) belong to all who have the open file, and a child inherits it: were
the parent killed, its write lock would live on in a child that knows nothing of it. Yet SQLite must
not close anything there, for with that it unlocks: the parent's locks would be gone too.

So the child's descriptors are made to point at nothing, its maps of the log's index (which keep the
file open as well) become memory of its own, and its connections are never freed. SQLite's tables in
the child go on to say that the database is open and locked as it was at the fork. Opened again
there, it would believe them: that is refused.
"""

import ctypes
import mmap
import os
from functools import cache
from pathlib import Path

import apsw

from holdfast.jobs.store_port import StoreUnusable

_FIXED = 0x10  # MAP_FIXED of Linux
_opened: dict[int, str] = {}
_inherited: set[str] = set()


def check_not_inherited(path: Path) -> None:
    """Refuse a database that was open in the process of which this one is a fork.

    Raises:
        StoreUnusable: it was.
    """
    if os.path.realpath(path) in _inherited:
        raise StoreUnusable(
            f"{path}: it was open when this process was forked from another, and cannot be opened "
            "again here: start the process with spawn, or open the engine only in the child"
        )


def watch(connection: apsw.Connection, path: Path) -> None:
    """Have children let go of `connection`, one to `path`, that are forked from now on."""
    _opened[id(connection)] = os.path.realpath(path)
    _let_go_in_children()


def unwatch(connection: apsw.Connection) -> None:
    """Forget `connection`: it is closed."""
    _opened.pop(id(connection), None)


@cache
def _let_go_in_children() -> None:
    os.register_at_fork(after_in_child=_let_go)


def _let_go() -> None:
    ours = {name: real for real in _opened.values() for name in (real, f"{real}-shm")}
    files = {descriptor: _file_of(descriptor) for descriptor in _descriptors()}
    held = {descriptor: ours[name] for descriptor, name in files.items() if name in ours}
    if not held:
        return
    _inherited.update(held.values())
    _opened.clear()
    # They would be closed when they are freed.
    for connection in apsw.connections():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    _replace_maps(ours)
    # In place of being closed, for their numbers stand in SQLite's tables; and read-only, for then
    # no lock can be had that would let it delete the log.
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for descriptor in held:
        os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def _descriptors() -> list[int]:
    if not _opened:
        return []
    return [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]


def _file_of(descriptor: int) -> str:
    try:
        name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        return ""
    return name.removesuffix(" (deleted)")


def _replace_maps(files: dict[str, str]) -> None:
    """Put memory of our own where `files` are mapped."""
    system = ctypes.CDLL(None, use_errno=True).mmap
    system.restype = ctypes.c_void_p
    number = ctypes.c_int
    system.argtypes = (ctypes.c_void_p, ctypes.c_size_t, number, number, number, ctypes.c_long)
    readable, private = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    for line in maps.splitlines():
        span, *_, name = line.split(maxsplit=5)
        if name.removesuffix(" (deleted)") in files:
            start, end = (int(bound, 16) for bound in span.split("-"))
            system(start, end - start, readable, private | _FIXED, -1, 0)
