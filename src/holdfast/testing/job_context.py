"""A context with which a test calls a handler as a plain function."""

from typing import Any, NoReturn

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.ids import new_ids
from holdfast.jobs.client.requests import JobRequest, RequestOptions, prepare
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.attempt_scope import TransactionBlock
from holdfast.jobs.declare.codecs import PAYLOAD_LIMIT
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.context_port import ContextPort
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.downstreams.record import Admission
from holdfast.jobs.exceptions import ContextError
from holdfast.jobs.model import Claim, Lease, NewJob


class RecordedContext(JobContext):
    """A `JobContext` without a worker, which keeps what the handler does with it.

    Attributes:
        reports: the calls of `progress`, as (share, note).
        enqueued: the jobs of `ctx.enqueue`, validated, in order; nothing creates them.
    """

    __slots__ = ("enqueued", "reports")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.reports: list[tuple[float | None, str | None]] = []
        self.enqueued: list[JobRequest[Any, Any]] = []


class _Recorder(ContextPort):
    def __init__(self, state: object, connection: object) -> None:
        self.enqueued: list[JobRequest[Any, Any]] = []
        self._state = state
        self._connection = connection

    def progress_noted(self, context: JobContext) -> None:
        report = context.take_progress()
        if isinstance(context, RecordedContext) and report is not None:
            context.reports.append(report)

    def state_of(self, _context: JobContext) -> Any:
        if self._state is None:
            raise ContextError("job_context(state=...) gives the handler its ctx.state")
        return self._state

    def database_of(self, _context: JobContext) -> NoReturn:
        raise ContextError("job_context() has no ctx.database: use virtual_engine(), which has one")

    def engine_of(self, _context: JobContext) -> NoReturn:
        raise ContextError("job_context() has no ctx.engine: use virtual_engine(), which is one")

    def shared_rate(self, *_: object) -> NoReturn:
        raise ContextError("job_context() has no store to count a rate: use virtual_engine()")

    def new_job(
        self, job: JobFunction[Any, Any] | str, args: Any, options: RequestOptions
    ) -> NewJob:
        request: JobRequest[Any, Any] = JobRequest(job, args, **options)
        wall = SYSTEM_CLOCK.wall()
        (new_id,) = new_ids(1, wall)
        new = NewJob(options.get("id") or new_id, request.kind_name)
        if isinstance(job, JobFunction):
            new = prepare(request, job.kind, new_id, wall, PAYLOAD_LIMIT)
        self.enqueued.append(request)
        return new

    def transaction(self, *_: object) -> TransactionBlock:
        return _GivenTransaction(self._connection)


class _GivenTransaction(TransactionBlock):
    """Yields the test's own connection, which the test commits or rolls back."""

    def __init__(self, connection: object) -> None:
        self._connection = connection

    def __enter__(self) -> Any:
        if self._connection is None:
            raise ContextError("job_context(connection=...) gives ctx.transaction() its connection")
        return self._connection

    def __exit__(self, *_: object) -> None: ...

    async def __aenter__(self) -> Any:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None: ...


def job_context(
    job: JobFunction[Any, Any] | None = None,
    *,
    attempt: int = 1,
    job_id: str = "test-job",
    owner: str | None = None,
    meta: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
    state: object = None,
    connection: object = None,
) -> RecordedContext:
    """Return a context for one call of a handler: `await send(job_context(send), args)`.

    `request_cancel(reason)` of the context asks the handler to stop, as a worker does.

    Args:
        job: the declared job, for its name, `max_attempts` and `timeout`.
        attempt: the number of the attempt, from 1.
        meta: the job's JSON text for pages.
        clock: what `remaining()` counts by.
        state: what `ctx.state` is.
        connection: what `ctx.transaction()` yields; the test itself commits it or rolls it back.
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
    recorder = _Recorder(state, connection)
    context = RecordedContext(claim, kind, recorder, clock)
    context.enqueued = recorder.enqueued
    return context


@App("testing").job(name="job")
def _any_job(ctx: JobContext) -> None: ...
