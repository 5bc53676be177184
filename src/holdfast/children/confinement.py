"""Give up, for good, what a child that only computes does not need: rights, files, processes.

On Linux a child drops all capabilities, and a seccomp filter answers every system call that is not
in the table of `system_calls` with EPERM. Elsewhere, and where the kernel refuses the filter, the
resource limits hold and `ChildProcess.confined` is False.

`ctypes` is here because Python has no other way to call prctl, capset and seccomp. The Python
bindings of libseccomp need that library on every machine, and call it through ctypes too.
"""

import contextlib
import ctypes
import errno
import os
import platform
import signal
import struct
from pathlib import Path

from holdfast.children.system_calls import ARCHITECTURES, filter_program

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _FOR_ALL_THREADS = 1, 1
_STEP_BYTES = 8
_CAPABILITIES = 64
"""As many as the kernel has room for; it has about 40."""
_CAPABILITY_VERSION = 0x20080522
_NO_CAPABILITIES = bytes(24)
"""The effective, permitted and inheritable sets: their lower 32 bits, then their upper ones."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def die_with_parent() -> None:
    """Let Linux kill this process with its parent, and before others where memory runs out."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800", "ascii")


def confine() -> bool:
    """Refuse this process rights, files, sockets and other processes; say whether that holds.

    The filter holds for all threads, also for those that a library has started before. Capabilities
    are dropped by the thread that calls this and by those that it starts; the filter leaves the
    others nothing to use theirs for.
    """
    if platform.system() != "Linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    # Each of them is worth having without the others, but a filter needs the second.
    steps = (_drop_capabilities(libc), _refuse_new_rights(libc), _set_filter(libc))
    return all(steps)


def _drop_capabilities(libc: ctypes.CDLL) -> bool:
    """Give up what root may do."""
    for number in range(_CAPABILITIES):
        # Only root may do this, and only root needs to.
        if libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0 and ctypes.get_errno() != errno.EPERM:
            break
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0))
    return bool(libc.capset(header, _NO_CAPABILITIES) == 0)


def _refuse_new_rights(libc: ctypes.CDLL) -> bool:
    """Let no program that is started have more rights than this process."""
    return bool(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)


def _set_filter(libc: ctypes.CDLL) -> bool:
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        return False
    code = filter_program(machine, os.getpid())
    program = ctypes.byref(_Program(len(code) // _STEP_BYTES, code))
    return bool(libc.syscall(_SECCOMP[machine], _SET_FILTER, _FOR_ALL_THREADS, program) == 0)
