"""What a child process may use, and the resource limits that enforce it."""

import os
import resource
from dataclasses import dataclass

from holdfast.resilience import checks

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What one child process may use. None is no limit.

    Args:
        memory_bytes: address space of the child, the interpreter and its libraries included.
        cpu_seconds: processor time that one request may use.
        output_bytes: size of one answer.
        file_bytes: size of any file that the child writes; a longer write fails.
        open_files: files that the child may have open.
        requests: requests that one child answers before it is replaced; 1 gives each a fresh one.
    """

    memory_bytes: int | None = 1024 * MEGABYTE
    cpu_seconds: float | None = None
    output_bytes: int = 16 * MEGABYTE
    file_bytes: int | None = None
    open_files: int | None = None
    requests: int = 100

    def __post_init__(self) -> None:
        checks.whole("memory_bytes", self.memory_bytes, at_least=64 * MEGABYTE, optional=True)
        checks.number("cpu_seconds", self.cpu_seconds, above=0, optional=True)
        checks.whole("output_bytes", self.output_bytes, at_least=1)
        checks.whole("file_bytes", self.file_bytes, at_least=0, optional=True)
        checks.whole("open_files", self.open_files, at_least=8, optional=True)
        checks.whole("requests", self.requests, at_least=1)

    def apply(self) -> None:
        """Limit this process for the rest of its life. It leaves no core files."""
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_AS, self.memory_bytes)
        # Python ignores SIGXFSZ, so a write beyond the limit fails and does not kill.
        _lower(resource.RLIMIT_FSIZE, self.file_bytes)
        _lower(resource.RLIMIT_NOFILE, self.open_files)

    def allow_cpu(self) -> None:
        """Let this process compute for `cpu_seconds` more; SIGXCPU ends it after that."""
        if self.cpu_seconds is None:
            return
        used = os.times()
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        # The kernel counts whole seconds.
        limit = int(used.user + used.system + self.cpu_seconds) + 1
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def _lower(what: int, limit: int | None) -> None:
    if limit is None:
        return
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(what, (limit, limit))
