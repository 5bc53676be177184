"""Exceptions that an engine, a worker or a handler's context raises."""

from collections.abc import Iterable

from holdfast.errors import ERRORS, ErrorCode, HoldfastError
from holdfast.jobs.model import Job, JobError


class UnknownKind(HoldfastError, LookupError):
    """No app of this engine declares the kind `kind`."""

    code = ErrorCode.VALIDATION_ERROR

    def __init__(self, kind: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"no app of this engine declares {kind!r} (declared: {names}); pass its app in apps="
        )
        self.kind = kind


class UnknownQueue(HoldfastError, LookupError):
    """No declared kind and no stored job uses the queue `queue`."""

    code = ErrorCode.VALIDATION_ERROR

    def __init__(self, queue: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(f"there is no queue {queue!r} (known: {names})")
        self.queue = queue


class UnknownWorker(HoldfastError, LookupError):
    """There is no worker `worker_id`: it has ended, or its id is wrong."""

    code = ErrorCode.VALIDATION_ERROR

    def __init__(self, worker_id: str) -> None:
        super().__init__(f"there is no worker {worker_id!r}")
        self.worker_id = worker_id


class UnknownJob(HoldfastError, LookupError):
    """There is no job `job_id`: it was never enqueued, or retention has deleted it."""

    code = ErrorCode.FORBIDDEN

    def __init__(self, job_id: str) -> None:
        super().__init__(f"there is no job {job_id!r}")
        self.job_id = job_id


class InvalidState(HoldfastError):
    """The job's status does not allow the requested change."""

    code = ErrorCode.INVALID_STATE


class TwinInPlace(InvalidState):
    """Another job with the same `dedup_key` is unfinished or complete."""


class NotReady(HoldfastError):
    """The job is not finished, so it has no result."""

    code = ErrorCode.NOT_READY

    def __init__(self, job: Job) -> None:
        super().__init__(f"job {job.id} is {job.status} and has no result yet")
        self.job = job


class WaitTimeout(HoldfastError, TimeoutError):
    """The job did not finish within the timeout. It keeps running."""

    code = ErrorCode.TIMEOUT

    def __init__(self, job: Job, seconds: float) -> None:
        super().__init__(f"job {job.id} is still {job.status} after {seconds:g} s of waiting")
        self.job = job
        self.seconds = seconds


class JobFailed(HoldfastError):
    """The job failed or was cancelled; `code` and the message are those of its error."""

    def __init__(self, job: Job) -> None:
        error = job.error or JobError(ErrorCode.CANCELLED, ERRORS[ErrorCode.CANCELLED].message)
        super().__init__(f"job {job.id} is {job.status}: {error.code}: {error.message}")
        self.code = error.code
        self.job = job


class ChildError(HoldfastError):
    """A handler failed in its child process. Only text crosses over: `code`, `traceback`.

    Listeners get it as `AttemptFinished.error`, and a middleware from `call_next()`.
    """

    def __init__(self, code: str, message: str, traceback: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.traceback = traceback
        if traceback is not None:
            self.add_note(traceback)


class ContextError(HoldfastError):
    """A handler uses its context in a way, or at a time, in which it cannot be used."""

    code = ErrorCode.INVALID_STATE


class LostLease(HoldfastError):
    """The attempt no longer holds its job's lease, so its transaction was rolled back."""

    code = ErrorCode.LEASE_LOST

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id}: the lease is lost and another worker may run the job; the transaction "
            f"was rolled back"
        )
        self.job_id = job_id


class LifespanFailed(HoldfastError):
    """The lifespan of an app raised before its worker could start."""

    def __init__(self, app: str, error: BaseException) -> None:
        super().__init__(f"app {app}: its lifespan failed: {type(error).__name__}: {error}")
        self.app = app


class TooManyJobs(HoldfastError):
    """An owner has as many unfinished jobs as it may; none of the new ones was created.

    Attributes:
        owner: whose they are.
        limit: how many it may have.
    """

    code = ErrorCode.TOO_MANY_JOBS

    def __init__(self, owner: str, limit: int) -> None:
        super().__init__(f"owner {owner!r} may have {limit} unfinished jobs, and has no room left")
        self.owner = owner
        self.limit = limit
