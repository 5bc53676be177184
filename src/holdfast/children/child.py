"""The child's side: `python -m holdfast.children.child FD`."""

import importlib
import os
import signal
import socket
import sys
from typing import Any

from holdfast.children import confinement
from holdfast.children.child_limits import ChildLimits
from holdfast.children.frames import FrameKind, pack, receive

_LONGEST_MESSAGE = 500


def live(connection: socket.socket) -> None:
    """Set up as the parent says, then serve it until it is gone."""
    frame = receive(connection)
    if frame is None:
        return
    fields = frame[1]
    try:
        limits = ChildLimits(**fields["limits"])
        serve = _load(fields)
        limits.apply()
        confined = fields["confine"] and confinement.confine()
    except BaseException as error:
        message = f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE]
        connection.sendall(pack(FrameKind.ERROR, {"message": message}))
        return
    connection.sendall(pack(FrameKind.READY, {"confined": confined}))
    serve(connection, limits)
    if confined:
        os._exit(0)  # it may not open the files that an orderly end needs


def _load(fields: dict[str, Any]) -> Any:
    sys.path[:] = fields["path"]
    confinement.die_with_parent()
    module, _, name = fields["target"].partition(":")
    return getattr(importlib.import_module(module), name)(fields["options"])


def main() -> None:
    """Serve the parent at the other end of the socket that the command line names."""
    # A Ctrl-C at the terminal is the parent's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    live(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
