"""Jobs as they are stored: statuses, the table of legal moves, and the values around a job.

Everything here is a value that nobody changes; nothing does I/O. Times are epoch seconds (float),
durations are seconds, and arguments, results and `meta` are JSON text that the model never looks
into.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from holdfast.errors import ErrorCode
from holdfast.jobs.downstreams.record import Admission, CallReport
from holdfast.jobs.structs import Value
from holdfast.resilience.breaker.transitions import Permit


class JobStatus(StrEnum):
    """Where a job stands. `MOVES` says where it can go from there."""

    UPLOADED = "uploaded"
    """Recorded, its input not yet complete: never claimed. Left by `submit` or `reject`."""
    QUEUED = "queued"
    """Waiting: ready now, or at `ready_at` (a first run in the future, a retry after a delay)."""
    PROCESSING = "processing"
    """Leased by one worker; the only status with a worker and a lease."""
    COMPLETE = "complete"
    """Finished with a result; the only status with one. Final."""
    FAILED = "failed"
    """Not tried again without a person; the only status with an error."""
    CANCELLED = "cancelled"
    """Given up on request. Final."""

    @property
    def finished(self) -> bool:
        """Whether nothing happens to such a job by itself any more."""
        return self in FINISHED


FINISHED = frozenset({JobStatus.COMPLETE, JobStatus.FAILED, JobStatus.CANCELLED})
"""Statuses that a job does not leave by itself."""

BORN = frozenset({JobStatus.UPLOADED, JobStatus.QUEUED})
"""Statuses that a job can be created in."""

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
        (JobStatus.PROCESSING, JobStatus.QUEUED): "retry scheduled, handed back, or lease lost",
        (JobStatus.PROCESSING, JobStatus.CANCELLED): "cancelled, and its worker let go",
        (JobStatus.FAILED, JobStatus.QUEUED): "retried by a person",
    }
)
"""Every legal move and its reason. The databases enforce it; the docs' diagram is drawn from it."""


def may_move(origin: JobStatus, target: JobStatus) -> bool:
    """Say whether a job may go from `origin` to `target`. Staying where it is is no move."""
    return (origin, target) in MOVES


class DeadLetterReason(StrEnum):
    """Why a job will not be tried again without a person."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    PERMANENT = "permanent"
    DEADLINE = "deadline"
    LEASE_LOST = "lease_lost"
    REFUSED = "refused"
    """Its downstream was open and failed it fast."""


class EventName(StrEnum):
    """What a line of a job's history records."""

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
    """What went wrong: a code of the one taxonomy and one line for people."""

    code: ErrorCode
    message: str


class NewJob(Value, frozen=True):
    """What enqueue hands to a store, checked when it is made.

    Args:
        id: the job's name, unique for good; enqueueing the same id again returns that job.
        kind: which handler runs it.
        queue: which workers run it.
        arguments: JSON text.
        downstream: the dependency whose breaker and limits it obeys.
        status: one of `BORN`.
        priority: higher runs first within its lane; -32768 to 32767.
        max_attempts: attempts in all, the first included; at least 1.
        run_at: epoch seconds before which it is not started.
        deadline_at: epoch seconds after which it is failed with `TIMEOUT`.
        dedup_key: two jobs of one kind with the same key are twins: while one is unfinished or
            complete, the other is not created.
        owner: whose job it is.
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

    def __post_init__(self) -> None:
        if not self.id or not self.kind or not self.queue or self.downstream == "":
            raise ValueError(f"job {self.id!r}: id, kind, queue and downstream must have a name")
        if self.status not in BORN:
            raise ValueError(f"job {self.id!r}: a job cannot be created {self.status}")
        if self.max_attempts < 1:
            raise ValueError(f"job {self.id!r}: max_attempts must be at least 1")
        if not -32768 <= self.priority <= 32767:
            raise ValueError(f"job {self.id!r}: priority must be from -32768 to 32767")


class Enqueued(Value, frozen=True):
    """What became of one `NewJob`: `id` is its own, or its twin's where `created` is False."""

    id: str
    created: bool


