"""A kind of job: its handler and its declared settings, as one frozen value.

`App.job` creates it. Nothing here does I/O.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from holdfast.errors import ErrorInfo
from holdfast.jobs.declare.app_hooks import Middleware
from holdfast.jobs.declare.declared_downstream import Downstream, Inherited
from holdfast.jobs.declare.retention import Retention
from holdfast.jobs.declare.schedule import Periodic
from holdfast.jobs.model import Claim
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy
from holdfast.trace_port import Tracing


class Codec(Protocol):
    """Encode values of one declared type as JSON text, and decode them."""

    def encode(self, value: Any) -> str:
        """Return `value` as JSON text, or raise a `HoldfastError` with `VALIDATION_ERROR`."""
        ...

    def decode(self, text: str) -> Any:
        """Return the encoded value, or raise a `HoldfastError` with `VALIDATION_ERROR`."""
        ...


class Isolation(StrEnum):
    """Where a handler runs if not in the worker's process."""

    PROCESS = "process"
    """A child process with limits on memory, CPU and time."""


@dataclass(frozen=True, slots=True)
class Handler:
    """The function that runs a job, and how to call it.

    Args:
        function: the function as it was written: `function(ctx)`, `function(ctx, args)`, or with
            several arguments after `ctx`.
        is_async: whether calling it returns a coroutine. A plain function runs in a thread; if it
            returns an awaitable, that is awaited.
        takes_arguments: whether it has parameters after `ctx`.
        arguments: decodes `Claim.arguments`.
        results: encodes its result.
        by_name: whether it has several arguments, which are stored as one mapping by name.
    """

    function: Callable[..., Any]
    is_async: bool
    takes_arguments: bool
    arguments: Codec
    results: Codec
    by_name: bool = False

    def call(self, context: Any, arguments: Any) -> Any:
        """Call the function; if `is_async`, the result is a coroutine to await."""
        if self.by_name:
            return self.function(context, **arguments)
        if self.takes_arguments:
            return self.function(context, arguments)
        return self.function(context)


@dataclass(frozen=True, slots=True)
class Hook:
    """A user's function that is called in addition to the handler. See `JobFunction`."""

    call: Callable[..., Any]
    is_async: bool


@dataclass(frozen=True, slots=True)
class JobKind:
    """The declaration of one kind of job; `App.job` explains what it takes.

    Args:
        name: unique among all apps of an engine, `"invoices.send"`.
        app: the name of the app that declared it.
        handler: runs the jobs.
        policy: the retry policy.
        downstream: the dependency that it calls, with all settings filled in.
        retry_once: codes that are tried again once only.
        dead_letters: whether a job of it that fails for good is a dead letter.
        existing: `existing(ctx, args)` returns the result of an earlier attempt, or None.
        before_retry: `before_retry(job)` raises to refuse a manual retry.
        errors: the error codes that its app declares, by code.
        aliases: names under which jobs of it may be stored, from before it was renamed.
        convert: `convert(stored)` returns the new form of stored arguments that do not fit.
        periodic: when it is enqueued by itself; None if it is not.
        middleware: what its app puts around attempts, outermost first.
        tracing: runs its attempts in spans; None if they are not traced.
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
    retry_once: frozenset[str] = frozenset()
    dead_letters: bool = True
    existing: Hook | None = None
    before_retry: Hook | None = None
    errors: Mapping[str, ErrorInfo] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    convert: Callable[[Any], Any] | None = None
    periodic: Periodic | None = None
    middleware: tuple[Middleware, ...] = ()
    tracing: Tracing | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which its jobs may be stored."""
        return (self.name, *self.aliases)

    @property
    def breaker(self) -> BreakerPolicy | None:
        """The breaker of its downstream, or None."""
        if self.downstream is None or isinstance(self.downstream.breaker, Inherited):
            return None
        return self.downstream.breaker

    def encode_result(self, value: Any) -> str:
        """Return a handler's result as JSON text.

        Raises:
            UnwantedResult: the policy's `retry_result` refuses it.
            ValidationError: it cannot be stored as JSON.
        """
        self.policy.check_result(value)
        return self.handler.results.encode(value)

    def asks_existing(self, claim: Claim) -> bool:
        """Say whether to call `existing` before the handler: the job was claimed before.

        The token shows it; the attempt number does not, since a manual retry resets it.
        """
        return self.existing is not None and claim.lease.token > 1
