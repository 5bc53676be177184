"""Checks of what callers hand in, so that every refusal names the field and the value."""

import inspect
import math
from collections.abc import Callable, Iterable
from types import CoroutineType
from typing import Any, TypeVar

from holdfast.clock import Clock

F = TypeVar("F", bound=Callable[..., Any])

_MOST = 9e9


class MisusedOperationError(TypeError):
    """A blocking operation was given where an asynchronous one belongs, or the reverse."""


def number(
    field: str,
    value: Any,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    optional: bool = False,
) -> None:
    """Refuse `value` unless it is a number inside the bounds, at most 9e9, or an `optional` None.

    9e9 seconds are 285 years; what is longer overflows timers instead of waiting.

    Raises:
        TypeError: `value` is not a number; a bool is not one either.
        ValueError: it is not finite or lies outside the bounds.
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{field} must be a number, got {value!r}")
    if not _is_finite(value):
        raise ValueError(f"{field} must be finite, got {value!r}")
    if value > _MOST:
        raise ValueError(f"{field} must be at most {_MOST:g}, got {value!r}")
    if at_least is not None and value < at_least:
        raise ValueError(f"{field} must be at least {at_least:g}, got {value!r}")
    if above is not None and value <= above:
        raise ValueError(f"{field} must be above {above:g}, got {value!r}")
    if at_most is not None and value > at_most:
        raise ValueError(f"{field} must be at most {at_most:g}, got {value!r}")


def whole(
    field: str, value: Any, *, at_least: int, at_most: int | None = None, optional: bool = False
) -> None:
    """Refuse `value` unless it is an int inside the given bounds, or an `optional` None."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{field} must be a whole number, got {value!r}")
    if value < at_least:
        raise ValueError(f"{field} must be at least {at_least}, got {value!r}")
    if at_most is not None and value > at_most:
        raise ValueError(f"{field} must be at most {at_most}, got {value!r}")


def instance(field: str, value: Any, kind: type, *, optional: bool = False) -> None:
    """Refuse `value` unless it is an instance of `kind` (or None where `optional`)."""
    if value is None and optional:
        return
    if not isinstance(value, kind):
        raise TypeError(f"{field} must be a {kind.__name__}, got {value!r}")


def function(field: str, value: object, *, optional: bool = False) -> None:
    """Refuse `value` unless it can be called, or is an `optional` None."""
    if not callable(value) and not (value is None and optional):
        raise TypeError(f"{field} must be callable, got {value!r}")


def clock(field: str, value: Clock) -> Clock:
    """Return `value`; refuse it unless it has every method of a `Clock`."""
    if isinstance(value, type):
        raise TypeError(f"{field} must be a Clock, got the class {value.__name__}; make one of it")
    for method in ("monotonic", "wall", "sleep", "sleep_async", "call_within"):
        if not callable(getattr(value, method, None)):
            raise TypeError(f"{field} must be a Clock, got {value!r}, which has no {method}")
    return value


def label(field: str, value: Any) -> None:
    """Refuse `value` unless it is a non-empty string."""
    if not isinstance(value, str):
        raise TypeError(f"{field} must be a string, got {value!r}")
    if not value:
        raise ValueError(f"{field} must not be empty, got {value!r}")


def hashable(field: str, value: object) -> None:
    """Refuse `value` unless it can be hashed, as policies are looked up by value."""
    try:
        hash(value)
    except TypeError:
        raise TypeError(f"{field} must be hashable, got {value!r}") from None


def callables(field: str, values: Iterable[F]) -> tuple[F, ...]:
    """Return `values` as a tuple; refuse them unless each can be called."""
    if not isinstance(values, Iterable):
        raise TypeError(f"{field} must be a list of callables, got {values!r}")
    found = tuple(values)
    for value in found:
        function(field, value)
    return found


def is_async(function: Callable[..., Any]) -> bool:
    """Say whether calling `function` returns a coroutine, judging by its declaration."""
    function = getattr(function, "__func__", function)
    # Of its type: a class whose instances are asynchronous is not asynchronous itself.
    its_call = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(its_call)


def refuse_coroutine(value: object) -> None:
    """Refuse what shows that an operation said to be blocking was asynchronous."""
    if isinstance(value, CoroutineType):
        value.close()
        raise MisusedOperationError(
            "operation must be blocking, got one that returns a coroutine: use the asynchronous "
            "form of this call, such as execute"
        )


def require_awaitable(value: object) -> None:
    """Refuse what shows that an operation said to be asynchronous was blocking."""
    if not hasattr(value, "__await__"):
        raise MisusedOperationError(
            f"operation must return an awaitable, got {value!r}: use the blocking form of this "
            "call, such as execute_sync"
        )


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int that no float can hold
        return False
