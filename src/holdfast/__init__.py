"""Holdfast: the reliability layer for Python work that must finish.

The names for guarded calls are here at once; those for durable jobs are loaded when they are first
asked for, so that a program that only guards calls starts quickly.
"""

import importlib
import typing

from holdfast.clock import Clock, SystemClock
from holdfast.errors import (
    AbandonedLimitError,
    AttemptTimeout,
    Category,
    CircuitOpenError,
    ConcurrencyLimitError,
    DeadlineExceeded,
    ErrorCode,
    ErrorInfo,
    HoldfastError,
    Permanent,
    RateLimitedError,
    RetryLater,
    UnwantedResult,
)
from holdfast.resilience import presets
from holdfast.resilience.backoff import Exponential, WaitFunction
from holdfast.resilience.breaker.breaker import CircuitBreaker, CircuitSnapshot
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.resilience.categorize import categorize, diagnose
from holdfast.resilience.policy import (
    BreakerPolicy,
    ConcurrencyLimit,
    RateLimit,
    RetryBudget,
    RetryPolicy,
)
from holdfast.resilience.result import FailedAttempt, RetryResult, StopReason
from holdfast.resilience.retry_after import retry_after
from holdfast.resilience.service import RetryService
from holdfast.resilience.stats import RetryMetrics
from holdfast.time_limit import cancelled, remaining

if typing.TYPE_CHECKING:
    __version__: str
    from holdfast.bootstrap import BlockingEngine, Engine
    from holdfast.jobs.client.api_keys import CreatedKey, UnknownKey
    from holdfast.jobs.client.erasure import Erased, JobsStillRun, UndeclaredKinds
    from holdfast.jobs.client.owner_control import OwnerUse, StorageExceeded
    from holdfast.jobs.client.pause_control import PauseState
    from holdfast.jobs.client.periodic_control import (
        PeriodicSchedule,
        ScheduleBusy,
        UnknownSchedule,
    )
    from holdfast.jobs.client.requests import JobHandle, JobRequest
    from holdfast.jobs.client.webhook_control import UnknownWebhook, WebhookDelivery
    from holdfast.jobs.control_port import WorkerRecord
    from holdfast.jobs.database_port import Database, DatabaseTransaction
    from holdfast.jobs.declare.app import App
    from holdfast.jobs.declare.app_tables import AppTables
    from holdfast.jobs.declare.context import JobContext
    from holdfast.jobs.declare.declared_downstream import Downstream
    from holdfast.jobs.declare.retention import Retention
    from holdfast.jobs.declare.validation import PayloadTooLarge, ValidationError
    from holdfast.jobs.exceptions import (
        ChildError,
        ContextError,
        InvalidState,
        JobFailed,
        LifespanFailed,
        LostLease,
        NotReady,
        TooManyJobs,
        UnknownJob,
        UnknownKind,
        UnknownQueue,
        UnknownWorker,
        WaitTimeout,
    )
    from holdfast.jobs.held import HeldBy
    from holdfast.jobs.intake_port import IntakePause
    from holdfast.jobs.job_events import AttemptFinished
    from holdfast.jobs.key_port import ApiKey
    from holdfast.jobs.model import Job, JobStatus, LastError
    from holdfast.jobs.owner_limits import OwnerLimits
    from holdfast.jobs.owner_port import LimitedOwner
    from holdfast.jobs.shared_rate import SharedRate
    from holdfast.jobs.store_values import (
        ConstraintViolated,
        StoreError,
        StoreUnavailable,
        TransactionTooLong,
    )
    from holdfast.jobs.views import JobFilter
    from holdfast.jobs.webhook_port import Webhook
    from holdfast.jobs.worker.options import WorkerOptions

