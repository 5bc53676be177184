"""The type of `ctx.engine`, for editors and type checkers; at run time it is the engine itself.

`jobs.declare` may not import the engine, so this protocol has the methods that handlers use;
`tests/jobs/declare/test_engine_of_context.py` compares their signatures with the engine's.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, overload

from holdfast.clock import Clock
from holdfast.jobs.database_port import Database
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.declare.job_handle import JobHandle, RequestOptions
from holdfast.jobs.declare.job_request import JobId, JobRequest
from holdfast.jobs.downstream_calls import DownstreamCalls
from holdfast.jobs.history import Attempt, JobEvent
from holdfast.jobs.model import Job
from holdfast.jobs.shared_rate import SharedRate
from holdfast.jobs.views import EVERY_JOB, DeadLetter, JobFilter, Page
from holdfast.resilience.policy import RateLimit

ArgsT = TypeVar("ArgsT")
ResultT = TypeVar("ResultT")


class EngineMethods(Protocol):
    """What handlers use of the engine; `holdfast.Engine` explains each method.

    Attributes:
        calls: ask a breaker before a call outside of jobs, and report the call.
        clock: where time comes from.
    """

    calls: DownstreamCalls
    clock: Clock

    @property
    def database(self) -> Database:
        """The database of the jobs, for an app's own tables."""
        ...

    def shared_rate(self, name: str, limit: RateLimit) -> SharedRate:
        """Return a rate of calls that is counted in the store, for all processes together."""
        ...

    # -- enqueueing ----------------------------------------------------------------------------

    @overload
    async def enqueue(
        self,
        job: JobFunction[None, ResultT],
        args: None = None,
        *,
        connection: object = None,
        **options: Unpack[RequestOptions],
    ) -> JobHandle[ResultT]: ...

    @overload
    async def enqueue(
        self,
        job: JobFunction[ArgsT, ResultT],
        args: ArgsT,
        *,
        connection: object = None,
        **options: Unpack[RequestOptions],
    ) -> JobHandle[ResultT]: ...

    @overload
    async def enqueue(
        self,
        job: str,
        args: object = None,
        *,
        connection: object = None,
        **options: Unpack[RequestOptions],
    ) -> JobHandle[Any]: ...

    async def enqueue(
        self,
        job: JobFunction[Any, Any] | str,
        args: Any = None,
        *,
        connection: object = None,
        **options: Unpack[RequestOptions],
    ) -> JobHandle[Any]:
        """Create a job now, or find its twin; `ctx.enqueue` waits for this job's completion."""
        ...

    async def enqueue_many(
        self, requests: Iterable[JobRequest[Any, Any]], *, connection: object = None
    ) -> tuple[JobHandle[Any], ...]:
        """Create many jobs in one transaction: all or none."""
        ...

    async def submit(self, job: JobId) -> Job:
        """Queue a job that was created `uploaded`: its input is complete."""
        ...

    async def reject(self, job: JobId, code: str, message: str) -> Job:
        """Fail a job that was created `uploaded`: its input is invalid."""
        ...

    # -- reading -------------------------------------------------------------------------------

    async def get(self, job: JobId) -> Job | None:
        """Return a job, or None if there is no such job."""
        ...

    async def list(
        self, where: JobFilter = EVERY_JOB, *, cursor: str | None = None, limit: int = 50
    ) -> Page:
        """Return jobs without their arguments, newest first, and the cursor of the next page."""
        ...

    async def events(self, job: JobId) -> tuple[JobEvent, ...]:
        """Return a job's history, oldest first."""
        ...

    async def attempts(self, job: JobId) -> tuple[Attempt, ...]:
        """Return a job's attempts, oldest first, including a running one."""
        ...

    async def wait(self, job: JobId, timeout: float | None = None) -> Job:
        """Return the job once it is finished; `timeout` in seconds.

        The handler keeps its slot meanwhile: a worker whose handlers all wait runs nothing else.
        """
        ...

    @overload
    async def result(self, job: JobHandle[ResultT], *, timeout: float | None = None) -> ResultT: ...

    @overload
    async def result(self, job: str | Job | DeadLetter, *, timeout: float | None = None) -> Any: ...

    async def result(self, job: JobId, *, timeout: float | None = None) -> Any:
        """Return the result of a complete job; wait for it at most `timeout` seconds."""
        ...

    # -- changing ------------------------------------------------------------------------------

    async def cancel(self, job: JobId) -> Job:
        """Cancel an unfinished job; a running one is asked to stop."""
        ...

    async def retry(self, job: JobId) -> Job:
        """Requeue a failed job and reset its attempt count."""
        ...

    async def retry_now(self, job: JobId) -> Job:
        """Make a queued job that waits for its retry or its `run_at` ready now."""
        ...

    async def delete(self, jobs: JobId | Iterable[JobId]) -> tuple[str, ...]:
        """Delete finished jobs with their history, now, and return their ids."""
        ...


if TYPE_CHECKING:
    # With Any as a base it is taken where an `Engine` is expected, and what is not named above,
    # such as the outbox, is untyped.
    class HandlerEngine(EngineMethods, Any):  # type: ignore[misc]
        """What a handler gets as `ctx.engine`."""
else:
    HandlerEngine = Any  # a protocol cannot have it as a base at run time
