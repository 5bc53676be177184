"""Declare periodic jobs: a schedule, and what happens to slots that were missed."""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict, TypeVar, overload

from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.job_function import DeclaredJob
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.declare.retention import Retention
from holdfast.jobs.declare.schedule import (
    Missed,
    Periodic,
    Schedule,
    cron_schedule,
    every_schedule,
)
from holdfast.resilience import checks
from holdfast.resilience.policy import RetryPolicy

ResultT = TypeVar("ResultT")


class PeriodicOptions(TypedDict, total=False):
    """Options of `App.periodic` that are those of `App.job`."""

    queue: str
    retry: RetryPolicy | None
    downstream: Downstream | None
    timeout: float | None
    deadline: float | None
    concurrency: int | None
    retention: Retention | None
    isolation: Literal["process"] | None
    retry_once: Iterable[str]


@dataclass(frozen=True, slots=True)
class PeriodicDecorator:
    """The decorator that `App.periodic` returns."""

    declare: Callable[[Callable[..., Any]], Any]

    @overload
    def __call__(
        self, function: Callable[[JobContext], Coroutine[Any, Any, ResultT]]
    ) -> DeclaredJob[None, ResultT, [JobContext], Coroutine[Any, Any, ResultT]]: ...

    @overload
    def __call__(
        self, function: Callable[[JobContext], ResultT]
    ) -> DeclaredJob[None, ResultT, [JobContext], ResultT]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Declare `function` and return it as a job that can also be enqueued and called."""
        return self.declare(function)


def periodic_of(
    cron: str | None,
    every: float | timedelta | None,
    timezone: str | None,
    missed: str,
    overlap: bool,
) -> Periodic:
    """Return the declaration.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a value is wrong, or not exactly one of `cron` and `every` is given.
    """
    if callable(cron):
        raise TypeError("write @app.periodic(...), with a cron line or every=")
    if (cron is None) == (every is None):
        given = "neither" if cron is None else "both"
        raise ValueError(f"give either a cron line or every=, got {given}")
    schedule: Schedule
    if every is not None:
        if timezone is not None:
            raise ValueError(f"timezone belongs to a cron line, got every={every!r} with it")
        seconds = every.total_seconds() if isinstance(every, timedelta) else every
        schedule = every_schedule(seconds)
    elif isinstance(cron, str):
        schedule = cron_schedule(cron, "UTC" if timezone is None else timezone)
    else:
        raise TypeError(f"a cron line must be a string, got {cron!r}; an interval is every=")
    try:
        rule = Missed(missed)
    except ValueError:
        raise ValueError(f"missed must be 'skip', 'once' or 'all', got {missed!r}") from None
    checks.instance("overlap", overlap, bool)
    return Periodic(schedule, rule, overlap)


def check_periodic(kind: JobKind) -> None:
    """Refuse a kind that no schedule can enqueue.

    Raises:
        TypeError: its handler takes arguments.
        ValueError: its downstream is chosen by the arguments.
    """
    if kind.handler.takes_arguments:
        raise TypeError(f"periodic job {kind.name} must take (ctx) only: a slot has no arguments")
    if kind.downstream is not None and kind.downstream.key is not None:
        raise ValueError(
            f"periodic job {kind.name}: downstream {kind.downstream.name!r} has a key, which is "
            f"computed from arguments, and a slot has none"
        )
