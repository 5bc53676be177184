"""The context of a running attempt: identity, remaining time, progress, cancellation.

Also what surrounds the handler: the state of its app, jobs that follow it, its transaction.
"""

import logging
import threading
from collections.abc import Generator
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from holdfast.clock import Clock
from holdfast.errors import ErrorCode, HoldfastError
from holdfast.jobs.database_port import Database
from holdfast.jobs.declare.attempt_scope import AttemptScope, TransactionBlock
from holdfast.jobs.declare.context_port import ContextPort
from holdfast.jobs.declare.job_handle import PendingJob, RequestOptions
from holdfast.jobs.declare.job_logger import JobLogger
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.declare.slot_meta import slot_in
from holdfast.jobs.declare.validation import UNSTORABLE
from holdfast.jobs.exceptions import ContextError, LostLease
from holdfast.jobs.model import Claim, Lease
from holdfast.jobs.shared_rate import SharedRate
from holdfast.resilience import checks
from holdfast.resilience.policy import RateLimit

if TYPE_CHECKING:
    from holdfast.jobs.declare.handler_engine import HandlerEngine
    from holdfast.jobs.declare.job_function import JobFunction
else:
    # For those who resolve annotations; the module of the type imports this one.
    HandlerEngine = Any

ArgsT = TypeVar("ArgsT")
ResultT = TypeVar("ResultT")


class CancelReason(StrEnum):
    """Why a handler is asked to stop."""

    REQUESTED = "requested"
    """The job was cancelled."""
    LEASE_LOST = "lease_lost"
    """The worker lost the lease; its writes will be refused."""
    TIMEOUT = "timeout"
    """The attempt's timeout or the job's deadline passed."""
    SHUTDOWN = "shutdown"
    """The worker stops and releases the job."""
    NOT_STARTED = "not_started"
    """The worker claimed the job, had no free slot and releases it; no handler sees this."""


class JobCancelled(HoldfastError):
    """Raised in a handler that was asked to stop; `reason` says why."""

    code = ErrorCode.CANCELLED

    def __init__(self, job_id: str, reason: CancelReason) -> None:
        super().__init__(f"job {job_id}: asked to stop ({reason})")
        self.job_id = job_id
        self.reason = reason


