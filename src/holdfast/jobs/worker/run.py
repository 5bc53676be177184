"""One attempt in flight."""

import asyncio
import math
from typing import Protocol

from holdfast.clock import Clock
from holdfast.jobs.declare.context import CancelReason, ContextPort, JobContext
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.model import Claim, Finished


class Stopper(Protocol):
    """What runs a handler outside the event loop, and can end it by force."""

    def ask(self, reason: CancelReason) -> None:
        """Ask it to end; its context was told already."""
        ...

    def strike(self) -> None:
        """End it now if it can be reached."""
        ...


class Run:
    """One attempt in flight: what was claimed, how it goes, and at last its report.

    `held_until` is the moment, on the monotonic clock, up to which the lease is certain;
    `ends_at` the next one at which something is to happen to the run: its time is up, or its time
    to clean up is. `waits` says that its handler has not begun yet, for want of a child process;
    `own` that a failure is the job's own even where the attempt is a trial.
    """

    # Most runs never leave these: set on the class, they cost nothing for each.
    ends_at: float | None = None
    deadline = math.inf
    by_deadline = False
    task: asyncio.Task[None] | None = None
    call: Stopper | None = None
    cut: CancelReason | None = None
    lost = False
    waits = False
    awaited = False
    own = False
    abandoned = False
    resent = False
    report: Finished | None = None

    def __init__(
        self, claim: Claim, kind: JobKind, port: ContextPort, clock: Clock, held_until: float
    ) -> None:
        self.claim = claim
        self.kind = kind
        self.context = JobContext(claim, kind, port, clock)
        self.held_until = held_until
        self.started_at = clock.monotonic()
        if claim.deadline_at is not None:
            # Both are times of the store's clock; this machine's own may be wrong.
            self.deadline = self.started_at + max(0.0, claim.deadline_at - claim.started_at)
            self.count_from(self.started_at)
        elif kind.timeout is not None:
            self.count_from(self.started_at)

    def begin(self, now: float) -> None:
        """Note that the handler is about to be called, after it has waited for its turn."""
        self.started_at = now
        if self.kind.timeout is not None and self.cut is None:
            self.count_from(now)

    def count_from(self, now: float) -> None:
        """Let the time that the attempt may run begin now; a deadline stays where it is."""
        limit = self.kind.timeout if self.kind.timeout is not None else math.inf
        self.by_deadline = self.deadline < now + limit
        ends_at = min(now + limit, self.deadline)
        self.ends_at = ends_at if ends_at < math.inf else None

    def __repr__(self) -> str:
        return f"<Run {self.kind.name} {self.claim.job_id} attempt {self.claim.attempt}>"

    @property
    def in_loop(self) -> bool:
        """Whether the handler is a coroutine on the worker's event loop."""
        return self.awaited or (self.kind.handler.is_async and self.kind.isolation is None)
