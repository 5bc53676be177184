"""Give up, for good, what a child that only computes does not need: files, sockets, processes.

On Linux a seccomp filter answers such calls with EPERM. Elsewhere, and where the kernel refuses the
filter, only the resource limits hold, and `ChildProcess.confined` is False. `ctypes` is here
because Python has no other way to call prctl, which sets the filter and the death signal.
"""

import contextlib
import ctypes
import os
import platform
import signal
import struct
from pathlib import Path

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NUMBERS = {
    # open creat openat openat2 truncate rename* mkdir* rmdir link* unlink* symlink* mknod* chmod*
    # chown*; socket connect accept* bind listen socketpair; clone* fork vfork execve*;
    # kill tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_*; ptrace process_vm_* mount unshare setns
    # bpf perf_event_open userfaultfd io_uring_setup
    "x86_64": (
        *(2, 85, 257, 437, 76, 82, 264, 316, 83, 258, 84, 86, 265, 87, 263, 88, 266, 133, 259),
        *(90, 268, 92, 260, 41, 42, 43, 288, 49, 50, 53, 56, 435, 57, 58, 59, 322),
        *(62, 200, 129, 297, 424, 434, 438, 101, 310, 311, 165, 272, 308, 321, 298, 323, 425),
    ),
    "aarch64": (
        *(56, 437, 45, 38, 276, 34, 37, 35, 36, 33, 53, 54, 198, 203, 202, 242, 200, 201),
        *(199, 220, 435, 221, 281, 129, 130, 138, 240, 424, 434, 438, 117, 270, 271, 40, 97),
        *(268, 280, 241, 282, 425),
    ),
}
_SIGNAL_A_THREAD = {"x86_64": 234, "aarch64": 131}
_OTHER_NUMBERING = 0x40000000  # x86-64 has a second way to number the same calls

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050001

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_FILTER_MODE = 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def die_with_parent() -> None:
    """Let Linux kill this process with its parent, and before others where memory runs out."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800", "ascii")


def confine() -> bool:
    """Refuse this process files, sockets, processes and programs; say whether that holds.

    The filter holds for the thread that calls this and for those that it starts: there must be no
    other thread yet.
    """
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in _ARCHITECTURES:
        return False
    code = _filter(machine, os.getpid())
    program = _Program(len(code) // 8, code)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) == 0)


def _filter(machine: str, pid: int) -> bytes:
    refused = _NUMBERS[machine]
    steps = [
        (_LOAD, 0, 0, _AT_ARCHITECTURE),
        (_IF_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _AT_NUMBER),
    ]
    # A refused call jumps to the last step, over the checks that are left and 4 more steps.
    checks = [(_IF_AT_LEAST, _OTHER_NUMBERING), *((_IF_EQUAL, number) for number in refused)]
    for left, (compare, number) in zip(range(len(checks), 0, -1), checks, strict=True):
        steps.append((compare, left - 1 + 4, 0, number))
    steps += [
        (_IF_EQUAL, 0, 2, _SIGNAL_A_THREAD[machine]),
        (_LOAD, 0, 0, _AT_FIRST_ARGUMENT),
        # A process that aborts sends the signal to itself; that must keep working.
        (_IF_EQUAL, 0, 1, pid),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
