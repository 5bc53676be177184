"""The system calls that a confined child may make, as a program for the kernel.

Linux runs the program, in the classic Berkeley Packet Filter language, before every system call of
the child. Calls of the table are made, all others fail with EPERM. A call under the numbering of
another architecture ends the child, because the table would say nothing of it.
"""

import fcntl
import struct

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""How the kernel names the architectures of the table."""

# One that is not in the table is refused: a child that only computes needs no other. The numbers
# are those of the kernel's tables, which never change.
_ALLOWED = {
    # name: (x86_64, aarch64); None where the architecture has no such call
    # open files and the socket to the parent
    "read": (0, 63),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "lseek": (8, 62),
    "close": (3, 57),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "ftruncate": (77, 46),
    "fcntl": (72, 25),
    "recvfrom": (45, 207),
    "recvmsg": (47, 212),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "shutdown": (48, 210),
    "poll": (7, None),
    "ppoll": (271, 73),
    "pselect6": (270, 72),
    # memory
    "brk": (12, 214),
    "mmap": (9, 222),
    "mremap": (25, 216),
    "munmap": (11, 215),
    "mprotect": (10, 226),
    "madvise": (28, 233),
    # time, and waiting for it
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    "getrusage": (98, 165),
    "sched_yield": (24, 124),
    "futex": (202, 98),
    "restart_syscall": (219, 128),
    # itself: who it is, its limits, its signals and its end
    "getpid": (39, 172),
    "getppid": (110, 173),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "getrandom": (318, 278),
    "uname": (63, 160),
    "sched_getaffinity": (204, 123),
    "getrlimit": (97, 163),
    "setrlimit": (160, 164),
    "prlimit64": (302, 261),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "tgkill": (234, 131),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
_ITSELF = -1
"""In the place of a value: the process's own id."""
_ARGUMENTS = {
    # name: (which argument, the values that it may have)
    # A process that aborts sends the signal to itself.
    "tgkill": (0, (_ITSELF,)),
    "prlimit64": (0, (0, _ITSELF)),
    # Not F_SETOWN: it lets the kernel send signals to other processes.
    "fcntl": (
        1,
        (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL),
    ),
}
_OTHER_NUMBERING = 0x40000000  # x86-64 has a second way to number the same calls

# Instructions, and where the kernel puts what they load.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS, _ARGUMENT_BYTES = 0, 4, 16, 8
_Step = tuple[int, int, int, int]
"""An instruction, how many steps to skip if it holds and if not, and its value."""
_ALLOW: _Step = (_RETURN, 0, 0, 0x7FFF0000)
_KILL: _Step = (_RETURN, 0, 0, 0x80000000)
_REFUSE: _Step = (_RETURN, 0, 0, 0x00050001)  # with the error number 1, EPERM


def filter_program(machine: str, pid: int) -> bytes:
    """Return the program for the process `pid` on `machine`, one of `ARCHITECTURES`."""
    steps: list[_Step] = [
        (_LOAD, 0, 0, _AT_ARCHITECTURE),
        (_IF_EQUAL, 1, 0, ARCHITECTURES[machine]),
        _KILL,
        (_LOAD, 0, 0, _AT_NUMBER),
        (_IF_AT_LEAST, 0, 1, _OTHER_NUMBERING),
        _REFUSE,
    ]
    column = list(ARCHITECTURES).index(machine)
    for name, numbers in _ALLOWED.items():
        number = numbers[column]
        if number is not None:
            decision = _decision(name, pid)
            steps += [(_IF_EQUAL, 0, len(decision), number), *decision]
    steps.append(_REFUSE)
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _decision(name: str, pid: int) -> list[_Step]:
    """Return the steps for a call of the table; none goes beyond them."""
    if name not in _ARGUMENTS:
        return [_ALLOW]
    which, values = _ARGUMENTS[name]
    steps: list[_Step] = [(_LOAD, 0, 0, _AT_ARGUMENTS + which * _ARGUMENT_BYTES)]
    for value in values:
        steps += [(_IF_EQUAL, 0, 1, pid if value == _ITSELF else value), _ALLOW]
    return [*steps, _REFUSE]