class ProgressNote:
    """The result of `JobContext.progress`. Awaiting it yields to other tasks, and is optional."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        # A bare yield is what asyncio.sleep(0) does: the task is scheduled again at once.
        yield


_NOTED = ProgressNote()
_LOCK = threading.Lock()
"""Shared by all contexts: it is held only for a few assignments, and a lock each costs more."""


class JobContext:
    """One attempt, as its handler sees it. Thread-safe.

    Attributes:
        job_id: the job's id.
        kind: the name of its kind.
        attempt: the attempt's number, from 1.
        http_status: what a called service answered with, if the handler sets it: the history of the
            job keeps it, also of calls that succeed. Not kept of a handler with `isolation`.
    """

    __slots__ = (
        "_claim", "_clock", "_ends_at", "_has_ended", "_logger", "_note", "_noted", "_periodic",
        "_port", "_reason", "_scope", "_share", "attempt", "http_status", "job_id", "kind",
    )  # fmt: skip

    def __init__(self, claim: Claim, kind: JobKind, port: ContextPort, clock: Clock) -> None:
        """Begin the attempt of `claim`; its timeout starts now, by `clock`."""
        self.job_id = claim.lease.job_id
        self.kind = kind.name
        self.attempt = claim.attempt
        self.http_status: int | None = None
        self._claim = claim
        self._logger: JobLogger | None = None
        self._clock = clock
        self._ends_at: float | None = None
        if kind.timeout is not None or claim.deadline_at is not None:
            self._ends_at = _ends_at(claim, kind, clock)
        self._port = port
        self._periodic = kind.periodic
        self._reason: CancelReason | None = None
        self._share: float | None = None
        self._note: str | None = None
        self._noted = False
        self._scope: AttemptScope | None = None
        self._has_ended = False

    def __repr__(self) -> str:
        return f"<JobContext {self.kind} {self.job_id} attempt {self.attempt}>"

    @property
    def max_attempts(self) -> int:
        """Attempts in total."""
        return self._claim.max_attempts

    @property
    def idempotency_key(self) -> str:
        """The same key for every attempt of this job, including manual retries.

        Pass it to receivers that deduplicate by key. Printable ASCII. A job that was enqueued under
        an old name of its kind keeps that name in its key.
        """
        return f"{self._claim.kind}:{self.job_id}"

    @property
    def owner(self) -> str | None:
        """The user that the job belongs to."""
        return self._claim.owner

    @property
    def deadline_at(self) -> float | None:
        """Epoch seconds after which the job fails with `TIMEOUT`."""
        return self._claim.deadline_at

    @property
    def meta(self) -> str | None:
        """The job's JSON text for pages."""
        return self._claim.meta

    @property
    def lease(self) -> Lease:
        """The lease it runs under. For the worker."""
        return self._claim.lease

    @property
    def slot(self) -> datetime:
        """The time that this run of a periodic job stands for, in the schedule's time zone.

        That is the slot for which the job was enqueued, also if it was late or is retried. Of a job
        that was enqueued by hand it is the time of enqueueing.
        """
        zone = UTC if self._periodic is None else self._periodic.schedule.zone
        slot = slot_in(self._claim.meta, zone)
        return datetime.fromtimestamp(self._claim.created_at, zone) if slot is None else slot

    @property
    def token(self) -> int:
        """The lease's fencing token.

        It rises with every attempt, so no two attempts write a file whose name contains it.
        """
        return self._claim.lease.token

    @property
    def logger(self) -> JobLogger:
        """A logger whose records carry `job_id`, `kind`, `attempt` and, if it has one, `owner`."""
        # Created on first use: it is costly, and most attempts log nothing.
        if self._logger is None:
            extra = {"job_id": self.job_id, "kind": self.kind, "attempt": self.attempt}
            if self.owner is not None:
                extra["owner"] = self.owner
            self._logger = JobLogger(logging.getLogger(f"holdfast.job.{self.kind}"), extra)
        return self._logger

    def remaining(self) -> float | None:
        """Return the seconds left until this attempt's timeout or the job's deadline.

        The earlier one counts; never below 0. None if there is neither.
        """
        ends_at = self._ends_at
        return None if ends_at is None else max(0.0, ends_at - self._clock.monotonic())

    def progress(self, share: float | None = None, note: str | None = None) -> ProgressNote:
        """Report progress: `share` from 0 to 1, `note` a short text for people.

        It never blocks and may be called as often as needed, from threads and coroutines, where it
        may be awaited. Of several calls in quick succession only the last is stored. An omitted
        argument keeps its last value. NUL and lone surrogates in a note are replaced, since stores
        cannot keep them.

        Raises:
            ValueError: `share` is not between 0 and 1.
        """
        checks.number("share", share, at_least=0, at_most=1, optional=True)
        checks.instance("note", note, str, optional=True)
        if note is not None:
            note = UNSTORABLE.sub("\ufffd", note)
        with _LOCK:
            self._share = self._share if share is None else float(share)
            self._note = self._note if note is None else note
            first, self._noted = not self._noted, True
        if first:
            self._port.progress_noted(self)
        return _NOTED

    def take_progress(self) -> tuple[float | None, str | None] | None:
        """Return the share and note to store; None if nothing changed since the last call.

        For the worker.
        """
        with _LOCK:
            if not self._noted:
                return None
            self._noted = False
            return self._share, self._note

    # -- around the handler --------------------------------------------------------------------

    @property
    def state(self) -> Any:
        """What the lifespan of the job's app has yielded, `App(lifespan=...)`.

        Raises:
            ContextError: the app has no lifespan, or the handler runs in a child process.
        """
        return self._port.state_of(self)

    @property
    def database(self) -> Database:
        """The database of `Engine.database`; in a child process it raises `ContextError`.

        Its transactions commit by themselves; that of `ctx.transaction(ctx.database)` is committed
        with the job's completion. For handlers that are async.
        """
        return self._port.database_of(self)

    @property
    def engine(self) -> "HandlerEngine":
        """The `Engine` whose worker runs this attempt, with its `outbox`, `inbox` and `calls`.

        What it changes is committed at once, unless it is given the connection of
        `ctx.transaction()`. For async handlers; `engine: Engine = ctx.engine` has all types.

        Raises:
            ContextError: the handler runs in a child process, or the worker has no engine.
        """
        return self._port.engine_of(self)

    def shared_rate(self, name: str, limit: RateLimit) -> SharedRate:
        """Return a rate of calls that all processes share, as `Engine.shared_rate` does.

        It can be used for as long as the worker runs.

        Raises:
            ContextError: the handler runs in a child process.
        """
        return self._port.shared_rate(name, limit)

    @overload
    def enqueue(
        self,
        job: "JobFunction[None, ResultT]",
        args: None = None,
        **options: Unpack[RequestOptions],
    ) -> PendingJob[ResultT]: ...

    @overload
    def enqueue(
        self, job: "JobFunction[ArgsT, ResultT]", args: ArgsT, **options: Unpack[RequestOptions]
    ) -> PendingJob[ResultT]: ...

    @overload
    def enqueue(
        self, job: str, args: object = None, **options: Unpack[RequestOptions]
    ) -> PendingJob[Any]: ...

    def enqueue(
        self,
        job: "JobFunction[Any, Any] | str",
        args: Any = None,
        **options: Unpack[RequestOptions],
    ) -> PendingJob[Any]:
        """Create a job together with the completion of this one, in the same transaction.

        Nothing is created if the attempt does not complete its job. The arguments and options are
        those of `Engine.enqueue` and are validated now. Call it from threads and from coroutines,
        where it may be awaited.

        Raises:
            ValidationError: the arguments or an option are invalid, or an earlier call had the same
                `dedup_key` with another `dedup` or `dedup_for`.
            ContextError: the attempt has ended, or the handler runs in a child process.
        """
        new = self._port.new_job(job, args, options)
        with _LOCK:
            self._used().add(new)
        return PendingJob(new.id, new.kind, True)

    def transaction(self, connection: object = None) -> TransactionBlock:
        """Commit the rows of a block together with this job's completion: once, or not at all.

            async with ctx.transaction() as connection:
                await connection.execute("UPDATE accounts ...")

        The end of the block does not commit. The worker does, after the handler has returned, in
        the same transaction as the completion, the result and the jobs of `enqueue`, if this worker
        still holds the job's lease. An exception that leaves the block or the handler rolls back.

        Args:
            connection: a function that opens your connection or session (a sessionmaker, a pool's
                `acquire`), or one that stays open until the handler has returned. The types are
                those of `Engine.enqueue`. By default the store opens one: asyncpg or apsw. With
                `ctx.database` the block gets a `DatabaseTransaction`, and no connection.

        Raises:
            ContextError: it was called before in this attempt, the attempt has ended, or the
                handler runs in a child process.
            LostLease: the lease is lost.
        """
        if self._reason is CancelReason.LEASE_LOST:
            raise LostLease(self.job_id)
        block = self._port.transaction(self, connection)
        with _LOCK:
            scope = self._used()
            if scope.block is not None:
                raise ContextError(
                    f"job {self.job_id}: ctx.transaction() may be called once in an attempt"
                )
            scope.block = block
        return block

    def _used(self) -> AttemptScope:
        """Return the attempt's scope; call it with the lock."""
        if self._has_ended:
            raise ContextError(f"job {self.job_id}: the attempt has ended")
        if self._scope is None:
            self._scope = AttemptScope()
        return self._scope

    def end(self) -> AttemptScope | None:
        """Let nothing be added any more, and return what was. For the worker."""
        with _LOCK:
            self._has_ended = True
            return self._scope

    # -- stopping ------------------------------------------------------------------------------

    @property
    def cancel_requested(self) -> bool:
        """Whether this attempt was asked to stop."""
        return self._reason is not None

    @property
    def cancel_reason(self) -> CancelReason | None:
        """Why it was asked to stop; the first reason is kept."""
        return self._reason

    def raise_if_cancelled(self) -> None:
        """Raise if this attempt was asked to stop.

        Raises:
            JobCancelled: it was asked to stop.
        """
        if self._reason is not None:
            raise JobCancelled(self.job_id, self._reason)

    def ends_at(self, moment: float | None) -> None:
        """Set when its time is up, on the monotonic clock; None for never. For the worker."""
        self._ends_at = moment

    def request_cancel(self, reason: CancelReason) -> None:
        """Ask the handler to stop; the first reason is kept. For the worker."""
        with _LOCK:
            if self._reason is None:
                self._reason = reason


def _ends_at(claim: Claim, kind: JobKind, clock: Clock) -> float | None:
    limits = [] if kind.timeout is None else [kind.timeout]
    if claim.deadline_at is not None:
        # Both are times of the store's clock: this machine's own time of day may be wrong.
        limits.append(claim.deadline_at - claim.started_at)
    return clock.monotonic() + min(limits) if limits else None
