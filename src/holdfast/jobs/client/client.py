"""The client: enqueue, query, cancel and retry jobs, without running them."""

import asyncio
from collections.abc import Iterable
from typing import Any, Self, TypeVar, Unpack, overload

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import error_code
from holdfast.jobs.client import erasure
from holdfast.jobs.client.api_keys import KeyControl
from holdfast.jobs.client.audit_log import AuditLog
from holdfast.jobs.client.dead_letters import DeadLetters
from holdfast.jobs.client.downstream_control import DownstreamControl
from holdfast.jobs.client.enqueue import Enqueuer, TransactionalEnqueue
from holdfast.jobs.client.erasure import Erased
from holdfast.jobs.client.intake_control import IntakeControl
from holdfast.jobs.client.owner_control import OwnerControl
from holdfast.jobs.client.pause_control import KindControl, QueueControl
from holdfast.jobs.client.periodic_control import PeriodicControl
from holdfast.jobs.client.queries import Queries, id_of, several
from holdfast.jobs.client.requests import JobHandle, JobRequest, RequestOptions
from holdfast.jobs.client.webhook_control import WebhookControl
from holdfast.jobs.client.worker_control import WorkerControl
from holdfast.jobs.database_port import Database
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.codecs import PAYLOAD_LIMIT
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.declare.job_request import JobId
from holdfast.jobs.declare.registry import Registry
from holdfast.jobs.declare.retention import call_on_deleted
from holdfast.jobs.downstream_calls import DownstreamCalls
from holdfast.jobs.exceptions import InvalidState, TwinInPlace, UnknownJob
from holdfast.jobs.model import Job, JobError, JobStatus
from holdfast.jobs.owner_limits import NO_LIMITS, OwnerLimits
from holdfast.jobs.shared_rate import SharedRate
from holdfast.jobs.store_port import Change, Store
from holdfast.resilience import checks
from holdfast.resilience.policy import RateLimit

ArgsT = TypeVar("ArgsT")
ResultT = TypeVar("ResultT")


