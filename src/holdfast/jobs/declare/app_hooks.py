"""What an app puts around its handlers: a lifespan for its worker, and middleware for attempts."""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from holdfast.resilience import checks

if TYPE_CHECKING:
    from holdfast.jobs.declare.app import App
    from holdfast.jobs.declare.context import JobContext

Lifespan = Callable[["App"], AbstractAsyncContextManager[Any]]
"""Opens what the handlers of an app share in one worker; what it yields is `ctx.state`."""

CallNext = Callable[[], Awaitable[Any]]
"""Runs what is inside a middleware, and returns the handler's result."""

Middleware = Callable[["JobContext", CallNext], Awaitable[Any]]
"""Runs around an attempt and returns its result."""

OnErase = Callable[[Any, str], Awaitable[Mapping[str, int]]]
"""Deletes what an app keeps of an owner, with the engine; returns how much, by what it is."""

StoredBytes = Callable[[Any, str], AsyncGenerator[int, None]]
"""Yields how many bytes an app keeps of an owner, part by part, with the engine."""


def checked_stored_bytes(function: Any) -> StoredBytes | None:
    """Return `function` if it can say how much an app keeps of an owner.

    Raises:
        TypeError: it cannot; the message says why.
    """
    if function is None:
        return None
    if not inspect.isasyncgenfunction(function):
        raise TypeError(
            "stored_bytes must be `async def stored_bytes(engine, owner)` that yields, got "
            f"{function!r}"
        )
    _check_parameters("stored_bytes", function, 2, "(engine, owner)")
    stored_bytes: StoredBytes = function
    return stored_bytes


def checked_on_erase(function: Any) -> OnErase | None:
    """Return `function` if it can delete what an app keeps of an owner.

    Raises:
        TypeError: it cannot; the message says why.
    """
    if function is None:
        return None
    if not checks.is_async(function):
        raise TypeError(f"on_erase must be `async def on_erase(engine, owner)`, got {function!r}")
    _check_parameters("on_erase", function, 2, "(engine, owner)")
    on_erase: OnErase = function
    return on_erase


def checked_lifespan(function: Any) -> Lifespan | None:
    """Return `function` if it can be a lifespan.

    Raises:
        TypeError: it cannot; the message says why.
    """
    if function is None:
        return None
    if not callable(function):
        raise TypeError(f"lifespan must be a function, got {function!r}")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError("lifespan must be decorated with @contextlib.asynccontextmanager")
    if checks.is_async(function):
        raise TypeError(
            "lifespan must yield once and be decorated with @contextlib.asynccontextmanager"
        )
    _check_parameters("lifespan", function, 1, "(app)")
    lifespan: Lifespan = function
    return lifespan


def checked_middleware(functions: Iterable[Any]) -> tuple[Middleware, ...]:
    """Return `functions` if each can be a middleware.

    Raises:
        TypeError: one cannot; the message says why.
    """
    if callable(functions):
        raise TypeError("middleware must be a list of functions")
    chosen = tuple(functions)
    for function in chosen:
        if not checks.is_async(function):
            raise TypeError(
                f"middleware must be `async def middleware(ctx, call_next)`, got {function!r}"
            )
        _check_parameters("middleware", function, 2, "(ctx, call_next)")
    return chosen


def _check_parameters(field: str, function: Callable[..., Any], count: int, wanted: str) -> None:
    signature = inspect.signature(function)
    try:
        signature.bind(*range(count))
    except TypeError:
        raise TypeError(f"{field} must take {wanted}, got {signature}") from None
