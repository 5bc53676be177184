"""Enqueue jobs and run them: a client and its workers in one object.

`holdfast.Engine` takes the store's URL; `StoreEngine` takes a store that is not open yet.
`BlockingStoreEngine` is the same for code that is not async.
"""

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.events import Listener
from holdfast.jobs.client.blocking import BlockingClient
from holdfast.jobs.client.client import Client
from holdfast.jobs.client.enqueue import TransactionalEnqueue
from holdfast.jobs.client.requests import JobRequest
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.codecs import PAYLOAD_LIMIT
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.declare.job_handle import RequestOptions
from holdfast.jobs.declare.job_request import JobId
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.model import Job, NewJob
from holdfast.jobs.owner_limits import NO_LIMITS, OwnerLimits
from holdfast.jobs.store_port import Store
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.trace_port import Tracing

if TYPE_CHECKING:
    from holdfast.jobs.worker.worker import Worker


class StoreEngine(Client):
    """A client that also runs workers. Open it with `async with`.

    It takes what `Client` and `holdfast.Engine` take.
    """

    def __init__(
        self,
        store: Store,
        apps: Iterable[App] = (),
        *,
        clock: Clock = SYSTEM_CLOCK,
        listeners: Sequence[Listener] = (),
        payload_limit: int = PAYLOAD_LIMIT,
        transactional: TransactionalEnqueue | None = None,
        owner_limits: OwnerLimits = NO_LIMITS,
    ) -> None:
        super().__init__(
            store, apps, clock=clock, payload_limit=payload_limit, transactional=transactional,
            owner_limits=owner_limits,
        )  # fmt: skip
        of_apps = (each for each in self.registry.listeners if each not in listeners)
        self._listeners = (*listeners, *of_apps)
        self._payload_limit = payload_limit
        self._rng: Random | None = None
        self._tracing: Tracing | None = None
        self._workers: WeakSet[Worker] = WeakSet()

    async def cancel(self, job: JobId) -> Job:
        """Cancel an unfinished job; a running one is asked to stop and has `cancel_requested` set.

        A worker of this engine is notified at once, a worker in another process within a second.
        """
        found = await super().cancel(job)
        if found.cancel_requested:
            for worker in self._workers:
                worker.cancel_job(found.id)
        return found

    async def work(
        self,
        *,
        until_idle: bool = False,
        concurrency: int | None = None,
        queues: Iterable[str] | None = None,
        options: WorkerOptions | None = None,
        stop_on_signals: bool = False,
    ) -> None:
        """Run jobs in this process until cancelled.

        Args:
            until_idle: return once no job is ready and none is running here; scheduled and held
                jobs are not waited for.
            concurrency: most attempts that run at once.
            queues: the queue or queues to serve; by default those of all declared kinds.
            options: the other settings of the worker.
            stop_on_signals: stop on SIGTERM and SIGINT. Running attempts may finish within
                `shutdown_seconds`, then are released; a second signal releases them at once.
                Main thread only.
        """
        from holdfast.jobs.worker.signals import stop_on_signals as stopping

        worker = self.worker(_chosen(options, concurrency, queues))
        with stopping(worker.stop) if stop_on_signals else nullcontext():
            await worker.run(until_idle=until_idle)

    def trace_with(self, tracing: Tracing) -> None:
        """Trace jobs from their creation through their attempts; for `telemetry.tracing`."""
        self._tracing = self._enqueuer.tracing = self.calls.tracing = tracing

    def blocking(self) -> "BlockingStoreEngine":
        """Return this engine for code that is not async: the same methods, which block.

            with engine.blocking() as engine:
                job = engine.enqueue(send, SendArgs(...))

        It is open in a thread of its own, and any thread may call it.
        """
        return BlockingStoreEngine(self)

    def worker(self, options: WorkerOptions | None = None) -> "Worker":
        """Return a worker that the caller runs and stops.

        This engine's `cancel` notifies it at once.
        """
        from holdfast.jobs.worker.attempt_port import HandlerSupport

        options = options or WorkerOptions()
        if options.owner_limits is None:
            options = replace(options, owner_limits=self.owners.default)
        worker = self._worker_type()(
            self.store,
            self._traced_kinds(),
            options,
            clock=self.clock,
            rng=self._rng,
            listeners=self._listeners,
            payload_limit=self._payload_limit,
            support=HandlerSupport(self.registry.apps, self._new_job, self),
        )
        self._workers.add(worker)
        return worker

    def _traced_kinds(self) -> Mapping[str, JobKind]:
        """Return the kinds, with the attempts of each in a span where they are traced."""
        if self._tracing is None:
            return self.kinds
        return {name: replace(each, tracing=self._tracing) for name, each in self.kinds.items()}

    def _worker_type(self) -> "type[Worker]":
        from holdfast.jobs.worker.worker import Worker

        return Worker

    def _new_job(
        self, job: JobFunction[Any, Any] | str, args: Any, options: RequestOptions, now: float
    ) -> NewJob:
        """Return the job that a handler asks for with `ctx.enqueue`."""
        return self._enqueuer.prepared(JobRequest(job, args, **options), now)


