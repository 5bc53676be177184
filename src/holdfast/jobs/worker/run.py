"""One attempt in flight: the state that stopping it, extending its lease and reporting it need."""

import asyncio
import math
from typing import Any, Protocol

from holdfast.clock import Clock
from holdfast.jobs.declare.context import CancelReason, JobContext
from holdfast.jobs.declare.context_port import ContextPort
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.model import Claim, Finished
from holdfast.jobs.store_port import TickResult
from holdfast.jobs.worker.failure import Failure


class Stopper(Protocol):
    """A handler that runs outside the event loop, on a thread or in a child process."""

    def request_stop(self, reason: CancelReason) -> None:
        """Ask it to stop; its context already has the request."""
        ...

    def kill(self) -> None:
        """Kill it if it is a process; a thread cannot be killed."""
        ...


class Children(Protocol):
    """What runs handlers in child processes."""

    async def execute(self, run: "Run") -> Any:
        """Return the result as JSON text, or the `Failure` that the child met."""
        ...


class Run:
    """One attempt in flight.

    Attributes:
        held_until: until when the lease is certainly valid, on the monotonic clock.
        ends_at: when its time is up, or, after it was asked to stop, its time to clean up.
        by_deadline: the job's deadline ends it, not the attempt's timeout.
        stop_reason: why it was asked to stop.
        lost: its lease is lost: only an answer is worth a report.
        waits: its handler has not started; it waits for a slot or a child process.
        awaited: a blocking handler returned an awaitable, which runs on the event loop.
        committed: its report and the store's answer, if they were committed with the handler's own
            transaction; it needs no other report.
        committing: its transaction is being committed, with its completion; it is not interrupted.
        abandoned: it did not stop in time and was reported as stopped.
        resent: its report was sent before and may have been stored.
        report: set when the attempt has ended or was abandoned.
        failure: what is kept of the error that ended it, if it failed.
        error: the exception behind `failure`, until the report is stored.
    """

    # Most runs keep these defaults: as class attributes they cost nothing per run.
    ends_at: float | None = None
    deadline = math.inf
    by_deadline = False
    task: asyncio.Task[None] | None = None
    call: Stopper | None = None
    stop_reason: CancelReason | None = None
    lost = False
    waits = False
    awaited = False
    committed: tuple[Finished, TickResult] | None = None
    committing = False
    abandoned = False
    resent = False
    report: Finished | None = None
    failure: Failure | None = None
    error: BaseException | None = None

    def __init__(
        self, claim: Claim, kind: JobKind, port: ContextPort, clock: Clock, held_until: float
    ) -> None:
        self.claim = claim
        self.kind = kind
        self.context = JobContext(claim, kind, port, clock)
        self.held_until = held_until
        self.started_at = clock.monotonic()
        if claim.deadline_at is not None:
            # Both are times of the store's clock, so this machine's clock does not matter.
            self.deadline = self.started_at + max(0.0, claim.deadline_at - claim.started_at)
            self.count_from(self.started_at)
        elif kind.timeout is not None:
            self.count_from(self.started_at)

    def begin(self, now: float) -> None:
        """Start the clock of a run whose handler is about to be called."""
        self.started_at = now
        self.waits = False
        if self.kind.timeout is not None and self.stop_reason is None:
            self.count_from(now)
            self.context.ends_at(self.ends_at)

    def count_from(self, now: float) -> None:
        """Count the attempt's timeout from `now`; a deadline stays where it is."""
        limit = self.kind.timeout if self.kind.timeout is not None else math.inf
        self.by_deadline = self.deadline < now + limit
        ends_at = min(now + limit, self.deadline)
        self.ends_at = ends_at if ends_at < math.inf else None

    def __repr__(self) -> str:
        return f"<Run {self.kind.name} {self.claim.job_id} attempt {self.claim.attempt}>"

    @property
    def in_loop(self) -> bool:
        """Whether the handler, or a middleware around it, is a coroutine on the event loop."""
        kind = self.kind
        is_coroutine = kind.handler.is_async and kind.isolation is None
        around = bool(kind.middleware) or kind.tracing is not None
        return self.awaited or is_coroutine or around
