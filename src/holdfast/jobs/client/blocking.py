"""Use a client from code that is not async: it is open on an event loop in a thread of its own.

The methods here have the parameters, types and docstrings of the client's: `mirror` makes each
from its coroutine function. Only overloaded ones are written out, since a type checker cannot
derive them.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from holdfast.jobs.client.api_keys import KeyControl
from holdfast.jobs.client.audit_log import AuditLog
from holdfast.jobs.client.client import Client
from holdfast.jobs.client.dead_letters import DeadLetters
from holdfast.jobs.client.downstream_control import DownstreamControl
from holdfast.jobs.client.engine_thread import EngineThread
from holdfast.jobs.client.intake_control import IntakeControl
from holdfast.jobs.client.owner_control import OwnerControl
from holdfast.jobs.client.pause_control import KindControl, QueueControl
from holdfast.jobs.client.periodic_control import PeriodicControl
from holdfast.jobs.client.requests import JobHandle, JobRequest, RequestOptions
from holdfast.jobs.client.webhook_control import WebhookControl
from holdfast.jobs.client.worker_control import WorkerControl
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.declare.job_request import JobId
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.downstream_calls import DownstreamCalls
from holdfast.jobs.model import Job
from holdfast.jobs.shared_rate import SharedRate
from holdfast.jobs.views import DeadLetter
from holdfast.resilience.policy import RateLimit

ArgsT = TypeVar("ArgsT")
P = ParamSpec("P")
ResultT = TypeVar("ResultT")
T = TypeVar("T")


class _Mirror:
    """Has methods of `mirrored` that block."""

    def __init__(self, mirrored: object, thread: EngineThread) -> None:
        self._mirrored = mirrored
        self._thread = thread


def mirror(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Mirror, P], T]:
    """Return `method` in its blocking form."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: _Mirror, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # By its name, since a subclass may have a method of its own.
        work: Coroutine[Any, Any, T] = getattr(self._mirrored, name)(*args, **kwargs)
        return self._thread.run(work)

    return call


class BlockingDeadLetters(_Mirror):
    """List, requeue and discard dead letters; `progress` is called in the engine's thread."""

    list = mirror(DeadLetters.list)
    groups = mirror(DeadLetters.groups)
    errors = mirror(DeadLetters.errors)
    count = mirror(DeadLetters.count)
    requeue = mirror(DeadLetters.requeue)
    requeue_now = mirror(DeadLetters.requeue_now)
    discard = mirror(DeadLetters.discard)
    discard_all = mirror(DeadLetters.discard_all)
    search = mirror(DeadLetters.search)


class BlockingDownstreams(_Mirror):
    """List downstreams; reset, hold and release them."""

    list = mirror(DownstreamControl.list)
    details = mirror(DownstreamControl.details)
    troubled = mirror(DownstreamControl.troubled)
    get = mirror(DownstreamControl.get)
    state = mirror(DownstreamControl.state)
    states = mirror(DownstreamControl.states)
    reset = mirror(DownstreamControl.reset)
    hold = mirror(DownstreamControl.hold)
    release = mirror(DownstreamControl.release)


class BlockingCalls(_Mirror):
    """Ask a breaker before a call outside of jobs, and report the call."""

    declare = mirror(DownstreamCalls.declare)
    admit = mirror(DownstreamCalls.admit)
    extend = mirror(DownstreamCalls.extend)
    count = mirror(DownstreamCalls.count)
    report = mirror(DownstreamCalls.report)
    run = mirror(DownstreamCalls.run)


class BlockingPeriodic(_Mirror):
    """List, pause, resume and run periodic jobs."""

    list = mirror(PeriodicControl.list)
    get = mirror(PeriodicControl.get)
    pause = mirror(PeriodicControl.pause)
    resume = mirror(PeriodicControl.resume)
    run_now = mirror(PeriodicControl.run_now)


class BlockingQueues(_Mirror):
    """List, pause and resume queues."""

    list = mirror(QueueControl.list)
    pause = mirror(QueueControl.pause)
    resume = mirror(QueueControl.resume)


class BlockingKinds(_Mirror, Mapping[str, JobKind]):
    """The declared kinds, by name; and list, pause and resume kinds."""

    list = mirror(KindControl.list)
    pause = mirror(KindControl.pause)
    resume = mirror(KindControl.resume)

    def __init__(self, kinds: KindControl, thread: EngineThread) -> None:
        super().__init__(kinds, thread)
        self._kinds = kinds

    def __getitem__(self, name: str) -> JobKind:
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


class BlockingWorkers(_Mirror):
    """List workers, and ask one to finish."""

    list = mirror(WorkerControl.list)
    loads = mirror(WorkerControl.loads)
    finish = mirror(WorkerControl.finish)


class BlockingKeys(_Mirror):
    """Create, list, find and revoke API keys."""

    create = mirror(KeyControl.create)
    list = mirror(KeyControl.list)
    find = mirror(KeyControl.find)
    revoke = mirror(KeyControl.revoke)


class BlockingIntake(_Mirror):
    """Pause and resume the intake; see `IntakeControl`."""

    pause = mirror(IntakeControl.pause)
    resume = mirror(IntakeControl.resume)
    state = mirror(IntakeControl.state)


class BlockingOwners(_Mirror):
    """Look at limits of owners and what they use, and change them; see `OwnerControl`."""

    limits = mirror(OwnerControl.limits)
    set_limits = mirror(OwnerControl.set_limits)
    clear_limits = mirror(OwnerControl.clear_limits)
    forget = mirror(OwnerControl.forget)
    use = mirror(OwnerControl.use)
    check_jobs = mirror(OwnerControl.check_jobs)
    check_storage = mirror(OwnerControl.check_storage)
    list = mirror(OwnerControl.list)


