"""What a child process may use, and how the kernel is told."""

import os
import resource
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.resilience import checks

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What one child process may use. None is no limit.

    Wall time is the kind's `timeout` and the job's deadline.

    Args:
        memory_bytes: address space of the child, the interpreter and its libraries included.
        cpu_seconds: processor time that one job may use.
        output_bytes: size of one job's result.
        file_bytes: size of any file that the child writes.
        jobs: jobs that one child runs before it is replaced; 1 gives every job a fresh one.
    """

    memory_bytes: int | None = 1024 * MEGABYTE
    cpu_seconds: float | None = None
    output_bytes: int = 16 * MEGABYTE
    file_bytes: int | None = None
    jobs: int = 100

    def __post_init__(self) -> None:
        if self.memory_bytes is not None:
            checks.whole("memory_bytes", self.memory_bytes, at_least=64 * MEGABYTE)
        if self.cpu_seconds is not None:
            checks.number("cpu_seconds", self.cpu_seconds, above=0)
        checks.whole("output_bytes", self.output_bytes, at_least=1)
        if self.file_bytes is not None:
            checks.whole("file_bytes", self.file_bytes, at_least=0)
        checks.whole("jobs", self.jobs, at_least=1)


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """How child processes are kept and limited.

    Args:
        limits: what every child may use.
        by_kind: limits of single kinds, by name, in place of those.
        start_seconds: how long a child may take to start and import the handler.
        idle_seconds: how long a child is kept without work.
    """

    limits: ChildLimits = field(default_factory=ChildLimits)
    by_kind: Mapping[str, ChildLimits] = field(default_factory=dict)
    start_seconds: float = 30.0
    idle_seconds: float = 60.0

    def __post_init__(self) -> None:
        checks.instance("limits", self.limits, ChildLimits)
        for name, limits in self.by_kind.items():
            checks.instance(f"by_kind[{name!r}]", limits, ChildLimits)
        checks.number("start_seconds", self.start_seconds, above=0)
        checks.number("idle_seconds", self.idle_seconds, at_least=0)

    def limits_of(self, kind: str) -> ChildLimits:
        """Return the limits of a kind."""
        return self.by_kind.get(kind, self.limits)


def apply_to_process(memory_bytes: int | None, file_bytes: int | None) -> None:
    """Limit this process for the rest of its life. No core files."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is not None:
        _lower(resource.RLIMIT_AS, memory_bytes)
    if file_bytes is not None:
        # Without this the kernel would kill; a write that fails can be reported.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        _lower(resource.RLIMIT_FSIZE, file_bytes)


def allow_cpu(seconds: float | None) -> None:
    """Let this process use so many more seconds of processor time; the kernel kills it after."""
    if seconds is None:
        return
    used = os.times()
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    # The kernel counts whole seconds.
    limit = int(used.user + used.system + seconds) + 1
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def _lower(what: int, limit: int) -> None:
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(what, (limit, limit))
