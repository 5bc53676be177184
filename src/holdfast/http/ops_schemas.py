"""What the ops routes take and answer with."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from holdfast.http.api_errors import ErrorDetail
from holdfast.http.schemas import AttemptOut, EventOut, JobOut, Model, Moment, Ordered
from holdfast.jobs.client.dead_letters import Requeued
from holdfast.jobs.client.downstream_details import DownstreamDetails
from holdfast.jobs.declare.validation import UNSTORABLE
from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.engine import StoreEngine
from holdfast.jobs.model import Job
from holdfast.jobs.operations_port import DeadLetterRun, RunAction, RunState
from holdfast.jobs.views import DeadLetter, JobFilter


class DownstreamMove(StrEnum):
    """What may be done to a downstream by hand."""

    RESET = "reset"
    HOLD = "hold"
    RELEASE = "release"


class JobMove(StrEnum):
    """What may be done to a job of any owner."""

    RETRY = "retry"
    RETRY_NOW = "retry-now"
    CANCEL = "cancel"

    def action_of(self, engine: StoreEngine) -> Callable[[str], Awaitable[Job]]:
        """Return what does it to the job of an id."""
        return {
            JobMove.RETRY: engine.retry,
            JobMove.RETRY_NOW: engine.retry_now,
            JobMove.CANCEL: engine.cancel,
        }[self]


class OpsJobOut(JobOut):
    """A job as operators see it."""

    owner: str | None
    queue: str
    downstream: str | None
    worker_id: str | None


class OpsAttemptOut(AttemptOut):
    """One run of a job as operators see it."""

    worker_id: str
    traceback: str | None


class OpsJobAnswer(Model):
    """A job of any owner and its history, oldest first."""

    job: OpsJobOut
    events: list[EventOut]
    attempts: list[OpsAttemptOut]


class OpsJobsAnswer(Model):
    """Jobs of all owners, newest first.

    `complete` is false where the search stopped before the page was full: `searched_from` is when
    the oldest job was created that it looked at, and `next_cursor` goes on from there.
    """

    jobs: list[OpsJobOut]
    next_cursor: str | None
    complete: bool
    searched_from: Moment | None


class OpsJobMoveAnswer(Model):
    """A job of any owner after a change."""

    job: OpsJobOut


class DeletedAnswer(Model):
    """The ids of the jobs that were deleted."""

    deleted: list[str]


_DETAILS = (
    "since", "open_seconds", "next_trial_at", "trips_last_hour", "ready", "scheduled",
    "processing", "oldest_ready_at", "drain_seconds",
)  # fmt: skip
"""What is known of a downstream beyond its record."""


class DownstreamOut(Model):
    """A downstream. Without the admin token only name, state and `held` are filled in."""

    name: str
    state: str
    held: bool
    mode: str | None = None
    held_by_hand: bool | None = None
    failure_count: int | None = None
    opened_at: Moment | None = None
    open_until: Moment | None = None
    trips: int | None = None
    open_seconds: float | None = None
    cause: str | None = None
    since: Moment | None = None
    next_trial_at: Moment | None = None
    trips_last_hour: int | None = None
    ready: int | None = None
    scheduled: int | None = None
    processing: int | None = None
    oldest_ready_at: Moment | None = None
    drain_seconds: float | None = None

    @classmethod
    def detailed(cls, details: DownstreamDetails, now: float) -> "DownstreamOut":
        """Return a downstream with the jobs that wait for it, as of `now`, for operators."""
        more = {name: getattr(details, name) for name in _DETAILS}
        return cls.model_validate({**_stored_fields(details.record, now), **more})

    @classmethod
    def of(cls, record: DownstreamRecord, now: float, *, whole: bool) -> "DownstreamOut":
        """Return `record` as of `now`, epoch seconds of the store."""
        fields = _stored_fields(record, now)
        if not whole:
            fields = {name: fields[name] for name in ("name", "state", "held")}
        return cls.model_validate(fields)


def _stored_fields(record: DownstreamRecord, now: float) -> dict[str, Any]:
    circuit = record.circuit
    return {
        "name": record.name,
        "state": record.state_at(now),
        "held": record.holds_at(now),
        "mode": record.settings.mode,
        "held_by_hand": circuit.held,
        "failure_count": circuit.streak,
        "opened_at": circuit.opened_at,
        "open_until": circuit.open_until,
        "trips": record.trips,
        "open_seconds": record.open_seconds,
        "cause": None if circuit.cause is None else circuit.cause.name,
    }


class DownstreamsAnswer(Model):
    """All downstreams, by name."""

    downstreams: list[DownstreamOut]


class DownstreamAnswer(Model):
    """One downstream."""

    downstream: DownstreamOut


class DeadLetterOut(Model):
    """A job that waits for a person."""

    id: str
    kind: str
    reason: str
    attempts_made: int
    last_error: ErrorDetail
    at: Moment | None

    @classmethod
    def of(cls, letter: DeadLetter) -> "DeadLetterOut":
        """Return `letter`."""
        return cls.from_record(letter, id=letter.job.id, kind=letter.job.kind)


class DeadLetterGroupOut(Model):
    """Dead letters of one kind that failed alike."""

    kind: str
    code: str
    message: str
    count: int
    newest_at: Moment | None
    example_id: str


class ErrorGroupOut(Model):
    """Dead letters of all kinds that failed alike: numbers, ids and quoted parts are left out."""

    code: str
    message: str
    count: int
    kinds: list[str]
    first_at: Moment
    last_at: Moment
    example_ids: list[str]


class ErrorGroupsAnswer(Model):
    """The largest groups of dead letters, the largest first."""

    groups: list[ErrorGroupOut]


class DeadLettersAnswer(Model):
    """Dead letters, newest failure first, and all of them in groups.

    `complete` is false where the search stopped before the page was full: `searched_from` is when
    the oldest one failed that it looked at, and `next_cursor` goes on from there.
    """

    dead_letters: list[DeadLetterOut]
    groups: list[DeadLetterGroupOut]
    next_cursor: str | None
    complete: bool
    searched_from: Moment | None


def _storable(text: str) -> str:
    """Refuse what no database holds: a zero byte, or half of a character."""
    if UNSTORABLE.search(text) is not None:
        raise ValueError("this text cannot be stored")
    return text


Text = Annotated[str, AfterValidator(_storable)]


class DeadLetterFilter(Ordered):
    """Which dead letters; what is left out does not narrow the choice."""

    kind: Text | None = Field(default=None, min_length=1, max_length=200)
    id: Text | None = Field(default=None, min_length=1, max_length=200)
    error_code: Text | None = Field(default=None, pattern="^[A-Z][A-Z0-9_]{0,99}$")
    error_text: Text | None = Field(default=None, max_length=500)
    error_group: Text | None = Field(default=None, max_length=500)

    def as_filter(self) -> JobFilter:
        """Return it as the engine takes it."""
        return JobFilter(
            kinds=() if self.kind is None else (self.kind,),
            id=self.id,
            error_code=self.error_code,
            error_text=self.error_text,
            error_group=self.error_group,
        )


class DeadLetterQuery(DeadLetterFilter):
    """Which dead letters, and from which cursor on."""

    cursor: str | None = Field(default=None, max_length=500)
    limit: int = Field(default=50, ge=1, le=200)


class RequeueOrder(Ordered):
    """What to requeue, and how quickly."""

    filter: DeadLetterFilter = Field(default_factory=DeadLetterFilter)
    # Taken as they are: a slip such as "dryRun": 0 must not put thousands of jobs back.
    dry_run: bool = Field(default=False, strict=True)
    rate_per_second: float | None = Field(
        default=None, ge=0.001, le=1e6, allow_inf_nan=False, strict=True
    )


class RunOut(Model):
    """A run over dead letters: it has looked at `matched` of `total`, and handled `done`.

    `state` is running, finished, stopped by a person, or failed: with an error, or with its server.
    """

    id: str
    action: RunAction
    filter: dict[str, Any]
    who: str
    rate: float | None
    total: int
    state: RunState
    matched: int
    done: int
    skipped: dict[str, int]
    stop_requested: bool
    started_at: Moment
    updated_at: Moment


class RunsAnswer(Model):
    """Runs, the one that began last first."""

    runs: list[RunOut]


class RequeueAnswer(Model):
    """What was requeued so far; `done` is False while a paced run is under way."""

    matched: int
    requeued: int
    skipped: dict[str, int]
    dry_run: bool
    done: bool
    run: RunOut | None = None

    @classmethod
    def of_runs(cls, runs: Sequence[DeadLetterRun]) -> "RequeueAnswer":
        """Return how far the first of `runs` is; without any, that nothing was done."""
        if not runs:
            return cls.of(Requeued(0, 0), done=True)
        run = runs[0]
        so_far = cls.of(
            Requeued(run.matched, run.done, run.skipped), done=run.state is not RunState.RUNNING
        )
        so_far.run = RunOut.model_validate(run)
        return so_far

    @classmethod
    def of(cls, so_far: Requeued, *, done: bool) -> "RequeueAnswer":
        """Return what was done."""
        return cls.model_validate({**asdict(so_far), "done": done})


class DiscardAnswer(Model):
    """How many dead letters were discarded."""

    discarded: int


class LaneOut(Model):
    """How many jobs of one kind in one lane stand where."""

    queue: str
    downstream: str | None
    kind: str
    uploaded: int
    scheduled: int
    ready: int
    processing: int
    complete: int
    failed: int
    cancelled: int


class OutcomeOut(Model):
    """How many jobs of a kind ever ended in a status after so many attempts."""

    kind: str
    status: str
    attempts: int
    count: int


class StatsAnswer(Model):
    """The store's counters."""

    lanes: list[LaneOut]
    outcomes: list[OutcomeOut]
    totals: dict[str, int]
    oldest_ready_at: dict[str, Moment | None]
    dead_letters: int
