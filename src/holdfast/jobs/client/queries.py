"""Read jobs, wait for them, and return their results."""

from collections.abc import Iterable
from typing import Any, TypeVar, overload

from holdfast.clock import Clock
from holdfast.jobs.client.overview import Overview, read_overview
from holdfast.jobs.client.requests import JobHandle
from holdfast.jobs.declare.codecs import result_codec
from holdfast.jobs.declare.job_request import JobId
from holdfast.jobs.declare.registry import Registry
from holdfast.jobs.declare.validation import UNSTORABLE, shown
from holdfast.jobs.exceptions import JobFailed, NotReady, UnknownJob, WaitTimeout
from holdfast.jobs.history import Attempt, JobEvent, LateResult
from holdfast.jobs.model import Job, JobStatus
from holdfast.jobs.store_port import Store
from holdfast.jobs.views import EVERY_JOB, DeadLetter, JobFilter, JobSearch, Page, Stats
from holdfast.resilience import checks

ResultT = TypeVar("ResultT")

MOST_LISTED = 100_000
"""Most jobs on one page."""
_POLL_INTERVAL = 5.0
"""Seconds after which `wait` reads the job even if no change was signalled."""
_MIN_POLL_INTERVAL = 0.02
"""Least seconds between two reads, however many other jobs change meanwhile."""


class Queries:
    """The methods of an engine that only read."""

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self.store = store
        self.registry = registry
        self.clock = clock

    async def get(self, job: JobId) -> Job | None:
        """Return a job, or None if there is no such job."""
        return await self.store.get(id_of(job))

    async def list(
        self, where: JobFilter = EVERY_JOB, *, cursor: str | None = None, limit: int = 50
    ) -> Page:
        """Return jobs without their arguments, newest first, and the cursor of the next page.

        Raises:
            ValueError: `limit` is not from 0 to 100 000, or `cursor` is not valid.
        """
        checks.whole("limit", limit, at_least=0, at_most=MOST_LISTED)
        return await self.store.list_jobs(where, cursor=cursor, limit=limit)

    async def search(
        self, where: JobFilter = EVERY_JOB, *, cursor: str | None = None, limit: int = 50
    ) -> JobSearch:
        """Return jobs as `list` does, looking at a bounded number of jobs.

        Those are the newest 5000 of an index that serves `where`, or of all jobs. The answer says
        where the search has stopped, and its cursor goes on from there.

        Raises:
            ValueError: `limit` is not from 0 to 100 000, or `cursor` is not valid.
        """
        checks.whole("limit", limit, at_least=0, at_most=MOST_LISTED)
        return await self.store.search_jobs(where, cursor=cursor, limit=limit)

    async def events(self, job: JobId) -> tuple[JobEvent, ...]:
        """Return a job's history, oldest first."""
        return await self.store.events(id_of(job))

    async def attempts(self, job: JobId) -> tuple[Attempt, ...]:
        """Return a job's attempts, oldest first, including a running one."""
        return await self.store.attempts(id_of(job))

    async def late_results(self, job: JobId) -> tuple[LateResult, ...]:
        """Return the results that arrived after the deadline, oldest first."""
        return await self.store.late_results(id_of(job))

    async def stats(self) -> Stats:
        """Return the maintained counters."""
        return await self.store.stats()

    async def overview(self) -> Overview:
        """Return figures about all jobs: success, retries, times, queues and downstreams."""
        return await read_overview(self.store)

    async def wait(self, job: JobId, timeout: float | None = None) -> Job:
        """Return the job once it is finished: complete, failed or cancelled.

        Changes are announced in order. While some process is stopped inside a transaction, as by
        SIGSTOP, later changes are not announced, and this may return up to 5 seconds late.

        Args:
            timeout: most seconds to wait; None sets no limit.

        Raises:
            UnknownJob: there is no such job.
            WaitTimeout: it was not finished in time. It keeps running.
        """
        job_id, began = id_of(job), self.clock.monotonic()
        while True:
            sequence = await self.store.last_sequence()
            read_at = self.clock.monotonic()
            found = await self.store.get(job_id)
            if found is None:
                raise UnknownJob(job_id)
            if found.status.finished:
                return found
            left = _POLL_INTERVAL if timeout is None else began + timeout - self.clock.monotonic()
            if left <= 0:
                assert timeout is not None
                raise WaitTimeout(found, timeout)
            await self.store.wait_for_changes(sequence, min(left, _POLL_INTERVAL))
            rest = read_at + _MIN_POLL_INTERVAL - self.clock.monotonic()
            if rest > 0:
                await self.clock.sleep_async(min(rest, left))

    @overload
    async def result(self, job: JobHandle[ResultT], *, timeout: float | None = None) -> ResultT: ...

    @overload
    async def result(self, job: str | Job | DeadLetter, *, timeout: float | None = None) -> Any: ...

    async def result(self, job: JobId, *, timeout: float | None = None) -> Any:
        """Return the result of a complete job, decoded by the handler's annotation.

        Args:
            timeout: seconds to wait for it to finish; None does not wait.

        Raises:
            UnknownJob: there is no such job.
            NotReady: it is not finished.
            WaitTimeout: it was not finished in time.
            JobFailed: it failed or was cancelled; `code` is that of the job's error.
            ValidationError: the result does not fit the handler's annotation.
        """
        found = await self.get(job) if timeout is None else await self.wait(job, timeout)
        if found is None:
            raise UnknownJob(id_of(job))
        if not found.status.finished:
            raise NotReady(found)
        if found.status is not JobStatus.COMPLETE:
            raise JobFailed(found)
        if found.result is None:
            return None
        kind = self.registry.find(found.kind)
        codec = result_codec(Any, found.kind) if kind is None else kind.handler.results
        return codec.decode(found.result)


def id_of(job: JobId) -> str:
    """Return the id of a job.

    Raises:
        TypeError: `job` does not identify a job.
    """
    if isinstance(job, str):
        # No job has such an id, and a store would raise: make it an id that is not found.
        return UNSTORABLE.sub("\ufffd", job)
    if isinstance(job, JobHandle | Job):
        return job.id
    if isinstance(job, DeadLetter):
        return job.job.id
    raise TypeError(f"a job must be an id, a handle or a Job, got {shown(job)}")


def several(jobs: JobId | Iterable[JobId]) -> Iterable[JobId]:
    """Return `jobs` as an iterable, also where it is a single one."""
    return jobs if isinstance(jobs, Iterable) and not isinstance(jobs, str) else (jobs,)
