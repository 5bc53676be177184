"""The door to guarded calls: `RetryService`."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial, wraps
from random import Random
from threading import Lock
from types import CoroutineType
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.events import Listener
from holdfast.resilience import checks
from holdfast.resilience.breaker.breaker import CircuitBreaker, CircuitSnapshot
from holdfast.resilience.call import Call
from holdfast.resilience.checks import (
    MisusedOperationError,
    refuse_coroutine,
    require_awaitable,
)
from holdfast.resilience.drivers import drive, drive_async
from holdfast.resilience.guard import ACTIVE, Frame, Guard, LimitedFrame, Nested, Operation
from holdfast.resilience.policy import RetryPolicy
from holdfast.resilience.result import FirstTry, RetryResult
from holdfast.resilience.stats import FOLD_AT, RetryMetrics

P = ParamSpec("P")
T = TypeVar("T")

_MOST_BOUND = 10_000
"""Bindings remembered: policies made anew for every call must not fill the memory."""


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
        listeners: told of failed attempts, finished calls and changes of breakers.
        nested: what to do with a guarded call inside another's attempt where both would retry:
            `"collapse"` keeps the inner one to a single attempt, `"allow"` lets attempts multiply.
    """

    def __init__(
        self,
        *,
        clock: Clock = SYSTEM_CLOCK,
        rng: Random | None = None,
        listeners: Iterable[Listener] = (),
        nested: Nested = "collapse",
    ) -> None:
        if nested not in ("collapse", "allow"):
            raise ValueError(f'nested must be "collapse" or "allow", got {nested!r}')
        checks.instance("rng", rng, Random, optional=True)
        self._clock = clock
        self._monotonic = clock.monotonic
        self._rng = rng or Random()
        self._listeners = checks.callables("listeners", listeners)
        self._nested: Nested = nested
        self._lock = Lock()
        self._operations: dict[str, Operation] = {}
        self._guards: dict[str, Guard] = {}
        self._bound: dict[tuple[str, RetryPolicy], Guard] = {}

    # -- calls ---------------------------------------------------------------------------------

    def execute_sync(
        self, operation: Callable[[], T], policy: RetryPolicy, name: str
    ) -> RetryResult[T]:
        """Run a blocking operation under `policy`, as `name`; never raises what it raises.

        A time limit runs the operation on another thread, since a blocking call cannot be cut
        from outside: the caller goes on at once, the thread ends as soon as it can.
        """
        guard = self._guards.get(name)
        if guard is None or guard.policy is not policy:
            guard = self._guard_for(policy, name)
        outer = ACTIVE.get()
        breaker = guard.breaker
        permit = breaker.permit
        if outer is not None or not guard.plain or not breaker.closed:
            return self._execute_sync(guard, operation, outer)
        if not callable(operation):
            raise _not_callable(operation)
        started = self._monotonic()
        frame = Frame()
        frame.guard = guard
        token = ACTIVE.set(frame)
        try:
            value = operation()
        except MisusedOperationError:
            raise
        except Exception as error:
            call: Call[T] = Call(guard, started, policy.max_attempts)
            return drive(call.steps_after(error, permit), operation, self._clock)
        finally:
            frame.guard = None
            ACTIVE.reset(token)
        if type(value) is CoroutineType:
            refuse_coroutine(value)
        if not breaker.quiet:
            breaker.record_success(permit)
        total_time = self._monotonic() - started
        first_tries = guard.first_tries
        first_tries.append(total_time)
        if len(first_tries) >= FOLD_AT:
            guard.stats.fold()
        result: FirstTry[T] = FirstTry()
        result.value = value
        result.total_time = total_time
        return result

    async def execute(
        self, operation: Callable[[], Awaitable[T]], policy: RetryPolicy, name: str
    ) -> RetryResult[T]:
        """Run an asynchronous operation under `policy`, as `name`; never raises what it raises.

        Cancelling the caller cancels the operation, and passes through at once.
        """
        guard = self._guards.get(name)
        if guard is None or guard.policy is not policy:
            guard = self._guard_for(policy, name)
        outer = ACTIVE.get()
        breaker = guard.breaker
        permit = breaker.permit
        if outer is not None or not guard.plain or not breaker.closed:
            return await self._execute(guard, operation, outer)
        if not callable(operation):
            raise _not_callable(operation)
        started = self._monotonic()
        frame = Frame()
        frame.guard = guard
        token = ACTIVE.set(frame)
        try:
            awaitable = operation()
            if type(awaitable) is not CoroutineType:
                require_awaitable(awaitable)
            value = await awaitable
        except MisusedOperationError:
            raise
        except Exception as error:
            call: Call[T] = Call(guard, started, policy.max_attempts)
            steps = call.steps_after(error, permit)
            return await drive_async(steps, operation, self._clock)
        finally:
            frame.guard = None
            ACTIVE.reset(token)
        if not breaker.quiet:
            breaker.record_success(permit)
        total_time = self._monotonic() - started
        first_tries = guard.first_tries
        first_tries.append(total_time)
        if len(first_tries) >= FOLD_AT:
            guard.stats.fold()
        result: FirstTry[T] = FirstTry()
        result.value = value
        result.total_time = total_time
        return result

    def guard(self, policy: RetryPolicy, name: str) -> Decorator:
        """Decorate a blocking or asynchronous function: it runs under `policy`, as `name`.

        The decorated function keeps its signature; it returns what the function returns, or
        raises the error that ended the call.
        """
        self._guard_for(policy, name)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            if not callable(function):
                raise _not_callable(function)
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise TypeError(
                    f"guard cannot wrap a generator function, got {function!r}: "
                    "guard the call that makes one item"
                )
            if _is_async(function):

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

    def _execute_sync(
        self, guard: Guard, operation: Callable[[], T], outer: Frame | None
    ) -> RetryResult[T]:
        """Run a call that needs more than a plain first attempt."""
        if not callable(operation):
            raise _not_callable(operation)
        started = self._monotonic()
        frame = LimitedFrame(guard, started, outer)
        call: Call[T] = Call(guard, started, frame.attempts, frame.deadline_at)
        token = ACTIVE.set(frame)
        try:
            return drive(call.steps(), operation, self._clock)
        finally:
            frame.end()
            ACTIVE.reset(token)

    async def _execute(
        self, guard: Guard, operation: Callable[[], Awaitable[T]], outer: Frame | None
    ) -> RetryResult[T]:
        """Run a call that needs more than a plain first attempt."""
        if not callable(operation):
            raise _not_callable(operation)
        started = self._monotonic()
        frame = LimitedFrame(guard, started, outer)
        call: Call[T] = Call(guard, started, frame.attempts, frame.deadline_at)
        token = ACTIVE.set(frame)
        try:
            return await drive_async(call.steps(), operation, self._clock)
        finally:
            frame.end()
            ACTIVE.reset(token)

    # -- what is known per name ----------------------------------------------------------------

    def circuit_state(self, name: str) -> CircuitSnapshot:
        """Return the breaker of `name` as it stands now.

        Raises:
            KeyError: no call or guard has used that name yet.
        """
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
        """Return the counts and latencies of `name` so far.

        Raises:
            KeyError: no call or guard has used that name yet.
        """
        operation = self._operation(name)
        circuit = self._breaker(name).snapshot()
        return operation.stats.metrics(
            trips=circuit.trips,
            recoveries=circuit.recoveries,
            time_open=circuit.time_in_open_state,
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
                    operation = Operation(name, self._clock, self._listeners)
                guard = Guard(operation, policy, rng=self._rng, nested=self._nested)
                self._operations[name] = operation
                if len(self._bound) >= _MOST_BOUND:
                    self._bound.clear()
                self._bound[name, policy] = guard
            self._guards[name] = guard
            return guard


def _is_async(function: Callable[..., Any]) -> bool:
    """Say whether calling `function`, or an object with an asynchronous `__call__`, is async."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


def _not_callable(operation: object) -> TypeError:
    return TypeError(f"operation must be callable, got {operation!r}")
