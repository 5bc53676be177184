"""Request handlers for child processes in tests; a child imports this module."""

import ctypes  # Python has no functions for these system calls
import errno
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from holdfast.children import confinement, request_server

early_threads = ThreadPoolExecutor(1)
"""Started before the child is confined if its options say so, as some libraries start threads."""


def load(options):
    """Return the request handler; `options` is the prefix of answers, or how the start fails."""
    if options == "fail":
        raise ValueError("as asked")
    if options == "exit":
        os._exit(3)
    if options == "without a filter":
        confinement.confine = lambda: False
    if options == "with a thread":
        early_threads.submit(os.getpid).result()

    def serve(connection, limits):
        def answered(request, files):
            return answer(options, connection, request, files)

        request_server(answered)(connection, limits)

    return serve


def answer(name, connection, request, files):
    ((what, value),) = request.items()
    if what == "echo":
        return f"{name} {value}"
    if what == "pid":
        return str(os.getpid())
    if what == "copy":
        return str(os.write(files[1], os.pread(files[0], 1000, 0)))
    if what == "files":
        return str(sorted(Path("/proc/self/fd").iterdir()))
    if what == "environment":
        return str(os.environ.get(value))
    if what == "open":
        return opened(value)
    if what == "open in the early thread":
        return early_threads.submit(opened, value).result()
    if what == "system call":
        return system_call(*value)
    misbehave(what, value, connection)
    return "lives"


def opened(path):
    try:
        Path(path).read_bytes()
    except OSError as error:
        return type(error).__name__
    return "opened"


def system_call(number, *arguments):
    """Make a system call that Python has no function for; return the name of its error."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffers = [each.encode() if isinstance(each, str) else each for each in arguments]
    done = libc.syscall(number, *buffers) >= 0
    return "done" if done else errno.errorcode[ctypes.get_errno()]


def misbehave(what, value, connection):
    if what == "signal":
        os.kill(os.getpid(), value)
    elif what == "exit":
        os._exit(value)
    elif what == "sleep":
        time.sleep(value)
    elif what == "say":
        connection.sendall(value.encode() + b"\0\0\0\0")
    elif what == "detach":
        connection.shutdown(socket.SHUT_RDWR)
        time.sleep(600)
    while what == "burn":
        pass
