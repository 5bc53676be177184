"""Child processes with limits, for work that is CPU-bound or not to be trusted.

A child is a fresh interpreter in a session of its own. It imports a function by name, sets its
limits, gives up what it does not need where it is confined, and then answers one request at a time
over a socket. The parent unpickles and evaluates nothing that a child sends. Whatever ends a child,
a limit, the kernel or its own fault, is an exception of that one call; and a child whose parent
dies ends too.

A parent keeps a `ChildPool` of one `ChildSpec`. In the child, the spec's target is a function
`load(options)` that returns `serve(connection, limits)`; `request_server` makes one of a plain
function. Where that function only computes, and answers in JSON, `ConfinedFunction` is all that the
parent needs.
"""

from holdfast.children.child_limits import MEGABYTE, ChildLimits
from holdfast.children.child_pool import ChildPool, NoChildFree
from holdfast.children.confined_function import ConfinedFunction, json_answer
from holdfast.children.frames import BrokenFrame, FrameKind
from holdfast.children.process import ChildDied, ChildFailed, ChildProcess, ChildSpec, Death
from holdfast.children.request_loop import RequestServer, request_server

__all__ = [
    "MEGABYTE",
    "BrokenFrame",
    "ChildDied",
    "ChildFailed",
    "ChildLimits",
    "ChildPool",
    "ChildProcess",
    "ChildSpec",
    "ConfinedFunction",
    "Death",
    "FrameKind",
    "NoChildFree",
    "RequestServer",
    "json_answer",
    "request_server",
]
