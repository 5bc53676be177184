"""How the gateway runs: what may be set."""

import os
from dataclasses import dataclass, field

from holdfast_conversion.gateway.formats import Caps

MEBIBYTE = 1024 * 1024
SPARE_CHILDREN = 3
"""Children beyond one for each processor. A session leaves so many to others: one to those without
a cookie at its address, one to the other sessions there, one to other addresses."""


def processors() -> int:
    """Return how many files this machine converts at once without slowing each other down."""
    return max(2, os.cpu_count() or 1)


def default_children() -> int:
    """Return how many files a gateway on this machine converts at once."""
    return processors() + SPARE_CHILDREN


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """What may be used on one file.

    `memory_bytes` bounds the address space of a child process, `cpu_seconds` the computing time of
    all children that read the file and `wall_seconds` the elapsed time; `caps` bounds what they
    write. A child is replaced by a fresh one after `files` files or ranges of pages. A file waits
    for a child for `wait_seconds` at most.
    """

    memory_bytes: int = 1024 * MEBIBYTE
    cpu_seconds: int = 90
    wall_seconds: float = 110.0
    wait_seconds: float = 20.0
    files: int = 200
    caps: Caps = field(default_factory=Caps)


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """How the gateway serves.

    Args:
        host: the address to listen on.
        names: what clients call the gateway's host, beside `localhost` and IP addresses.
        port: the port to listen on; 0 takes a free one.
        any_port: take a free port where `port` is taken.
        max_upload_bytes: the largest body that is read.
        children: how many files are converted at once.
        most_requests: how many may be uploading, waiting or converting before others get 429.
        stall_seconds: how long an upload may send nothing.
        keep_seconds: how long the answer to an Idempotency-Key is kept.
        chaos: whether faults may be asked for at `/chaos`.
        limits: what one child process may use.
    """

    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    port: int = 8100
    any_port: bool = False
    max_upload_bytes: int = 50 * MEBIBYTE
    children: int = field(default_factory=default_children)
    most_requests: int = 64
    stall_seconds: float = 20.0
    keep_seconds: float = 600.0
    chaos: bool = False
    limits: ReaderLimits = field(default_factory=ReaderLimits)
