"""The package's front door: what it exports is reviewed here, name by name."""

import types

import holdfast

REVIEWED = [
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


def test_the_exported_names_are_the_reviewed_ones():
    assert sorted(holdfast.__all__) == REVIEWED


def test_the_export_list_is_sorted_and_holds_no_name_twice():
    assert list(holdfast.__all__) == sorted(set(holdfast.__all__))


def test_every_exported_name_is_there():
    assert [name for name in holdfast.__all__ if not hasattr(holdfast, name)] == []


def test_nothing_public_stands_beside_the_export_list():
    beside = [
        name
        for name, value in vars(holdfast).items()
        if not name.startswith("_")
        and name not in holdfast.__all__
        and not isinstance(value, types.ModuleType)
    ]
    assert beside == []
