"""Serve requests in a child with a plain function."""

import os
import socket
from collections.abc import Callable
from typing import Any

from holdfast.children.child_limits import ChildLimits
from holdfast.children.frames import FrameKind, pack, receive_with_files


def answer_requests(
    connection: socket.socket, limits: ChildLimits, answer: Callable[[Any, list[int]], str]
) -> None:
    """Answer one request after another on this thread, until the parent is gone.

    `answer` gets the request and the files that came with it, and returns text; the files are
    closed after it. What it raises ends the child.
    """
    while (frame := receive_with_files(connection)) is not None:
        kind, request, files = frame
        if kind is not FrameKind.REQUEST:
            continue  # to cancel there is nothing: a parent that cannot wait kills
        connection.sendall(pack(FrameKind.TAKEN))
        limits.allow_cpu()
        connection.sendall(pack(FrameKind.ANSWER, answer(request, files)))
        for file in files:
            os.close(file)