class BlockingStoreEngine(BlockingClient):
    """An engine whose methods block, for scripts, Flask and Django: `Engine(...).blocking()`.

    Open it with `with`, or with `open` and `close`. Any thread may use it.
    """

    def __init__(
        self,
        engine: StoreEngine,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        super().__init__(engine, loop_factory)
        self._engine = engine
        self._runs: dict[Worker, asyncio.Task[None]] = {}

    def close(self) -> None:
        """Stop the workers of `work`, and close the store.

        Running attempts may finish within `shutdown_seconds`, then are released; Ctrl-C releases
        them at once.
        """
        try:
            self._thread.run(self._stop_workers())
        finally:
            super().close()

    def work(
        self,
        *,
        until_idle: bool = False,
        concurrency: int | None = None,
        queues: Iterable[str] | None = None,
        options: WorkerOptions | None = None,
        stop_on_signals: bool = False,
    ) -> None:
        """Run jobs in this process; the arguments are those of `Engine.work`.

        Ctrl-C releases the running attempts at once, unless `stop_on_signals`.
        """
        worker = self._thread.run(self._new_worker(_chosen(options, concurrency, queues)))
        with _stopped_by_signals(worker) if stop_on_signals else nullcontext():
            self._thread.run(self._run(worker, until_idle))

    async def _new_worker(self, options: WorkerOptions) -> "Worker":
        return self._engine.worker(options)  # in the engine's thread, as `cancel` is

    async def _run(self, worker: "Worker", until_idle: bool) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._runs[worker] = task
        try:
            await worker.run(until_idle=until_idle)
        finally:
            del self._runs[worker]

    async def _stop_workers(self) -> None:
        runs = set(self._runs.values())
        for worker in self._runs:
            worker.stop()
        while pending := {run for run in runs if not run.done()}:
            try:
                await asyncio.wait(pending)
            except asyncio.CancelledError:  # an interrupt of the thread that closes
                for run in pending:
                    run.cancel()


@contextmanager
def _stopped_by_signals(worker: "Worker") -> Iterator[None]:
    """Stop `worker`, whose event loop is in another thread, at each SIGTERM and SIGINT."""
    before = {
        number: signal.signal(number, lambda *_: worker.stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _chosen(
    options: WorkerOptions | None, concurrency: int | None, queues: Iterable[str] | None
) -> WorkerOptions:
    chosen = options or WorkerOptions()
    if concurrency is not None:
        chosen = replace(chosen, concurrency=concurrency)
    if queues is not None:
        names = (queues,) if isinstance(queues, str) else tuple(queues)
        chosen = replace(chosen, queues=names)
    return chosen
