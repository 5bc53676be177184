"""A context with which a test calls a handler as a plain function."""

from typing import Any

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import ContextPort, JobContext
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.downstreams.record import Admission
from holdfast.jobs.model import Claim, Lease


class RecordedContext(JobContext):
    """A `JobContext` without a worker. `reports` are the calls of `progress`, as (share, note)."""

    __slots__ = ("reports",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.reports: list[tuple[float | None, str | None]] = []


class _Recorder(ContextPort):
    def progress_noted(self, context: JobContext) -> None:
        report = context.take_progress()
        if isinstance(context, RecordedContext) and report is not None:
            context.reports.append(report)


def job_context(
    job: JobFunction[Any, Any] | None = None,
    *,
    attempt: int = 1,
    job_id: str = "test-job",
    owner: str | None = None,
    meta: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> RecordedContext:
    """Return a context for one call of a handler: `await send(job_context(send), args)`.

    `request_cancel(reason)` of the context asks the handler to stop, as a worker does.

    Args:
        job: the declared job, for its name, `max_attempts` and `timeout`.
        attempt: the number of the attempt, from 1.
        meta: the job's JSON text for pages.
        clock: what `remaining()` counts by.
    """
    kind = (_any_job if job is None else job).kind
    now = clock.wall()
    claim = Claim(
        lease=Lease(job_id, token=attempt, worker_id="test-worker", expires_at=now + 300.0),
        kind=kind.name,
        queue=kind.queue,
        downstream=None,
        arguments="null",
        attempt=attempt,
        max_attempts=kind.policy.max_attempts,
        owner=owner,
        created_at=now,
        started_at=now,
        deadline_at=None,
        meta=meta,
        admission=Admission.CALL,
        permit=None,
    )
    return RecordedContext(claim, kind, _Recorder(), clock)


@App("testing").job(name="job")
def _any_job(ctx: JobContext) -> None: ...
