"""Figures of guarded calls: what services remember, and durations from the events of calls."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from threading import Lock
from weakref import WeakSet

from prometheus_client.core import Metric

from holdfast.events import CallFinished
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.resilience.service import RetryService
from holdfast.resilience.stats import RetryMetrics
from holdfast.telemetry.prometheus.families import (
    DurationHistogram,
    Labels,
    family,
    histogram_family,
)

_SUMS = {
    "holdfast_calls_total": "total_operations",
    "holdfast_calls_successful_total": "successful_operations",
    "holdfast_call_retries_total": "total_retries",
    "holdfast_calls_exhausted_total": "max_retries_reached",
    "holdfast_circuit_trips_total": "circuit_breaker_trips",
    "holdfast_circuit_recoveries_total": "circuit_breaker_recoveries",
    "holdfast_circuit_open_seconds_total": "time_in_open_state",
}
"""The fields of `RetryMetrics` that are added up where names have keys."""

_QUANTILES = {"0.5": "p50_latency", "0.95": "p95_latency", "0.99": "p99_latency"}


def base_name(name: str) -> str:
    """Return the part of an operation's name before its key: `host` of `host:example.org`.

    A series for each key would be too many, and would show what the calls are about.
    """
    return name.partition(":")[0]


class CallMetrics:
    """Show the figures of services, and count durations. Any thread may call it."""

    def __init__(self) -> None:
        self._services: WeakSet[RetryService] = WeakSet()
        self._lock = Lock()
        self._durations: defaultdict[Labels, DurationHistogram] = defaultdict(DurationHistogram)
        self._refused: Counter[Labels] = Counter()

    def watch(self, service: RetryService) -> None:
        """Show the figures of `service` from now on, for as long as it exists."""
        with self._lock:
            self._services.add(service)

    def take(self, event: CallFinished) -> None:
        """Count a call that has ended."""
        operation = base_name(event.name)
        with self._lock:
            if event.attempts:
                retried = "yes" if event.attempts > 1 else "no"
                self._durations[operation, retried].add(event.total_time)
            else:
                self._refused[operation, event.stop_reason] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the families of samples."""
        with self._lock:
            services = list(self._services)
            durations = histogram_family("holdfast_call_duration_seconds", self._durations)
            refused = family("holdfast_calls_refused_total", self._refused.items())
        figures = [
            (base_name(name), service.metrics(name), service.circuit_state(name).state)
            for service in services
            for name in service.names()
        ]
        yield from (durations, refused)
        for metric, field in _SUMS.items():
            yield family(metric, [((name,), getattr(each, field)) for name, each, _ in figures])
        yield from _distributions([(name, each) for name, each, _ in figures])
        states = [
            ((name, str(state)), float(found is state))
            for name, _, found in figures
            for state in CircuitState
        ]
        yield family("holdfast_circuit_state", states)


def _distributions(figures: list[tuple[str, RetryMetrics]]) -> Iterator[Metric]:
    yield family(
        "holdfast_call_errors_total",
        [
            ((name, category), float(count))
            for name, each in figures
            for category, count in (
                ("transient", each.transient_errors),
                ("permanent", each.permanent_errors),
            )
        ],
    )
    yield family(
        "holdfast_calls_by_retries_total",
        [
            ((name, str(retries)), float(count))
            for name, each in figures
            for retries, count in enumerate(each.retry_distribution)
        ],
    )
    totals: Counter[str] = Counter()
    ok: Counter[str] = Counter()
    retries: Counter[str] = Counter()
    slowest: dict[Labels, float] = {}
    for name, each in figures:
        totals[name] += each.total_operations
        ok[name] += each.successful_operations
        retries[name] += each.total_retries
        for quantile, field in _QUANTILES.items():
            # Quantiles cannot be added up: of several keys the slowest counts.
            key = (name, quantile)
            slowest[key] = max(slowest.get(key, 0.0), getattr(each, field))
    yield family(
        "holdfast_call_success_ratio",
        [((name,), ok[name] / count if count else 1.0) for name, count in totals.items()],
    )
    yield family(
        "holdfast_call_retries_average",
        [((name,), retries[name] / count if count else 0.0) for name, count in totals.items()],
    )
    yield family("holdfast_call_latency_seconds", slowest.items())
