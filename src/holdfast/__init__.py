"""Holdfast: the reliability layer for Python work that must finish."""

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

__all__ = [
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
    "ErrorCode",
    "Exponential",
    "FailedAttempt",
    "HoldfastError",
    "Permanent",
    "RateLimit",
    "RateLimitedError",
    "RetryBudget",
    "RetryLater",
    "RetryMetrics",
    "RetryPolicy",
    "RetryResult",
    "RetryService",
    "StopReason",
    "SystemClock",
    "categorize",
    "presets",
]