class Lease(Value, frozen=True):
    """The right to run one job until `expires_at`. `token` fences every write made under it."""

    job_id: str
    token: int
    worker_id: str
    expires_at: float


class Claim(Value, frozen=True):
    """One attempt to run now: the lease, the permit of its downstream, and what a handler needs.

    `admission` is `REFUSED` only where the downstream is open in `fail_fast` mode: the job must
    then be failed without a call. `permit` goes back in the `CallReport`.
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

    A store turns it into a dead letter (`ATTEMPTS_EXHAUSTED`) where no attempt is left, and into
    `Cancelled` where the job was asked to cancel. Where `counted` is False the attempt that was
    counted at the claim is given back: a trial call of an open downstream that failed says
    something of the downstream, and nothing of the job.
    """

    after: float
    error: JobError
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed for good. processing → failed; a dead letter unless the reason is None."""

    error: JobError
    dead_letter: DeadLetterReason | None = DeadLetterReason.PERMANENT


@dataclass(frozen=True, slots=True)
class Released:
    """The attempt was not made, or not seen through, by our own doing. processing → queued.

    The worker shuts down, or the downstream opened after the claim. The attempt that was counted
    at the claim is given back; the job is ready again after `after` seconds, in its old place.
    """

    after: float = 0.0
    reason: str = "shutdown"


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler let go on request. processing → cancelled."""


Outcome = Completed | Retry | Failed | Released | Cancelled
"""What a worker reports about an attempt."""


class Finished(Value, frozen=True):
    """One attempt's report.

    Args:
        lease: the lease it ran under.
        outcome: how it ended.
        duration: seconds it ran; None lets the store take its own clock's difference.
        report: what the call says of the downstream; None where no call was made. It counts only
            where the outcome itself is accepted.
        meta: JSON text for the event and the attempt (gateway_http_status, ...), or None.
    """

    lease: Lease
    outcome: Outcome
    duration: float | None = None
    report: CallReport | None = None
    meta: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is read back.

    `ready_at` is when a queued job may start (a retry's `retry_after`, a `run_at`). `error` is set
    only while failed; the last error of a waiting job is that of its last attempt. `held` is True
    for a queued job that is due and whose downstream admits nothing at the moment of reading.
    `started_at` is the start of the first attempt since it was created or retried by a person,
    `last_attempt_at` the start of the latest, `finished_at` the time it became complete, failed or
    cancelled. `arguments` is None where the reader did not ask for it.
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
    held: bool
    arguments: str | None = None

    @property
    def is_dead_letter(self) -> bool:
        """Whether it waits among the dead letters for a person."""
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
        """Epoch seconds of the next attempt of a job that waits between two attempts."""
        ready, last = self.ready_at, self.last_attempt_at
        if self.status is not JobStatus.QUEUED or ready is None or last is None:
            return None
        return ready if ready >= last else None  # what was handed back keeps its old time


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job. The one under way has neither `finished_at` nor `outcome`.

    `number` counts since the job was created or retried by a person; what was released or did not
    count gives its number back, so numbers may repeat; `token` never does. `retry_after` is the
    delay in seconds that followed it, `duration` is seconds.
    """

    job_id: str
    number: int
    token: int
    worker_id: str
    started_at: float
    finished_at: float | None = None
    duration: float | None = None
    outcome: AttemptOutcome | None = None
    error: JobError | None = None
    retry_after: float | None = None
    meta: str | None = None


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One line of a job's history. `sequence` grows over all jobs of a store.

    `duration_ms` is the attempt's, in milliseconds; `meta` is JSON text.
    """

    sequence: int
    job_id: str
    kind: str
    owner: str | None
    name: EventName
    at: float
    attempt: int
    duration_ms: float | None = None
    error_code: ErrorCode | None = None
    meta: str | None = None


@dataclass(frozen=True, slots=True)
class LateResult:
    """A result that came after the job had been failed with `TIMEOUT`. It changed no status."""

    job_id: str
    token: int
    received_at: float
    result: str | None
