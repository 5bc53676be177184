"""Jobs as they are stored: statuses, the table of legal moves, and the values around a job.

Immutable values only, no I/O. Times are epoch seconds (float), durations are seconds; arguments,
results and `meta` are JSON text that the model does not parse.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.downstreams.record import Admission, CallReport
from holdfast.jobs.held import HeldBy
from holdfast.jobs.structs import Value
from holdfast.resilience.breaker.transitions import Permit


class JobStatus(StrEnum):
    """A job's status. `MOVES` lists the legal transitions."""

    UPLOADED = "uploaded"
    """Recorded, but its input is incomplete: never claimed. Ended by `submit` or `reject`."""
    QUEUED = "queued"
    """Waiting: ready now, or at `ready_at` (a first run in the future, a retry after a delay)."""
    PROCESSING = "processing"
    """Leased by one worker. No other status has a lease."""
    COMPLETE = "complete"
    """Finished with a result. No other status has one. Final."""
    FAILED = "failed"
    """Not retried unless a person asks. No other status has an error."""
    CANCELLED = "cancelled"
    """Stopped on request. Final."""

    @property
    def finished(self) -> bool:
        """Whether it is complete, failed or cancelled."""
        return self in FINISHED


FINISHED = frozenset({JobStatus.COMPLETE, JobStatus.FAILED, JobStatus.CANCELLED})
"""Statuses that a job leaves only if a person retries it."""

INITIAL_STATUSES = frozenset({JobStatus.UPLOADED, JobStatus.QUEUED})
"""Statuses in which a job can be created."""

MOVES: Mapping[tuple[JobStatus, JobStatus], str] = MappingProxyType(
    {
        (JobStatus.UPLOADED, JobStatus.QUEUED): "submitted: its input is complete",
        (JobStatus.UPLOADED, JobStatus.FAILED): "rejected, or its deadline passed",
        (JobStatus.UPLOADED, JobStatus.CANCELLED): "cancelled",
        (JobStatus.QUEUED, JobStatus.PROCESSING): "claimed: the token rises, the attempt counts",
        (JobStatus.QUEUED, JobStatus.FAILED): "its deadline passed",
        (JobStatus.QUEUED, JobStatus.CANCELLED): "cancelled",
        (JobStatus.PROCESSING, JobStatus.COMPLETE): "the attempt succeeded",
        (JobStatus.PROCESSING, JobStatus.FAILED): "the last attempt failed, or its deadline passed",
        (JobStatus.PROCESSING, JobStatus.QUEUED): "retry scheduled, released, or lease lost",
        (JobStatus.PROCESSING, JobStatus.CANCELLED): "cancelled, and its handler stopped",
        (JobStatus.FAILED, JobStatus.QUEUED): "retried by a person",
    }
)
"""Every legal move and its reason. The databases enforce it; the diagram in the docs shows it."""


def may_move(origin: JobStatus, target: JobStatus) -> bool:
    """Say whether a job may go from `origin` to `target`. An unchanged status is not a move."""
    return (origin, target) in MOVES


class DeadLetterReason(StrEnum):
    """Why a job is not retried unless a person asks."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    PERMANENT = "permanent"
    DEADLINE = "deadline"
    LEASE_LOST = "lease_lost"
    REFUSED = "refused"
    """Its downstream was open in `fail_fast` mode."""


class EventName(StrEnum):
    """What an event in a job's history records."""

    UPLOADED = "uploaded"
    QUEUED = "queued"
    PROCESSING = "processing"
    RETRY = "retry"
    RELEASED = "released"
    LEASE_LOST = "lease_lost"
    COMPLETE = "complete"
    FAILED = "failed"
    CANCEL_REQUESTED = "cancel_requested"
    CANCELLED = "cancelled"
    MANUAL_RETRY = "manual_retry"
    EXPEDITED = "expedited"
    LATE_RESULT = "late_result"
    PROGRESS = "progress"
    DISCARDED = "discarded"


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    COMPLETE = "complete"
    RETRY = "retry"
    FAILED = "failed"
    RELEASED = "released"
    CANCELLED = "cancelled"
    LEASE_LOST = "lease_lost"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class JobError:
    """An error code and a message of one line."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class LastError(JobError):
    """The error of the last failed attempt of a job; `attempt` is that attempt's number."""

    attempt: int


class NewJob(Value, frozen=True):
    """A job to be created by a store, validated on construction.

    Args:
        id: unique until retention deletes the job; enqueueing it again returns that job.
        kind: selects the handler.
        queue: selects the workers.
        arguments: JSON text.
        downstream: the dependency whose breaker and limits apply.
        status: one of `INITIAL_STATUSES`.
        priority: higher runs first within its lane; -32768 to 32767.
        max_attempts: attempts in total; at least 1.
        run_at: epoch seconds before which it is not started.
        deadline_at: epoch seconds after which it fails with `TIMEOUT`.
        dedup_key: two jobs of one kind with the same key are twins: while one is unfinished or
            complete, the other is not created.
        dedup_rule: narrows which twins count; None: all that are unfinished or complete.
        owner: the user that the job belongs to.
        meta: JSON text for pages (file name, size, ...), or None.
    """

    id: str
    kind: str
    queue: str = "default"
    arguments: str = "null"
    downstream: str | None = None
    status: JobStatus = JobStatus.QUEUED
    priority: int = 0
    max_attempts: int = 3
    run_at: float | None = None
    deadline_at: float | None = None
    dedup_key: str | None = None
    owner: str | None = None
    meta: str | None = None
    dedup_rule: DedupRule | None = None

    def __post_init__(self) -> None:
        if not self.id or not self.kind or not self.queue or self.downstream == "":
            raise ValueError(f"job {self.id!r}: id, kind, queue and downstream must not be empty")
        if self.status not in INITIAL_STATUSES:
            raise ValueError(f"job {self.id!r}: a job cannot be created {self.status}")
        if self.max_attempts < 1:
            raise ValueError(f"job {self.id!r}: max_attempts must be at least 1")
        if not -32768 <= self.priority <= 32767:
            raise ValueError(f"job {self.id!r}: priority must be from -32768 to 32767")


