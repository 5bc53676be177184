"""What workers and maintenance tell their listeners, as frozen records.

`name` is the kind for what happens to jobs, the downstream for circuits and probes, the worker's
id for what happens to the worker itself. Durations are seconds.
"""

from dataclasses import dataclass

from holdfast.errors import ErrorCode
from holdfast.events import Event
from holdfast.jobs.model import AttemptOutcome, JobStatus
from holdfast.jobs.store_values import Deleted, Refusal


@dataclass(frozen=True, slots=True)
class JobClaimed(Event):
    """A worker took a job and starts attempt number `attempt`; `waited` since it was created."""

    job_id: str
    attempt: int
    waited: float


@dataclass(frozen=True, slots=True)
class AttemptFinished(Event):
    """The store accepted the report on an attempt. `code` is set where it failed."""

    job_id: str
    attempt: int
    outcome: AttemptOutcome
    duration: float
    code: ErrorCode | None = None


@dataclass(frozen=True, slots=True)
class JobOverruled(Event):
    """A report was accepted, and the job went to `status` instead of where its outcome says."""

    job_id: str
    status: JobStatus


@dataclass(frozen=True, slots=True)
class WriteRefused(Event):
    """A report changed nothing: the lease was no longer the worker's, or the deadline passed."""

    job_id: str
    token: int
    reason: Refusal


@dataclass(frozen=True, slots=True)
class LeaseLost(Event):
    """A worker learnt that an attempt runs without a lease, and asked it to stop.

    `certain` is False where the store could not be asked in time: the lease may still stand.
    """

    job_id: str
    token: int
    certain: bool


@dataclass(frozen=True, slots=True)
class AttemptAbandoned(Event):
    """An attempt did not stop when asked; it was reported, and keeps its slot until it ends."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class WorkerStuck(Event):
    """Attempts that were abandoned and do not end take all `slots` of a worker: it runs nothing."""

    slots: int


@dataclass(frozen=True, slots=True)
class CircuitMoved(Event):
    """A downstream's breaker is now in `state`."""

    state: str
    cause: str | None


@dataclass(frozen=True, slots=True)
class StoreLost(Event):
    """The store does not answer; told once an outage."""

    error: str


@dataclass(frozen=True, slots=True)
class StoreBack(Event):
    """The store answers again after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    """A worker begins to claim."""

    concurrency: int


@dataclass(frozen=True, slots=True)
class WorkerStopped(Event):
    """A worker has let go of everything; `unreported` attempts could not be reported."""

    unreported: int


@dataclass(frozen=True, slots=True)
class LeaderChanged(Event):
    """The worker became the leader of maintenance, or no longer is."""

    leads: bool


@dataclass(frozen=True, slots=True)
class ServiceRan(Event):
    """A maintenance service, named by `name`, made one round and handled `count` things."""

    count: int


@dataclass(frozen=True, slots=True)
class JobsRescued(Event):
    """Leases had run out: these jobs were put back, ended in the dead letters or cancelled."""

    requeued: tuple[str, ...]
    dead: tuple[str, ...]
    cancelled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobsTimedOut(Event):
    """These jobs were failed with `TIMEOUT`: their deadlines had passed."""

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobsDeleted(Event):
    """Retention deleted these jobs."""

    jobs: tuple[Deleted, ...]


@dataclass(frozen=True, slots=True)
class ProbeRan(Event):
    """A health probe of the downstream `name` came back; `error` says why it was not well."""

    ok: bool
    error: str | None = None
