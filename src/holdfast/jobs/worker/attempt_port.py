"""What the handlers of a worker reach through their contexts."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.clock import Clock
from holdfast.jobs.database_port import Database
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.attempt_scope import TransactionBlock
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.declare.job_handle import RequestOptions
from holdfast.jobs.exceptions import ContextError
from holdfast.jobs.model import NewJob
from holdfast.jobs.shared_rate import SharedRate
from holdfast.jobs.store_port import Store
from holdfast.jobs.worker.lifespans import Lifespans
from holdfast.jobs.worker.progress import ProgressWriter
from holdfast.resilience.policy import RateLimit

NewJobFrom = Callable[[JobFunction[Any, Any] | str, Any, RequestOptions, float], NewJob]
"""Return the validated job for a kind, its arguments and options, and the store's time."""


@dataclass(frozen=True, slots=True)
class HandlerSupport:
    """What an engine gives the handlers of its workers.

    Args:
        apps: the apps whose lifespans the worker enters.
        new_job: validates the jobs of `ctx.enqueue`.
        engine: what `ctx.engine` is.
    """

    apps: tuple[App, ...] = ()
    new_job: NewJobFrom | None = None
    engine: object = None


NO_SUPPORT = HandlerSupport()
"""For a worker without an engine."""


class AttemptPort:
    """Connect the contexts of a worker's attempts to the worker, its store and its engine.

    Args:
        transaction_seconds: how long a handler's transaction may hold the store's only write lock.
    """

    def __init__(
        self,
        store: Store,
        support: HandlerSupport,
        lifespans: Lifespans,
        progress: ProgressWriter,
        clock: Clock,
        transaction_seconds: float,
    ) -> None:
        self.progress_noted = progress.progress_noted
        self.forget = progress.forget
        self.close = progress.close
        self._progress = progress
        self._store = store
        self._new_job = support.new_job
        self._engine = support.engine
        self._lifespans = lifespans
        self._clock = clock
        self._transaction_seconds = transaction_seconds
        self._offset = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        """Begin, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._progress.open()

    def note_time(self, now: float) -> None:
        """Note the store's time, in epoch seconds, as a tick has just returned it."""
        self._offset = now - self._clock.monotonic()

    def state_of(self, context: JobContext) -> Any:
        """Return what the lifespan of the attempt's app has yielded."""
        return self._lifespans.state_of(context.kind.partition(".")[0])

    def database_of(self, _context: JobContext) -> Database:
        """Return the store's database."""
        return self._store.database

    def engine_of(self, _context: JobContext) -> Any:
        """Return the engine that has made the worker."""
        if self._engine is None:
            raise ContextError("ctx.engine needs a worker that an Engine has made")
        return self._engine

    def shared_rate(self, name: str, limit: RateLimit) -> SharedRate:
        """Return a rate that the store counts."""
        return SharedRate(name, limit, self._store, lambda: self._loop)

    def new_job(
        self, job: JobFunction[Any, Any] | str, args: Any, options: RequestOptions
    ) -> NewJob:
        """Return the validated job, with its id."""
        if self._new_job is None:
            raise ContextError("ctx.enqueue() needs a worker that an Engine has made")
        return self._new_job(job, args, options, self._clock.monotonic() + self._offset)

    def transaction(self, context: JobContext, source: object) -> TransactionBlock:
        """Return the attempt's transaction on `source`, not begun yet."""
        assert self._loop is not None
        begun = self._store.transaction(context.lease, source, seconds=self._transaction_seconds)
        return TransactionBlock(context.job_id, begun, self._loop)