class Enqueued(Value, frozen=True):
    """The answer for one `NewJob`: its `id`, or its twin's if `created` is False."""

    id: str
    created: bool


class Lease(Value, frozen=True):
    """The right to run one job until `expires_at`. `token` fences every write made under it."""

    job_id: str
    token: int
    worker_id: str
    expires_at: float


class Claim(Value, frozen=True):
    """One attempt to run now: the lease, the permit for its downstream, and the handler's input.

    `admission` is `REFUSED` only if the downstream is open in `fail_fast` mode: then the job must
    fail without a call. `permit` is returned in the `CallReport`. `lost_worker`: an earlier attempt
    ended because its worker died, maybe by this job; False unless the request asks for it.
    """

    lease: Lease
    kind: str
    queue: str
    downstream: str | None
    arguments: str
    attempt: int
    max_attempts: int
    owner: str | None
    created_at: float
    started_at: float
    deadline_at: float | None
    meta: str | None
    admission: Admission
    permit: Permit | None
    lost_worker: bool = False

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self.lease.job_id


class Completed(Value, frozen=True):
    """The attempt succeeded; `result` is JSON text or None. processing → complete."""

    result: str | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed and another follows after `after` seconds. processing → queued.

    A store turns it into a dead letter (`ATTEMPTS_EXHAUSTED`) if no attempt is left, and into
    `Cancelled` if cancellation was requested. `counted=False` undoes the count made at the claim:
    the handler was not called, since the stored arguments cannot be read.
    """

    after: float
    error: JobError
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed permanently. processing → failed; a dead letter if it has a reason."""

    error: JobError
    dead_letter: DeadLetterReason | None = DeadLetterReason.PERMANENT


@dataclass(frozen=True, slots=True)
class Released:
    """The worker did not start or did not finish the attempt. processing → queued.

    The worker shuts down, or the downstream opened after the claim. The attempt is not counted;
    the job is ready again after `after` seconds, in its old position.
    """

    after: float = 0.0
    reason: str = "shutdown"


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler stopped on request. processing → cancelled."""


Outcome = Completed | Retry | Failed | Released | Cancelled
"""What a worker reports about an attempt."""


class Finished(Value, frozen=True):
    """One attempt's report.

    Args:
        lease: the lease it ran under.
        outcome: how it ended.
        duration: seconds it ran; None lets the store compute it from its own clock.
        report: the call's verdict on the downstream; None if no call was made. It counts only if
            the outcome is accepted.
        meta: JSON text for the event and the attempt (http_status, ...), or None.
        traceback: that of the handler's exception, or None.
        jobs: created in the same transaction if the job becomes complete, and only then.
    """

    lease: Lease
    outcome: Outcome
    duration: float | None = None
    report: CallReport | None = None
    meta: str | None = None
    traceback: str | None = None
    jobs: tuple[NewJob, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is read back.

    `ready_at` is when a queued job may start (a retry's `retry_after`, a `run_at`). `error` is set
    only while failed. `last_error` is the error of the last failed attempt while the job waits for
    another attempt, runs it, or has failed; None if none failed. `held_by` says why a queued job
    that is due is not claimed: its queue or its kind is paused, or its downstream admits no jobs.
    `started_at` is the start of the first attempt since creation or the last manual retry,
    `last_attempt_at` the start of the latest, `finished_at` when it became complete, failed or
    cancelled. `arguments` is None in lists. `has_twin` says of a failed job that another one with
    its dedup key is unfinished or complete; not where the job has a rule of its own for that.
    """

    id: str
    kind: str
    queue: str
    downstream: str | None
    status: JobStatus
    priority: int
    attempt_count: int
    max_attempts: int
    manual_retry_count: int
    token: int
    created_at: float
    queued_at: float | None
    ready_at: float | None
    started_at: float | None
    last_attempt_at: float | None
    finished_at: float | None
    deadline_at: float | None
    dedup_key: str | None
    owner: str | None
    meta: str | None
    progress: float | None
    progress_note: str | None
    worker_id: str | None
    lease_expires_at: float | None
    cancel_requested: bool
    result: str | None
    error: JobError | None
    dead_letter: DeadLetterReason | None
    held_by: HeldBy | None
    arguments: str | None = None
    last_error: LastError | None = None
    has_twin: bool = False

    @property
    def can_retry(self) -> bool:
        """Whether a manual retry is accepted, as far as the job's own record says."""
        return self.status is JobStatus.FAILED and not self.has_twin

    @property
    def held(self) -> bool:
        """Whether it is due and not claimed; `held_by` says why."""
        return self.held_by is not None

    @property
    def is_dead_letter(self) -> bool:
        """Whether it is a dead letter."""
        return self.dead_letter is not None

    @property
    def completed_at(self) -> float | None:
        """Epoch seconds at which it became complete."""
        return self.finished_at if self.status is JobStatus.COMPLETE else None

    @property
    def failed_at(self) -> float | None:
        """Epoch seconds at which it failed."""
        return self.finished_at if self.status is JobStatus.FAILED else None

    @property
    def retry_after(self) -> float | None:
        """When the next attempt is due, in epoch seconds, if the job waits for a retry."""
        ready, last = self.ready_at, self.last_attempt_at
        if self.status is not JobStatus.QUEUED or ready is None or last is None:
            return None
        return ready if ready >= last else None  # a released job keeps its old time
