"""How Celery workers grade, from the environment. Times are seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast import Exponential, RetryPolicy, presets
from holdfast.settings import BadSetting, Environment
from holdfast_grading.settings import GradingSettings

_LEASE = 30.0


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a Celery worker grades.

    Args:
        broker_url: where the requests come from.
        database_url: where claims, retries and callbacks are kept: the database of the server.
        grading: which providers there are.
        retry: how often and when grading is tried again, and the breakers of its providers.
        lease_seconds: after a worker died, the time until another one grades its request.
    """

    broker_url: str
    database_url: str
    grading: GradingSettings
    retry: RetryPolicy = presets.GRADING
    lease_seconds: float = _LEASE

    @classmethod
    def load(cls, values: Mapping[str, str]) -> "WorkerSettings":
        """Read them.

        Raises:
            BadSetting: one that is needed is missing, or a value cannot be used.
        """
        read = Environment(values)
        return cls(
            broker_url=_needed(read, "RABBITMQ_URL"),
            database_url=_needed(read, "HOLDFAST_DATABASE_URL"),
            grading=GradingSettings.load(values),
            retry=_retry(read),
            lease_seconds=read.seconds("LEASE_MS", _LEASE, at_least_ms=1000),
        )


def _needed(read: Environment, name: str) -> str:
    value = read.text(name)
    if value is None:
        raise BadSetting(f"{name} must be set for the Celery workers of grading")
    return value


def _retry(read: Environment) -> RetryPolicy:
    preset = presets.GRADING
    backoff, breaker = preset.backoff, preset.breaker
    assert isinstance(backoff, Exponential)
    assert breaker is not None
    cap = read.seconds("RETRY_MAX_DELAY", backoff.cap)
    base = min(cap, read.seconds("RETRY_BASE_DELAY", backoff.base))
    return replace(
        preset,
        max_attempts=read.whole("RETRY_MAX_ATTEMPTS", preset.max_attempts, at_most=1000),
        backoff=replace(backoff, base=base, cap=cap),
        breaker=replace(breaker, open_for=read.seconds("CIRCUIT_TIMEOUT", breaker.open_for)),
    )
