"""Give up, for good, what a child that only computes does not need: rights, files, processes.

On Linux a child drops all capabilities, and a seccomp filter answers every system call that is not
in the table of `system_calls` with EPERM. Elsewhere, and where the kernel refuses the filter, the
resource limits hold and `ChildProcess.confined` is False.

`ctypes` is here because Python has no other way to call prctl, which sets the filter and the death
signal, and capset. The Python bindings of libseccomp need that library on every machine, and call
it through ctypes too.
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

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38
_FILTER_MODE = 2
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

    The filter holds for the thread that calls this and for those that it starts: there must be no
    other thread yet.
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
    program = _Program(len(code) // _STEP_BYTES, code)
    return bool(libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) == 0)
