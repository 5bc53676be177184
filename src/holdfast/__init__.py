"""Holdfast: the reliability layer for Python work that must finish.

The names for guarded calls are here at once; those for durable jobs are loaded when they are first
asked for, so that a program that only guards calls starts quickly.
"""

import importlib
import typing

from holdfast.clock import Clock, SystemClock
from holdfast.errors import (
    AttemptTimeout,
    Category,
    CircuitOpenError,
    ConcurrencyLimitError,
    DeadlineExceeded,
    ErrorCode,
    HoldfastError,
    Permanent,
    RateLimitedError,
    RetryLater,
)
from holdfast.resilience import presets
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.breaker.breaker import CircuitBreaker, CircuitSnapshot
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.resilience.categorize import categorize
from holdfast.resilience.policy import (
    BreakerPolicy,
    ConcurrencyLimit,
    RateLimit,
    RetryBudget,
    RetryPolicy,
)
from holdfast.resilience.result import FailedAttempt, RetryResult, StopReason
from holdfast.resilience.service import RetryService
from holdfast.resilience.stats import RetryMetrics

if typing.TYPE_CHECKING:
    from holdfast.bootstrap import Engine
    from holdfast.jobs.app import App
    from holdfast.jobs.context import JobContext
    from holdfast.jobs.downstream import Downstream
    from holdfast.jobs.model import Job, JobStatus
    from holdfast.jobs.options import WorkerOptions
    from holdfast.jobs.requests import JobHandle, JobRequest
    from holdfast.jobs.retention import Retention

_LOADED_LATER = {
    "App": "holdfast.jobs.app",
    "Downstream": "holdfast.jobs.downstream",
    "Engine": "holdfast.bootstrap",
    "Job": "holdfast.jobs.model",
    "JobContext": "holdfast.jobs.context",
    "JobHandle": "holdfast.jobs.requests",
    "JobRequest": "holdfast.jobs.requests",
    "JobStatus": "holdfast.jobs.model",
    "Retention": "holdfast.jobs.retention",
    "WorkerOptions": "holdfast.jobs.options",
}

__all__ = [
    "App",
    "AttemptTimeout",
    "BreakerPolicy",
    "Category",
    "CircuitBreaker",
    "CircuitOpenError",
    "CircuitSnapshot",
    "CircuitState",
    "Clock",
    "ConcurrencyLimit",
    "ConcurrencyLimitError",
    "DeadlineExceeded",
    "Downstream",
    "Engine",
    "ErrorCode",
    "Exponential",
    "FailedAttempt",
    "HoldfastError",
    "Job",
    "JobContext",
    "JobHandle",
    "JobRequest",
    "JobStatus",
    "Permanent",
    "RateLimit",
    "RateLimitedError",
    "Retention",
    "RetryBudget",
    "RetryLater",
    "RetryMetrics",
    "RetryPolicy",
    "RetryResult",
    "RetryService",
    "StopReason",
    "SystemClock",
    "WorkerOptions",
    "categorize",
    "presets",
]


def __getattr__(name: str) -> typing.Any:
    """Load a name of durable jobs."""
    module = _LOADED_LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