class BlockingWebhooks(_Mirror):
    """Add, list, remove and test webhooks; see `WebhookControl`."""

    add = mirror(WebhookControl.add)
    get = mirror(WebhookControl.get)
    remove = mirror(WebhookControl.remove)
    test = mirror(WebhookControl.test)
    deliveries = mirror(WebhookControl.deliveries)
    newest = mirror(WebhookControl.newest)
    list = mirror(WebhookControl.list)


class BlockingAudit(_Mirror):
    """Write and read what people have changed."""

    record = mirror(AuditLog.record)
    entry = mirror(AuditLog.entry)
    list = mirror(AuditLog.list)


class BlockingClient(_Mirror):
    """A client whose methods block. Open it with `with`, or with `open` and `close`.

    Any thread may use it.

    Attributes:
        dead_letters: list, requeue and discard dead letters.
        downstreams: list, reset, hold and release breakers.
        calls: ask a breaker before a call outside of jobs, and report the call.
        periodic: list, pause, resume and run periodic jobs.
        queues: list, pause and resume queues.
        kinds: the declared kinds, by name; list, pause and resume kinds.
        workers: list workers, and ask one to finish.
        keys: create, list, find and revoke API keys.
        owners: look at limits of owners and what they use, and change them.
        intake: pause and resume what servers take in from outside.
        webhooks: add, list, remove and test addresses that are notified of the ends of jobs.
        audit: write and read what people have changed.
    """

    def __init__(
        self,
        client: Client,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        super().__init__(client, EngineThread(client, loop_factory))
        self._client = client
        self.dead_letters = BlockingDeadLetters(client.dead_letters, self._thread)
        self.downstreams = BlockingDownstreams(client.downstreams, self._thread)
        self.calls = BlockingCalls(client.calls, self._thread)
        self.periodic = BlockingPeriodic(client.periodic, self._thread)
        self.queues = BlockingQueues(client.queues, self._thread)
        self.kinds = BlockingKinds(client.kinds, self._thread)
        self.workers = BlockingWorkers(client.workers, self._thread)
        self.keys = BlockingKeys(client.keys, self._thread)
        self.owners = BlockingOwners(client.owners, self._thread)
        self.intake = BlockingIntake(client.intake, self._thread)
        self.webhooks = BlockingWebhooks(client.webhooks, self._thread)
        self.audit = BlockingAudit(client.audit, self._thread)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> Self:
        """Open the store and declare the apps' downstreams in it; return this object."""
        self._thread.open()
        return self

    def close(self) -> None:
        """Close the store."""
        self._thread.close()

    @overload
    def enqueue(
        self,
        job: JobFunction[None, ResultT],
        args: None = None,
        *,
        connection: object = None,
        **options: Unpack[RequestOptions],
    ) -> JobHandle[ResultT]: ...

    @overload
    def enqueue(
        self,
        job: JobFunction[ArgsT, ResultT],
        args: ArgsT,
        *,
        connection: object = None,
        **options: Unpack[RequestOptions],
    ) -> JobHandle[ResultT]: ...

    @overload
    def enqueue(
        self,
        job: str,
        args: object = None,
        *,
        connection: object = None,
        **options: Unpack[RequestOptions],
    ) -> JobHandle[Any]: ...

    def enqueue(
        self,
        job: JobFunction[Any, Any] | str,
        args: Any = None,
        *,
        connection: object = None,
        **options: Unpack[RequestOptions],
    ) -> JobHandle[Any]:
        """Create a job, or find its twin; see `Engine.enqueue`.

        `connection` is one of a driver that blocks; its statements run in the calling thread.
        """
        request: JobRequest[Any, Any] = JobRequest(job, args, **options)
        return self.enqueue_many([request], connection=connection)[0]

    def enqueue_many(
        self, requests: Iterable[JobRequest[Any, Any]], *, connection: object = None
    ) -> tuple[JobHandle[Any], ...]:
        """Create many jobs in one transaction: all or none; see `Engine.enqueue_many`."""
        work = self._client.enqueue_many(requests, connection=connection)
        return self._thread.run(work, uses_connection=connection is not None)

    def shared_rate(self, name: str, limit: RateLimit) -> SharedRate:
        """Return a rate of calls that is counted in the store; see `Engine.shared_rate`."""
        return self._client.shared_rate(name, limit)

    @overload
    def result(self, job: JobHandle[ResultT], *, timeout: float | None = None) -> ResultT: ...

    @overload
    def result(self, job: str | Job | DeadLetter, *, timeout: float | None = None) -> Any: ...

    def result(self, job: JobId, *, timeout: float | None = None) -> Any:
        """Return the result of a complete job; see `Engine.result`."""
        work: Coroutine[Any, Any, Any] = self._client.result(job, timeout=timeout)
        return self._thread.run(work)

    submit = mirror(Client.submit)
    reject = mirror(Client.reject)
    cancel = mirror(Client.cancel)
    retry = mirror(Client.retry)
    retry_now = mirror(Client.retry_now)
    delete = mirror(Client.delete)
    purge = mirror(Client.purge)
    erase = mirror(Client.erase)
    get = mirror(Client.get)
    wait = mirror(Client.wait)
    events = mirror(Client.events)
    attempts = mirror(Client.attempts)
    late_results = mirror(Client.late_results)
    stats = mirror(Client.stats)
    overview = mirror(Client.overview)
    list = mirror(Client.list)
    search = mirror(Client.search)
