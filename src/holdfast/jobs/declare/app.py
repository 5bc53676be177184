"""Declare kinds of jobs: an `App` turns functions into job kinds. Nothing here does I/O.

    app = App("invoices")

    @app.job(timeout=120)
    async def send(ctx: JobContext, args: SendArgs) -> Receipt: ...

Invalid declarations raise here, not when the first job runs.
"""

import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import (
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    TypeVar,
    Unpack,
    overload,
)

from holdfast.errors import ERRORS, ErrorInfo
from holdfast.events import Listener
from holdfast.jobs.declare.app_hooks import (
    Lifespan,
    Middleware,
    OnErase,
    StoredBytes,
    checked_lifespan,
    checked_middleware,
    checked_on_erase,
    checked_stored_bytes,
)
from holdfast.jobs.declare.app_tables import AppTables
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.handler_signature import handler_of, hook_of
from holdfast.jobs.declare.job_function import DeclaredJob, JobFunction, NamedArgumentsJob
from holdfast.jobs.declare.job_options import (
    check_name,
    check_policy,
    checked_codes,
    checked_convert,
    checked_isolation,
    checked_seconds,
    full_aliases,
)
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.declare.periodic import (
    PeriodicDecorator,
    PeriodicOptions,
    check_periodic,
    periodic_of,
)
from holdfast.jobs.declare.retention import Retention
from holdfast.resilience import checks
from holdfast.resilience.policy import RetryPolicy

ArgsT = TypeVar("ArgsT")
ResultT = TypeVar("ResultT")
Q = ParamSpec("Q")


