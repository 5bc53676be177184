"""Ask the operating system whether the process of a worker lives.

A process id alone says little: the system uses it again, and it means another process in another
container. So a process is known by its id, its start time, the boot of the machine and the
namespace of process ids. Only Linux reports all of these; elsewhere the lease alone says when a
worker is dead.
"""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_STATE, _STARTED = 0, 19
"""Fields of /proc/<pid>/stat, counted after the command's name."""
_ENDED = ("Z", "X")
"""States of a process that has ended, whether or not its parent has noticed."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process of this machine. `started` is in clock ticks since the boot."""

    boot: str
    namespace: str
    pid: int
    started: int

    @classmethod
    def own(cls) -> "ProcessIdentity | None":
        """Return this process; None where the system does not report it."""
        try:
            namespace = str(_NAMESPACE.readlink())
            started = int(_stat(os.getpid())[_STARTED])
        except OSError:
            return None
        boot = boot_id()
        return None if boot is None else cls(boot, namespace, os.getpid(), started)

    def has_died(self, seen_from: "ProcessIdentity") -> bool:
        """Say whether it has certainly ended; `seen_from` is the process that asks."""
        if (self.boot, self.namespace) != (seen_from.boot, seen_from.namespace):
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # it is another user's
        try:
            fields = _stat(self.pid)
        except ProcessLookupError:
            return True
        except OSError:
            return False  # the system hides the processes of other users
        return fields[_STATE] in _ENDED or int(fields[_STARTED]) != self.started


@cache
def boot_id() -> str | None:
    """Return the id of the machine's last boot; None where the system does not report it."""
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return None


def _stat(pid: int) -> list[str]:
    # The name of the command is in parentheses and may contain anything.
    return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