class Client(Queries):
    """Enqueue jobs, wait for them, cancel and retry them. Open it with `async with`.

    A method that changes a job raises `UnknownJob` if there is no such job, and `InvalidState` if
    its status does not allow the change.

    Args:
        store: where the jobs are kept; opened and closed with the client.
        transactional: enqueues on the caller's `connection=`.
        apps, clock, payload_limit, owner_limits: as `holdfast.Engine` takes them.

    Attributes:
        dead_letters: list, requeue and discard dead letters.
        downstreams: list, reset, hold and release breakers.
        calls: ask a breaker before a call outside of jobs, and report the call.
        queues: list, pause and resume queues.
        kinds: the declared kinds, by name; list, pause and resume kinds.
        workers: list workers, and ask one to finish.
        periodic: list, pause, resume and run periodic jobs.
        keys: create, list, find and revoke API keys.
        owners: look at limits of owners and what they use, and change them.
        intake: pause and resume what servers take in from outside.
        webhooks: add, list, remove and test addresses that are notified of the ends of jobs.
        audit: write and read what people have changed.
    """

    def __init__(
        self,
        store: Store,
        apps: Iterable[App] = (),
        *,
        clock: Clock = SYSTEM_CLOCK,
        payload_limit: int = PAYLOAD_LIMIT,
        transactional: TransactionalEnqueue | None = None,
        owner_limits: OwnerLimits = NO_LIMITS,
    ) -> None:
        super().__init__(store, Registry(apps), clock)
        for app in self.registry.apps:
            if app.tables is not None:
                store.use_tables(app.name, app.tables.package)
        self.owners = OwnerControl(store, self.registry, clock, owner_limits, self)
        self._enqueuer = Enqueuer(
            store, self.registry, clock, payload_limit=payload_limit, transactional=transactional,
            owners=self.owners,
        )  # fmt: skip
        self.dead_letters = DeadLetters(store, self.registry, clock)
        self.downstreams = DownstreamControl(store)
        self.calls = DownstreamCalls(store, clock)
        self.queues = QueueControl(store, self.registry)
        self.kinds = KindControl(store, self.registry)
        self.workers = WorkerControl(store)
        self.periodic = PeriodicControl(store, self.registry, self._enqueuer)
        self.keys = KeyControl(store, clock)
        self.intake = IntakeControl(store)
        self.webhooks = WebhookControl(store, self.registry, clock)
        self.audit = AuditLog(store, clock)
        self._opened_on: asyncio.AbstractEventLoop | None = None

    @property
    def database(self) -> Database:
        """The database of the jobs, for tables of an app's own; on the engine's event loop."""
        return self.store.database

    async def __aenter__(self) -> Self:
        """Open the store and declare the apps' downstreams in it."""
        await self.store.open()
        try:
            await self._enqueuer.declare()
        except BaseException:
            await self.store.close()
            raise
        self._opened_on = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        self._opened_on = None
        await self._enqueuer.close()
        await self.store.close()

    def shared_rate(self, name: str, limit: RateLimit) -> SharedRate:
        """Return a rate of calls that is counted in the store, for all processes together.

        Args:
            name: the same wherever the rate is shared.
            limit: how many calls may start.
        """
        checks.label("name", name)
        checks.instance("limit", limit, RateLimit)
        return SharedRate(name, limit, self.store, self._loop_of_the_store)

    def _loop_of_the_store(self) -> asyncio.AbstractEventLoop | None:
        return self._opened_on

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
        """Create a job, or find its twin; it is durable when this returns.

        Args:
            job: the declared function, or the name of its kind.
            args: its arguments, validated before anything is stored.
            connection: the caller's connection or session; the job is created in its transaction
                and rolled back with it. The store documents the accepted types.
            options: dedup_key, dedup, dedup_for, owner, priority, run_at, delay, deadline, id,
                meta, uploaded and beyond_limits; see `JobRequest`.

        Raises:
            UnknownKind: no app of this engine declares `job`.
            ValidationError: the arguments or an option are invalid.
            PayloadTooLarge: the arguments are larger than `payload_limit`.
            TooManyJobs: the owner has as many unfinished jobs as it may.
            TypeError: the store does not support this type of `connection`.
            ValueError: the connection has no open transaction.
        """
        request: JobRequest[Any, Any] = JobRequest(job, args, **options)
        return (await self.enqueue_many([request], connection=connection))[0]

    async def enqueue_many(
        self, requests: Iterable[JobRequest[Any, Any]], *, connection: object = None
    ) -> tuple[JobHandle[Any], ...]:
        """Create many jobs, of one kind or of several, in one transaction: all or none.

        The handles come in the order of the requests. Raises what `enqueue` raises.
        """
        return await self._enqueuer.enqueue(requests, connection)

    async def submit(self, job: JobId) -> Job:
        """Queue a job that was created `uploaded`: its input is complete."""
        return await self._changed(job, await self.store.submit(id_of(job)), "submitted")

    async def reject(self, job: JobId, code: str, message: str) -> Job:
        """Fail a job that was created `uploaded`: its input is invalid."""
        error = JobError(error_code(code), message)
        return await self._changed(job, await self.store.reject(id_of(job), error), "rejected")

    # -- cancelling and retrying ---------------------------------------------------------------

    async def cancel(self, job: JobId) -> Job:
        """Cancel an unfinished job; a running one is asked to stop and has `cancel_requested` set.

        Its worker is notified within a second.
        """
        return await self._changed(job, await self.store.cancel(id_of(job)), "cancelled")

    async def retry(self, job: JobId) -> Job:
        """Requeue a failed job and reset its attempt count.

        A deadline that has passed is removed; a future one is kept.

        Raises:
            TwinInPlace: a twin with its `dedup_key` exists; an `InvalidState`.
            HoldfastError: its kind's `before_retry` refuses.
        """
        found = await self.get(job)
        if found is not None and found.status is JobStatus.FAILED:
            await self.registry.check_retry(found)
        (change,) = await self.store.retry([id_of(job)])
        return await self._changed(job, change, "retried")

    async def retry_now(self, job: JobId) -> Job:
        """Make a queued job that waits for its retry or its `run_at` ready now.

        This counts as no manual retry. A job that is ready already is left unchanged; a held job
        stays held.
        """
        return await self._changed(job, await self.store.expedite(id_of(job)), "retried now")

    async def delete(self, jobs: JobId | Iterable[JobId]) -> tuple[str, ...]:
        """Delete finished jobs with their history, now, and return their ids.

        The `on_deleted` of a kind's `Retention` is called as if the job's time were over. Jobs that
        are not finished, or not there, are left out.
        """
        deleted = await self.store.delete([id_of(job) for job in several(jobs)])
        for kind in dict.fromkeys(job.kind for job in deleted):
            declared = self.registry.find(kind)
            if declared is not None:
                gone = [job for job in deleted if job.kind == kind]
                await call_on_deleted(kind, declared.retention, gone)
        return tuple(job.id for job in deleted)

    async def purge(
        self, jobs: JobId | Iterable[JobId], *, timeout: float = 60.0
    ) -> tuple[str, ...]:
        """Delete jobs of any status with their history, and return their ids.

        Unfinished ones are cancelled first. Those that run are asked to stop, and waited for up to
        `timeout` seconds in all.

        Raises:
            JobsStillRun: some did not stop in time.
        """
        return await erasure.purge(self, jobs, timeout)

    async def erase(self, owner: str, *, timeout: float = 60.0) -> Erased:
        """Delete everything of `owner`: jobs, files, webhooks, limits, and what the apps keep.

        Calling it again is harmless, also after it has failed half-way. Running jobs are asked to
        stop, and waited for up to `timeout` seconds in all. Each app deletes what it keeps beside
        its jobs, see `App(on_erase=)`: give the engine all apps. API keys are not deleted, since
        what they create later would be the owner's again: revoke them before.

        Raises:
            UndeclaredKinds: no app declares the kind of one of the jobs; nothing was deleted.
            JobsStillRun: some did not stop in time.
        """
        checks.label("owner", owner)
        return await erasure.erase(self, owner, timeout)

    async def _changed(self, job: JobId, change: Change, done: str) -> Job:
        found = await self.get(job)
        if change is Change.MISSING or found is None:
            raise UnknownJob(id_of(job))
        if change is Change.TWIN:
            raise TwinInPlace(
                f"job {found.id} cannot be {done}: another job of {found.kind} with the dedup key "
                f"{found.dedup_key!r} is unfinished or complete"
            )
        if change is Change.REFUSED:
            raise InvalidState(f"job {found.id} is {found.status} and cannot be {done}")
        return found