@dataclass(frozen=True, slots=True)
class JobDecorator:
    """The decorator that `App.job` returns."""

    app: "App"
    name: str | None
    options: Mapping[str, Any]
    names: Mapping[str, Any]

    @overload
    def __call__(  # type: ignore[overload-overlap] # see the last two
        self, function: Callable[[JobContext, ArgsT], Coroutine[Any, Any, ResultT]]
    ) -> DeclaredJob[ArgsT, ResultT, [JobContext, ArgsT], Coroutine[Any, Any, ResultT]]: ...

    @overload
    def __call__(  # type: ignore[overload-overlap] # see the last two
        self, function: Callable[[JobContext], Coroutine[Any, Any, ResultT]]
    ) -> DeclaredJob[None, ResultT, [JobContext], Coroutine[Any, Any, ResultT]]: ...

    @overload
    def __call__(
        self, function: Callable[[JobContext, ArgsT], ResultT]
    ) -> DeclaredJob[ArgsT, ResultT, [JobContext, ArgsT], ResultT]: ...

    @overload
    def __call__(
        self, function: Callable[[JobContext], ResultT]
    ) -> DeclaredJob[None, ResultT, [JobContext], ResultT]: ...

    # mypy takes these two for subsets of those above; a function with two or more arguments after
    # its context only fits here.
    @overload
    def __call__(  # type: ignore[overload-cannot-match]
        self, function: Callable[Concatenate[JobContext, Q], Coroutine[Any, Any, ResultT]]
    ) -> NamedArgumentsJob[
        ResultT, Concatenate[JobContext, Q], Coroutine[Any, Any, ResultT], Q
    ]: ...

    @overload
    def __call__(  # type: ignore[overload-cannot-match]
        self, function: Callable[Concatenate[JobContext, Q], ResultT]
    ) -> NamedArgumentsJob[ResultT, Concatenate[JobContext, Q], ResultT, Q]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Declare `function` and return it as a job that can be enqueued and called."""
        return self.app._declare(function, self)


class App:
    """A named set of job kinds.

    Args:
        name: the prefix of the names of its kinds.
        errors: describe its own error codes: HTTP status, category, line for people. A code need
            not be declared to be raised.
        listeners: receive the events of every worker that is given this app, as those of an engine
            do; one that two apps have is notified once.
        lifespan: `lifespan(app)` returns an async context manager. A worker enters it before its
            first claim and leaves it after its last report; what it yields is `ctx.state`.
        middleware: functions `async def middleware(ctx, call_next)` around each attempt, the first
            one outermost. `await call_next()` runs the handler and returns its result.
        tables: where the migrations of its own tables are, for `engine.database`.
        on_erase: `async def on_erase(engine, owner)` deletes what the app keeps of an owner beside
            its jobs, and returns how much, such as `{"orders": 3}`. Calling it again is harmless.
        stored_bytes: `async def stored_bytes(engine, owner)` yields how many bytes the app keeps of
            an owner, for the owner's `OwnerLimits.storage_bytes`: as one number, or one for each
            500 things that it keeps, so that counting can stop when enough is known.

    Raises:
        TypeError: an element of `errors` is not an `ErrorInfo`, or a listener, the lifespan, a
            middleware, `on_erase` or `stored_bytes` cannot be called so, or `tables` is not an
            `AppTables`.
        ValueError: the name is invalid, or a code is declared twice or is one of the library's.
    """

    def __init__(
        self,
        name: str,
        *,
        errors: Iterable[ErrorInfo] = (),
        listeners: Iterable[Listener] = (),
        lifespan: Lifespan | None = None,
        middleware: Iterable[Middleware] = (),
        tables: AppTables | None = None,
        on_erase: OnErase | None = None,
        stored_bytes: StoredBytes | None = None,
    ) -> None:
        check_name("name", name)
        checks.instance("tables", tables, AppTables, optional=True)
        self.name = name
        self.tables = tables
        self.lifespan = checked_lifespan(lifespan)
        self.on_erase = checked_on_erase(on_erase)
        self.stored_bytes = checked_stored_bytes(stored_bytes)
        self.middleware = checked_middleware(middleware)
        self.listeners = tuple(listeners)
        for listener in self.listeners:
            if not callable(listener):
                raise TypeError(f"a listener must take an event, got {listener!r}")
        declared: dict[str, ErrorInfo] = {}
        for info in errors:
            checks.instance("errors", info, ErrorInfo)
            if info.code in ERRORS:
                raise ValueError(f"errors: {info.code} is a code of the library; choose another")
            if info.code in declared:
                raise ValueError(f"errors: {info.code} is declared twice")
            declared[info.code] = info
        self.errors: Mapping[str, ErrorInfo] = MappingProxyType(declared)
        self._jobs: dict[str, JobFunction[Any, Any]] = {}

    def __repr__(self) -> str:
        return f"<App {self.name}: {', '.join(self._jobs) or 'no jobs'}>"

    @property
    def jobs(self) -> Mapping[str, JobFunction[Any, Any]]:
        """The jobs declared so far, by the kind's name."""
        return MappingProxyType(self._jobs)

    @property
    def kinds(self) -> tuple[JobKind, ...]:
        """The kinds declared so far."""
        return tuple(job.kind for job in self._jobs.values())

    def job(  # noqa: PLR0913 - public keywords, each a setting of one kind
        self,
        name: str | None = None,
        *,
        queue: str = "default",
        retry: RetryPolicy | None = None,
        downstream: Downstream | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
        concurrency: int | None = None,
        retention: Retention | None = None,
        isolation: Literal["process"] | None = None,
        retry_once: Iterable[str] = (),
        existing: Callable[[JobContext, Any], Any] | None = None,
        aliases: Iterable[str] = (),
        convert: Callable[[Any], Any] | None = None,
        dead_letters: bool = True,
    ) -> JobDecorator:
        """Declare the function below as a kind of job, called with `(ctx)` or `(ctx, args)`.

        An async function runs on the worker's event loop, a plain one in a thread; a coroutine
        returned by a plain function is awaited. The annotation of `args` is the type that is
        stored, the return annotation the type that `engine.result` returns. Several arguments,
        `(ctx, order, note="")`, are stored by name: `enqueue(job, job.args(7, note="x"))`.

        Args:
            name: the kind's name within the app; by default the function's. Stored jobs refer to
                the kind by its full name, `"app.name"`.
            queue: selects the workers.
            retry: `max_attempts`, `backoff`, `idempotent`, `categorize`, `retry_on` and
                `retry_result` control retries; by default `RetryPolicy()`. Its `attempt_timeout`
                and `deadline` are the defaults of `timeout` and `deadline`; its breaker, rate and
                concurrency those of `downstream`. It has no `budget`.
            downstream: the dependency that it calls.
            timeout: seconds that one attempt may run; then it is asked to stop. A thread cannot be
                stopped from outside: a plain function that does not check `ctx.cancel_requested` is
                reported in time but keeps its slot until it returns. Once such functions occupy all
                slots the worker runs nothing more. `isolation="process"` avoids that.
            deadline: seconds from enqueueing, or from a later `run_at`, until the job fails with
                `TIMEOUT`.
            concurrency: most jobs of this kind that run at once in the whole fleet.
            retention: how long finished jobs are kept; by default `Retention()`.
            isolation: `"process"` runs the handler in a child process with limits.
            retry_once: codes of errors, such as `("IO_ERROR",)`, that are tried again once only,
                though `retry` allows more attempts.
            existing: see `JobFunction.existing`.
            aliases: earlier names of this kind, `"old_name"` or `"old_app.old_name"`: it also runs
                the jobs that are stored under them.
            convert: a plain function that gets a stored JSON value which does not fit the type of
                `args` exactly, and returns the new form: arguments, or a mapping of their fields.
                Jobs whose arguments cannot be read wait for a worker that can read them.
            dead_letters: False if its failures are no matter for operators, as those of webhooks
                are their receivers': a job that fails for good is kept, and is no dead letter.
                Workers store this, so it holds once a worker with the declaration has run. While
                workers with both declarations run, as during a rolling update, either may hold
                at a deadline, and where a worker died.

        Raises:
            TypeError: an argument has the wrong type; the message names it.
            ValueError: a value is out of bounds, or the name is taken.
        """
        if callable(name):
            raise TypeError("write @app.job(), with parentheses")
        policy = RetryPolicy() if retry is None else retry
        checks.instance("retry", policy, RetryPolicy)
        checks.instance("downstream", downstream, Downstream, optional=True)
        checks.instance("retention", retention, Retention, optional=True)
        check_policy(policy, downstream)
        check_name("queue", queue)
        options = {
            "queue": queue,
            "policy": policy,
            "downstream": None if downstream is None else downstream.under(policy),
            "timeout": checked_seconds("timeout", timeout, policy.attempt_timeout),
            "deadline": checked_seconds("deadline", deadline, policy.deadline),
            "concurrency": concurrency,
            "retention": Retention() if retention is None else retention,
            "isolation": checked_isolation(isolation),
            "retry_once": checked_codes("retry_once", retry_once),
            "existing": None if existing is None else hook_of("existing", existing, 2),
            "aliases": full_aliases(self.name, aliases),
            "convert": None if convert is None else checked_convert(convert),
            "dead_letters": dead_letters,
        }
        checks.instance("dead_letters", dead_letters, bool)
        checks.whole("concurrency", concurrency, at_least=1, optional=True)
        if name is not None:
            check_name("name", name)
        # The caller's local names, so that annotations may refer to local types.
        return JobDecorator(self, name, options, sys._getframe(1).f_locals)

    def periodic(
        self,
        cron: str | None = None,
        *,
        every: float | timedelta | None = None,
        timezone: str | None = None,
        missed: Literal["skip", "once", "all"] = "skip",
        overlap: bool = True,
        name: str | None = None,
        **options: Unpack[PeriodicOptions],
    ) -> PeriodicDecorator:
        """Declare the function below, called with `(ctx)`, as a job that is enqueued by itself.

        Each slot of the schedule gets one job in the whole fleet; `ctx.slot` is the slot's time.
        The result can also be enqueued by hand, as that of `App.job`.

        Args:
            cron: five fields, minute hour day-of-month month day-of-week. Needs `holdfast[cron]`.
            every: seconds or a timedelta between two slots, in place of `cron`; at least 0.01 s.
            timezone: that of the cron line, by default UTC.
            missed: what happens to slots that no worker enqueued within a minute, or that fell into
                a pause: `"skip"` them, enqueue one job `"once"` for the newest, or one for `"all"`,
                of which the newest 1000 count.
            overlap: False leaves a slot out while the job of the slot before is unfinished.
            name: the kind's name within the app; by default the function's.
            options: queue, retry, downstream, timeout, deadline, concurrency, retention, isolation
                and retry_once; see `App.job`.

        Raises:
            TypeError: an argument has the wrong type; the message names it.
            ValueError: a value is wrong, or the name is taken.
            ImportError: a cron line needs an extra that is not installed.
        """
        periodic = periodic_of(cron, every, timezone, missed, overlap)
        how = self.job(name, **options)
        own = {**how.options, "periodic": periodic}
        how = replace(how, options=own, names=sys._getframe(1).f_locals)
        return PeriodicDecorator(how)

    def _declare(self, function: Callable[..., Any], how: JobDecorator) -> JobFunction[Any, Any]:
        own_name = how.name or getattr(function, "__name__", None)
        if own_name is None or own_name == "<lambda>":
            raise TypeError(f"a job must be a function with a name, got {function!r}")
        name = f"{self.name}.{own_name}"
        if name in self._jobs:
            raise ValueError(f"job {name} is declared twice; give one of them another name=")
        kind = JobKind(
            name=name,
            app=self.name,
            handler=handler_of(name, function, how.names),
            errors=self.errors,
            middleware=self.middleware,
            **how.options,
        )
        if kind.periodic is not None:
            check_periodic(kind)
        known_downstreams((*self.kinds, kind))
        kinds_by_stored_name((*self.kinds, kind))
        job: JobFunction[Any, Any] = DeclaredJob(kind)
        self._jobs[name] = job
        return job


def known_downstreams(kinds: Iterable[JobKind]) -> dict[str, Downstream]:
    """Return the downstreams of `kinds`, by name.

    Raises:
        ValueError: two kinds declare the same one differently.
    """
    first: dict[str, JobKind] = {}
    for kind in kinds:
        if kind.downstream is None:
            continue
        other = first.setdefault(kind.downstream.name, kind)
        if other.downstream != kind.downstream:
            raise ValueError(
                f"{other.name} and {kind.name} declare downstream {kind.downstream.name!r} "
                f"differently; share one Downstream that sets its own breaker, concurrency "
                f"and rate"
            )
    return {name: kind.downstream for name, kind in first.items() if kind.downstream is not None}


def kinds_by_stored_name(kinds: Iterable[JobKind]) -> dict[str, JobKind]:
    """Return `kinds` by all names under which their jobs may be stored.

    Raises:
        ValueError: a name stands for two kinds.
    """
    found: dict[str, JobKind] = {}
    for kind in kinds:
        for name in kind.names:
            other = found.setdefault(name, kind)
            if other is not kind:
                raise ValueError(
                    f"{name} is a name or an alias of both {other.name} and {kind.name}"
                )
    return found
