"""`RetryService`: guarded calls, and what is known of each name."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial, wraps
from random import Random
from threading import RLock
from types import CoroutineType
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.events import Listener
from holdfast.resilience import checks
from holdfast.resilience.active_call import ACTIVE, ActiveCall, LimitedCall, outside_calls
from holdfast.resilience.breaker.breaker import CircuitBreaker, CircuitSnapshot
from holdfast.resilience.checks import (
    MisusedOperationError,
    refuse_coroutine,
    require_awaitable,
)
from holdfast.resilience.drivers import drive, drive_async
from holdfast.resilience.guard import Guard, Nested, Operation
from holdfast.resilience.limits import MAX_ABANDONED
from holdfast.resilience.policy import RetryPolicy
from holdfast.resilience.result import RetryResult
from holdfast.resilience.stats import RetryMetrics

P = ParamSpec("P")
T = TypeVar("T")

_MOST_BOUND = 10_000
"""Bindings that are cached; new policies for every call must not fill the memory."""


class Decorator(Protocol):
    """Wraps a blocking or an asynchronous function and keeps its signature."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __call__(self, function: Callable[P, T], /) -> Callable[P, T]: ...


class RetryService:
    """Run operations under policies, and remember per name how they fare.

    Calls under one name share a breaker, limits and statistics. One service per process is
    enough; it is safe to use from any thread and any event loop.

    Args:
        clock: where time comes from.
        rng: where jitter comes from.
        listeners: called with failed attempts, finished calls and changes of breakers.
        nested: what to do with a guarded call inside another's attempt where both would retry:
            `"collapse"` keeps the inner one to a single attempt, `"allow"` lets attempts multiply.
        max_abandoned: how many threads the blocking attempts of one name that are over their time
            may occupy; past that, its blocking attempts with a time limit are refused with
            `AbandonedLimitError`.
    """

    def __init__(
        self,
        *,
        clock: Clock = SYSTEM_CLOCK,
        rng: Random | None = None,
        listeners: Iterable[Listener] = (),
        nested: Nested = "collapse",
        max_abandoned: int = MAX_ABANDONED,
    ) -> None:
        if nested not in ("collapse", "allow"):
            raise ValueError(f'nested must be "collapse" or "allow", got {nested!r}')
        checks.instance("rng", rng, Random, optional=True)
        self._clock = checks.clock("clock", clock)
        self._monotonic = clock.monotonic
        self._rng = rng or Random()
        self._listeners = tuple(map(outside_calls, checks.callables("listeners", listeners)))
        self._nested: Nested = nested
        checks.whole("max_abandoned", max_abandoned, at_least=1)
        self._max_abandoned = max_abandoned
        self._lock = RLock()
        self._operations: dict[str, Operation] = {}
        self._guards: dict[str, Guard] = {}
        self._bound: dict[tuple[str, RetryPolicy], Guard] = {}

    # -- calls ---------------------------------------------------------------------------------

    def execute_sync(
        self, operation: Callable[[], T], policy: RetryPolicy, name: str
    ) -> RetryResult[T]:
        """Run a blocking operation under `policy`, as `name`; never raises what it raises.

        With a time limit the operation runs on another thread. When its time is up the caller goes
        on at once, and the thread runs until the operation returns.
        """
        call = self._begin(operation, policy, name, True)
        token = None
        try:
            token = ACTIVE.set(call)
            steps = call.steps
            if steps is None:
                try:
                    value = operation()
                    if type(value) is CoroutineType:
                        refuse_coroutine(value)
                except MisusedOperationError:
                    raise
                except Exception as error:
                    steps = call.failed(error, operation)
                else:
                    return call.succeeded(value)
            # Outside of `except`, or every later error would name the first as its context.
            return drive(steps, operation, self._clock, call.abandoned)
        finally:
            # First and without a call, so that no interruption can leave this call under way.
            call.guard = None
            if call.outer is not None:
                call.restore_outer(token)

    async def execute(
        self, operation: Callable[[], Awaitable[T]], policy: RetryPolicy, name: str
    ) -> RetryResult[T]:
        """Run an asynchronous operation under `policy`, as `name`; never raises what it raises.

        Cancelling the caller cancels the operation, and passes through at once.
        """
        call = self._begin(operation, policy, name, False)
        token = None
        try:
            token = ACTIVE.set(call)
            steps = call.steps
            if steps is None:
                try:
                    awaitable = operation()
                    if type(awaitable) is not CoroutineType:
                        require_awaitable(awaitable)
                    value = await awaitable
                except MisusedOperationError:
                    raise
                except Exception as error:
                    steps = call.failed(error, operation)
                else:
                    return call.succeeded(value)
            return await drive_async(steps, operation, self._clock)
        finally:
            call.guard = None
            if call.outer is not None:
                call.restore_outer(token)

    def _begin(
        self, operation: object, policy: RetryPolicy, name: str, blocking: bool
    ) -> ActiveCall:
        """Return a new call; an `ActiveCall` where its first attempt is a plain one."""
        try:
            guard = self._guards[name]
        except (KeyError, TypeError):  # new, or not even a name: `_guard_for` refuses that
            guard = None
        if guard is None or guard.policy is not policy:
            guard = self._guard_for(policy, name)
        outer = ACTIVE.get()
        if outer is not None and outer.guard is None:
            outer = None  # that call has ended
        breaker = guard.breaker
        permit = breaker.permit
        if outer is None and guard.plain and breaker.closed:
            call = ActiveCall()
            call.guard = guard
            call.outer = call.steps = None
            call.permit = permit
            call.started = self._monotonic()
            return call
        checks.function("operation", operation)
        return LimitedCall(guard, self._monotonic(), outer, blocking=blocking)

    def guard(self, policy: RetryPolicy, name: str) -> Decorator:
        """Decorate a blocking or asynchronous function: it runs under `policy`, as `name`.

        The decorated function keeps its signature; it returns what the function returns, or
        raises the error that ended the call.
        """
        self._guard_for(policy, name)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            checks.function("operation", function)
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise TypeError(
                    f"guard cannot wrap a generator function, got {function!r}: "
                    "guard the call that makes one item"
                )
            if checks.is_async(function):

                @wraps(function)
                async def guarded_async(*args: Any, **kwargs: Any) -> Any:
                    operation = partial(function, *args, **kwargs)
                    return (await self.execute(operation, policy, name)).unwrap()

                return guarded_async

            @wraps(function)
            def guarded(*args: Any, **kwargs: Any) -> Any:
                operation = partial(function, *args, **kwargs)
                return self.execute_sync(operation, policy, name).unwrap()

            return guarded

        return cast(Decorator, decorate)

    # -- what is known per name; a KeyError where no call or guard has used it yet ------------

    def circuit_state(self, name: str) -> CircuitSnapshot:
        """Return the breaker of `name` as it is now."""
        return self._breaker(name).snapshot()

    def reset_circuit(self, name: str) -> None:
        """Close the breaker of `name` and forget its counts."""
        self._breaker(name).reset()

    def hold_circuit(self, name: str) -> None:
        """Keep the breaker of `name` open until it is released or reset."""
        self._breaker(name).hold()

    def release_circuit(self, name: str) -> None:
        """End a hold: trial calls are let through."""
        self._breaker(name).release()

    def metrics(self, name: str) -> RetryMetrics:
        """Return the counts and latencies of `name` so far."""
        operation = self._operation(name)
        circuit = self._breaker(name).snapshot()
        return operation.stats.metrics(
            trips=circuit.trips,
            recoveries=circuit.recoveries,
            time_open=circuit.time_in_open_state,
            abandoned=operation.abandoned.count,
        )

    def names(self) -> list[str]:
        """Return every name used so far, sorted."""
        return sorted(self._operations)

    def _operation(self, name: str) -> Operation:
        operation = self._operations.get(name)
        if operation is None:
            known = ", ".join(self.names()) or "none yet"
            raise KeyError(f"no operation named {name!r}; known: {known}")
        return operation

    def _breaker(self, name: str) -> CircuitBreaker:
        return self._operation(name).breaker

    def _guard_for(self, policy: RetryPolicy, name: str) -> Guard:
        """Bind `policy` to `name`, or find where that was done before."""
        checks.instance("policy", policy, RetryPolicy)
        checks.label("name", name)
        with self._lock:
            guard = self._bound.get((name, policy))
            if guard is None:
                operation = self._operations.get(name)
                if operation is None:
                    operation = Operation(name, self._clock, self._listeners, self._max_abandoned)
                if operation.adopt(policy) or len(self._bound) >= _MOST_BOUND:
                    # What was bound before does not know of the new limit: bind it again.
                    self._bound.clear()
                guard = Guard(operation, policy, rng=self._rng, nested=self._nested)
                if self._operations.setdefault(name, operation) is not operation:
                    return self._guard_for(policy, name)  # a signal handler came first
                self._bound[name, policy] = guard
            self._guards[name] = guard
            return guard
