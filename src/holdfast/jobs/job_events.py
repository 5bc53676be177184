"""Events that workers and maintenance send to listeners, as frozen records.

`name` is the kind for events of jobs, the downstream for circuits and probes, and the worker's id
for events of the worker. Durations are seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from holdfast.events import Event
from holdfast.jobs.model import AttemptOutcome, Claim, Finished, JobStatus
from holdfast.jobs.store_values import Deleted, Refusal


@dataclass(frozen=True, slots=True)
class JobClaimed(Event):
    """A worker claimed a job for attempt `attempt`; `waited` is the time since its creation."""

    job_id: str
    attempt: int
    waited: float


@dataclass(frozen=True, slots=True)
class AttemptFinished(Event):
    """The store accepted an attempt's report.

    `error`, `code` and `message` are set if the attempt failed, and only then; `retry_at` is when
    the next attempt is due, in epoch seconds, or None if none follows. `error` is the handler's
    exception, with its traceback, a `ChildError` if it was raised in a child process, or what cut
    or refused the attempt. Do not keep it: its frames hold all local variables of the handler.
    """

    job_id: str
    attempt: int
    outcome: AttemptOutcome
    duration: float
    code: str | None = None
    message: str | None = None
    max_attempts: int = 0
    retry_at: float | None = None
    error: BaseException | None = None

    @property
    def kind(self) -> str:
        """The name of the job's kind, which is also `name`."""
        return self.name


@dataclass(frozen=True, slots=True)
class TickStored(Event):
    """The store accepted a tick of a worker: what `TickListener` gets for many jobs at once.

    Attributes:
        claims: the attempts that it claimed.
        reports: the accepted reports, each after the name of its job's kind.
        failed: the codes of the errors with which jobs failed for good.
    """

    claims: Sequence[Claim]
    reports: Sequence[tuple[str, Finished]]
    failed: Sequence[str]


@runtime_checkable
class TickListener(Protocol):
    """A listener that takes a whole tick in place of its `JobClaimed` and `AttemptFinished`.

    Creating two events for every job costs a tenth of the time of a job that does nothing. All
    other events are sent to it one by one.
    """

    def __call__(self, event: Event, /) -> None:
        """Take note of `event`."""
        ...

    def tick_stored(self, tick: TickStored, /) -> None:
        """Take note of all claims and reports of one tick."""
        ...


@dataclass(frozen=True, slots=True)
class JobOverruled(Event):
    """A report was accepted, but the job moved to `status` instead of its outcome's status."""

    job_id: str
    status: JobStatus


@dataclass(frozen=True, slots=True)
class WriteRefused(Event):
    """A report was refused: the worker no longer has the lease, or the deadline passed."""

    job_id: str
    token: int
    reason: Refusal


@dataclass(frozen=True, slots=True)
class LeaseLost(Event):
    """An attempt ran without a lease, and its worker asked it to stop.

    `certain` is False if the store did not answer in time: the lease may still be valid.
    """

    job_id: str
    token: int
    certain: bool


@dataclass(frozen=True, slots=True)
class AttemptAbandoned(Event):
    """An attempt ignored the request to stop; it was reported and keeps its slot until it ends."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class WorkerStuck(Event):
    """Abandoned attempts occupy all `slots` of a worker, so it runs nothing."""

    slots: int


@dataclass(frozen=True, slots=True)
class CircuitMoved(Event):
    """A downstream's breaker is now in `state`."""

    state: str
    cause: str | None


@dataclass(frozen=True, slots=True)
class StoreLost(Event):
    """The store does not answer; sent once per outage."""

    error: str


@dataclass(frozen=True, slots=True)
class StoreBack(Event):
    """The store answers again after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    """A worker started to claim jobs."""

    concurrency: int


@dataclass(frozen=True, slots=True)
class WorkerStopped(Event):
    """A worker stopped; `unreported` attempts could not be reported."""

    unreported: int


@dataclass(frozen=True, slots=True)
class LeaderChanged(Event):
    """The worker became the leader of some maintenance, or stopped being it."""

    leads: bool
    leadership: str = "maintenance"


@dataclass(frozen=True, slots=True)
class ServiceRan(Event):
    """The maintenance service `name` finished a round; `count` jobs or records were handled."""

    count: int


@dataclass(frozen=True, slots=True)
class JobsRescued(Event):
    """Leases expired: these jobs were requeued, became dead letters or were cancelled."""

    requeued: tuple[str, ...]
    dead: tuple[str, ...]
    cancelled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobsTimedOut(Event):
    """These jobs failed with `TIMEOUT`: their deadlines had passed."""

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KindWithoutWorker(Event):
    """`waiting` jobs of the kind `name` wait, and no live worker knows that kind."""

    waiting: int


@dataclass(frozen=True, slots=True)
class JobsDeleted(Event):
    """Retention deleted these jobs."""

    jobs: tuple[Deleted, ...]


@dataclass(frozen=True, slots=True)
class ProbeRan(Event):
    """A health probe of the downstream `name` ended; `error` says why it failed."""

    ok: bool
    error: str | None = None
