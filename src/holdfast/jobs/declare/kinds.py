"""A kind of job: its handler and everything that was declared about it, as one frozen value.

`App.job` makes them, a worker runs by them. Nothing here does I/O.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from holdfast.jobs.declare.downstream import Downstream, Inherited
from holdfast.jobs.declare.retention import Retention
from holdfast.jobs.model import Claim
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy


class Codec(Protocol):
    """Turn a value of one declared type into JSON text and back."""

    def encode(self, value: Any) -> str:
        """Return `value` as JSON text, or raise a `HoldfastError` with `VALIDATION_ERROR`."""
        ...

    def decode(self, text: str) -> Any:
        """Return what `encode` was given, or raise a `HoldfastError` with `VALIDATION_ERROR`."""
        ...


def is_async(function: Callable[..., Any]) -> bool:
    """Say whether calling `function` returns a coroutine, as far as can be told beforehand."""
    function = getattr(function, "__func__", function)
    its_call = getattr(function, "__call__", None)  # noqa: B004 - asked what it is
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(its_call)


class Isolation(StrEnum):
    """Where a handler runs, if not in the worker's own process."""

    PROCESS = "process"
    """A child process with limits on memory, CPU and time."""


@dataclass(frozen=True, slots=True)
class Handler:
    """The function that runs a job, and how to call it.

    Args:
        function: the function as it was written; `function(ctx, args)`, or `function(ctx)`.
        is_async: whether calling it returns a coroutine. One that is not async may block, and
            belongs in a thread; what it returns is awaited where that is possible.
        takes_arguments: whether it has a second parameter.
        arguments: decodes `Claim.arguments`.
        results: encodes what it returns.
    """

    function: Callable[..., Any]
    is_async: bool
    takes_arguments: bool
    arguments: Codec
    results: Codec

    def call(self, context: Any, arguments: Any) -> Any:
        """Call the function; where `is_async` the answer is a coroutine to await."""
        if self.takes_arguments:
            return self.function(context, arguments)
        return self.function(context)


@dataclass(frozen=True, slots=True)
class Hook:
    """A function of the user's that is called beside the handler. See `JobFunction`."""

    call: Callable[..., Any]
    is_async: bool


@dataclass(frozen=True, slots=True)
class JobKind:
    """What was declared about one kind of job.

    Args:
        name: unique among all apps of an engine, `"invoices.send"`.
        app: the name of the app that declared it.
        handler: what runs it.
        queue: the workers that run it.
        policy: how it is retried: `max_attempts`, `backoff`, `idempotent` and `categorize`.
        downstream: the dependency that it calls, its settings complete.
        timeout: seconds that one attempt may run.
        deadline: seconds from enqueueing, or from a later `run_at`, until it is failed with
            `TIMEOUT`.
        concurrency: jobs of this kind that may run at once in the whole fleet.
        retention: how long it is kept once finished.
        isolation: where the handler runs.
        existing: `existing(ctx, args)` returns a result that an earlier attempt has left, or None.
        before_retry: `before_retry(job)` raises to refuse a person's wish to retry.
    """

    name: str
    app: str
    handler: Handler
    queue: str = "default"
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    downstream: Downstream | None = None
    timeout: float | None = None
    deadline: float | None = None
    concurrency: int | None = None
    retention: Retention = field(default_factory=Retention)
    isolation: Isolation | None = None
    existing: Hook | None = None
    before_retry: Hook | None = None

    @property
    def breaker(self) -> BreakerPolicy | None:
        """The breaker of its downstream; None where there is none that could open."""
        if self.downstream is None or isinstance(self.downstream.breaker, Inherited):
            return None
        return self.downstream.breaker

    def asks_existing(self, claim: Claim) -> bool:
        """Say whether `existing` is to be asked before the handler runs under `claim`.

        It is where the job was ever claimed before: only then can an earlier run have left a
        result. The attempt number does not tell, since a person's retry starts it anew.
        """
        return self.existing is not None and claim.lease.token > 1
