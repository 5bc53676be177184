"""Serve requests in a child with a plain function."""

import os
import socket
from collections.abc import Callable
from typing import Any

from holdfast.children.child_limits import ChildLimits
from holdfast.children.frames import FrameKind, pack, receive_with_files

RequestServer = Callable[[socket.socket, ChildLimits], None]
"""What a child calls once it is set up, with the socket to its parent and its own limits."""


def request_server(answer: Callable[[Any, list[int]], str]) -> RequestServer:
    """Return what answers one request after another until the parent is gone.

    `answer` gets the request and the files that came with it, and returns text; the files are
    closed after it. What it raises ends the child.
    """

    def serve(connection: socket.socket, limits: ChildLimits) -> None:
        while (frame := receive_with_files(connection)) is not None:
            kind, request, files = frame
            if kind is not FrameKind.REQUEST:
                continue  # there is nothing to cancel: a parent that cannot wait kills
            connection.sendall(pack(FrameKind.TAKEN))
            limits.allow_cpu()
            connection.sendall(pack(FrameKind.ANSWER, answer(request, files)))
            for file in files:
                os.close(file)

    return serve