_LOADED_LATER = {
    "ApiKey": "holdfast.jobs.key_port",
    "App": "holdfast.jobs.declare.app",
    "AppTables": "holdfast.jobs.declare.app_tables",
    "AttemptFinished": "holdfast.jobs.job_events",
    "BlockingEngine": "holdfast.bootstrap",
    "ChildError": "holdfast.jobs.exceptions",
    "ConstraintViolated": "holdfast.jobs.store_values",
    "ContextError": "holdfast.jobs.exceptions",
    "CreatedKey": "holdfast.jobs.client.api_keys",
    "Database": "holdfast.jobs.database_port",
    "DatabaseTransaction": "holdfast.jobs.database_port",
    "Downstream": "holdfast.jobs.declare.declared_downstream",
    "Engine": "holdfast.bootstrap",
    "Erased": "holdfast.jobs.client.erasure",
    "HeldBy": "holdfast.jobs.held",
    "IntakePause": "holdfast.jobs.intake_port",
    "InvalidState": "holdfast.jobs.exceptions",
    "Job": "holdfast.jobs.model",
    "JobContext": "holdfast.jobs.declare.context",
    "JobFailed": "holdfast.jobs.exceptions",
    "JobFilter": "holdfast.jobs.views",
    "JobHandle": "holdfast.jobs.client.requests",
    "JobRequest": "holdfast.jobs.client.requests",
    "JobStatus": "holdfast.jobs.model",
    "JobsStillRun": "holdfast.jobs.client.erasure",
    "LastError": "holdfast.jobs.model",
    "LifespanFailed": "holdfast.jobs.exceptions",
    "LimitedOwner": "holdfast.jobs.owner_port",
    "LostLease": "holdfast.jobs.exceptions",
    "NotReady": "holdfast.jobs.exceptions",
    "OwnerLimits": "holdfast.jobs.owner_limits",
    "OwnerUse": "holdfast.jobs.client.owner_control",
    "PauseState": "holdfast.jobs.client.pause_control",
    "PayloadTooLarge": "holdfast.jobs.declare.validation",
    "PeriodicSchedule": "holdfast.jobs.client.periodic_control",
    "Retention": "holdfast.jobs.declare.retention",
    "ScheduleBusy": "holdfast.jobs.client.periodic_control",
    "SharedRate": "holdfast.jobs.shared_rate",
    "StorageExceeded": "holdfast.jobs.client.owner_control",
    "StoreError": "holdfast.jobs.store_values",
    "StoreUnavailable": "holdfast.jobs.store_values",
    "TooManyJobs": "holdfast.jobs.exceptions",
    "TransactionTooLong": "holdfast.jobs.store_values",
    "UndeclaredKinds": "holdfast.jobs.client.erasure",
    "UnknownJob": "holdfast.jobs.exceptions",
    "UnknownKey": "holdfast.jobs.client.api_keys",
    "UnknownKind": "holdfast.jobs.exceptions",
    "UnknownQueue": "holdfast.jobs.exceptions",
    "UnknownSchedule": "holdfast.jobs.client.periodic_control",
    "UnknownWebhook": "holdfast.jobs.client.webhook_control",
    "UnknownWorker": "holdfast.jobs.exceptions",
    "ValidationError": "holdfast.jobs.declare.validation",
    "WaitTimeout": "holdfast.jobs.exceptions",
    "Webhook": "holdfast.jobs.webhook_port",
    "WebhookDelivery": "holdfast.jobs.client.webhook_control",
    "WorkerOptions": "holdfast.jobs.worker.options",
    "WorkerRecord": "holdfast.jobs.control_port",
}

__all__ = [
    "AbandonedLimitError",
    "ApiKey",
    "App",
    "AppTables",
    "AttemptFinished",
    "AttemptTimeout",
    "BlockingEngine",
    "BreakerPolicy",
    "Category",
    "ChildError",
    "CircuitBreaker",
    "CircuitOpenError",
    "CircuitSnapshot",
    "CircuitState",
    "Clock",
    "ConcurrencyLimit",
    "ConcurrencyLimitError",
    "ConstraintViolated",
    "ContextError",
    "CreatedKey",
    "Database",
    "DatabaseTransaction",
    "DeadlineExceeded",
    "Downstream",
    "Engine",
    "Erased",
    "ErrorCode",
    "ErrorInfo",
    "Exponential",
    "FailedAttempt",
    "HeldBy",
    "HoldfastError",
    "IntakePause",
    "InvalidState",
    "Job",
    "JobContext",
    "JobFailed",
    "JobFilter",
    "JobHandle",
    "JobRequest",
    "JobStatus",
    "JobsStillRun",
    "LastError",
    "LifespanFailed",
    "LimitedOwner",
    "LostLease",
    "NotReady",
    "OwnerLimits",
    "OwnerUse",
    "PauseState",
    "PayloadTooLarge",
    "PeriodicSchedule",
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
    "ScheduleBusy",
    "SharedRate",
    "StopReason",
    "StorageExceeded",
    "StoreError",
    "StoreUnavailable",
    "SystemClock",
    "TooManyJobs",
    "TransactionTooLong",
    "UndeclaredKinds",
    "UnknownJob",
    "UnknownKey",
    "UnknownKind",
    "UnknownQueue",
    "UnknownSchedule",
    "UnknownWebhook",
    "UnknownWorker",
    "UnwantedResult",
    "ValidationError",
    "WaitFunction",
    "WaitTimeout",
    "Webhook",
    "WebhookDelivery",
    "WorkerOptions",
    "WorkerRecord",
    "cancelled",
    "categorize",
    "diagnose",
    "presets",
    "remaining",
    "retry_after",
]


def __getattr__(name: str) -> typing.Any:
    """Load a name of durable jobs, or look up the installed version."""
    if name == "__version__":
        from importlib.metadata import version

        return version("holdfast")
    module = _LOADED_LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
