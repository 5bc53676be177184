"""Check the options of a kind of job; each function raises what `App.job` raises."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.errors import error_code
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.handler_signature import hook_of
from holdfast.jobs.declare.kinds import Isolation
from holdfast.resilience import checks
from holdfast.resilience.policy import RetryPolicy

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,99}")
_MOST_ATTEMPTS = 32767


def full_aliases(app: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the full names of `names`, which belong to the app called `app` unless they say so."""
    if isinstance(names, str):
        raise TypeError(f"aliases must be several names, as in ({names!r},)")
    full = []
    for name in names:
        checks.label("aliases", name)
        for part in name.split(".", 1):
            check_name("aliases", part)
        full.append(name if "." in name else f"{app}.{name}")
    return tuple(dict.fromkeys(full))


def checked_convert(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `function` if it can convert arguments."""
    hook = hook_of("convert", function, 1)
    if hook.is_async:
        raise TypeError(f"convert must be a plain function, got {function!r}")
    return hook.call


def checked_isolation(value: str | None) -> Isolation | None:
    """Return the isolation called `value`."""
    if value is None:
        return None
    try:
        return Isolation(value)
    except ValueError:
        raise ValueError(f"isolation must be None or 'process', got {value!r}") from None


def checked_codes(field: str, codes: Iterable[str]) -> frozenset[str]:
    """Return error codes, as a set."""
    if isinstance(codes, str):
        raise TypeError(f"{field} must be several codes, as in ({codes!r},)")
    return frozenset(map(error_code, codes))


def checked_seconds(field: str, value: float | None, otherwise: float | None) -> float | None:
    """Return `value` in seconds, or `otherwise` if it is None."""
    if value is None:
        return otherwise
    checks.number(field, value, above=0)
    return float(value)


def check_name(field: str, value: object) -> None:
    """Refuse what cannot be the name of an app, a kind or a queue."""
    checks.label(field, value)
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise ValueError(
            f"{field} must be letters, digits, '_' and '-', not begin with a digit and have at "
            f"most 100 characters, got {value!r}"
        )


def check_policy(policy: RetryPolicy, downstream: Downstream | None) -> None:
    """Refuse a policy that jobs cannot follow."""
    checks.whole("retry: max_attempts", policy.max_attempts, at_least=1, at_most=_MOST_ATTEMPTS)
    if policy.budget is not None:
        raise ValueError(
            f"retry: jobs have no retry budget, got {policy.budget!r}; use dataclasses.replace("
            f"policy, budget=None)"
        )
    shared = ("breaker", "rate", "concurrency")
    if downstream is not None:
        return
    for field in shared:
        value = getattr(policy, field)
        if value is not None:
            raise ValueError(
                f"retry: {field} needs a downstream, got {value!r}; add "
                f"downstream=Downstream('name')"
            )
