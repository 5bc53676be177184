"""The history of jobs as it is read back: attempts, events, late results.

Times are epoch seconds (float), durations are seconds; results and `meta` are JSON text.
"""

from dataclasses import dataclass

from holdfast.jobs.model import AttemptOutcome, EventName, JobError


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job. A running attempt has neither `finished_at` nor `outcome`.

    `number` starts at 1 after creation and after each manual retry. A released or uncounted attempt
    leaves its number to the next one, so numbers may repeat; `token` is unique. `retry_after` is
    the delay in seconds that followed, `duration` is seconds. `traceback` is that of the handler's
    exception, if one was raised and `WorkerOptions(tracebacks=)` keeps it.
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
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One event in a job's history. `sequence` grows over all jobs of a store.

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
    error_code: str | None = None
    meta: str | None = None


@dataclass(frozen=True, slots=True)
class LateResult:
    """A result that arrived after the job failed with `TIMEOUT`. It changed no status."""

    job_id: str
    token: int
    received_at: float
    result: str | None
