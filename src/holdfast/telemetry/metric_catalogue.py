"""Every metric: its name, type, labels and meaning; the collectors and the docs use it."""

from dataclasses import dataclass
from enum import StrEnum


class MetricType(StrEnum):
    """The types of Prometheus that are used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Source(StrEnum):
    """Who counts a metric, and so where it is scraped."""

    STORE = "the database, shown by `holdfast serve`"
    JOBS = "each process that runs jobs"
    CALLS = "each process that makes guarded calls"
    RELAY = "each relay"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. The name of a counter ends in `_total`; times are seconds."""

    name: str
    type: MetricType
    meaning: str
    labels: tuple[str, ...]
    source: Source


def _of(source: Source, *rows: tuple[str, MetricType, str, str]) -> dict[str, Metric]:
    return {
        name: Metric(name, kind, meaning, tuple(labels.split()), source)
        for name, kind, labels, meaning in rows
    }


_COUNTER, _GAUGE, _HISTOGRAM = MetricType.COUNTER, MetricType.GAUGE, MetricType.HISTOGRAM

STORE_METRICS = _of(
    Source.STORE,
    ("holdfast_jobs", _GAUGE, "queue downstream kind status",
     "Jobs, by lane and where they stand; ready and scheduled are the queued ones."),
    ("holdfast_jobs_finished_total", _COUNTER, "kind status attempts",
     "Jobs that ever ended, by how and after how many attempts."),
    ("holdfast_jobs_held", _GAUGE, "queue downstream",
     "Ready jobs that wait for a breaker to close."),
    ("holdfast_dead_letters", _GAUGE, "", "Jobs that wait for a person."),
    ("holdfast_oldest_ready_seconds", _GAUGE, "queue",
     "How long the job has waited that is ready longest, by queue."),
    ("holdfast_events_total", _COUNTER, "event",
     "What has happened to jobs beside their ends: retries by hand, rescues, refused writes."),
    ("queue_depth", _GAUGE, "queue", "Ready jobs, held ones included."),
    ("jobs_active", _GAUGE, "queue", "Jobs that a worker runs now."),
    ("manual_retry_total", _COUNTER, "", "Retries by hand."),
    ("holdfast_downstream_state", _GAUGE, "downstream state",
     "Breakers in each state: 1, or all those of a downstream with keys."),
    ("holdfast_downstream_trips_total", _COUNTER, "downstream",
     "How often a downstream's breaker has opened."),
    ("holdfast_downstream_open_seconds_total", _COUNTER, "downstream",
     "How long a downstream's breaker was open, until it closed last."),
    ("holdfast_outbox_messages", _GAUGE, "status",
     "Messages that are not published, by status; counted up to 10000."),
    ("holdfast_outbox_lag_seconds", _GAUGE, "",
     "How long the oldest pending message has waited."),
)  # fmt: skip
"""What is read from the store for every scrape of a server."""

JOB_METRICS = _of(
    Source.JOBS,
    ("holdfast_claims_total", _COUNTER, "queue kind", "Attempts that were claimed."),
    ("holdfast_attempts_total", _COUNTER, "kind outcome", "Attempts that ended, by how."),
    ("holdfast_attempt_errors_total", _COUNTER, "kind error_code",
     "Attempts that failed, by the code of their error; undeclared codes are OTHER."),
    ("jobs_failed_total", _COUNTER, "error_code",
     "Jobs that became dead letters, by the code of their error; undeclared codes are OTHER."),
    ("job_processing_duration_seconds", _HISTOGRAM, "kind", "How long attempts ran."),
    ("holdfast_job_wait_seconds", _HISTOGRAM, "kind",
     "From a job's creation to its first attempt, a planned delay included."),
    ("holdfast_writes_refused_total", _COUNTER, "reason",
     "Reports that the store refused: the lease was lost, or the deadline had passed."),
    ("holdfast_leases_lost_total", _COUNTER, "", "Attempts that lost their leases."),
    ("holdfast_attempts_abandoned_total", _COUNTER, "kind",
     "Attempts that ignored the request to stop."),
    ("holdfast_store_outages_total", _COUNTER, "", "How often the store did not answer."),
    ("holdfast_worker_slots", _GAUGE, "", "Attempts that the running workers can run at once."),
)  # fmt: skip
"""What a `PrometheusListener` counts of jobs."""

CALL_METRICS = _of(
    Source.CALLS,
    ("holdfast_calls_total", _COUNTER, "operation", "Guarded calls that ended."),
    ("holdfast_calls_successful_total", _COUNTER, "operation", "Calls that ended with a value."),
    ("holdfast_call_success_ratio", _GAUGE, "operation",
     "Their share since the process started, from 0 to 1."),
    ("holdfast_call_retries_total", _COUNTER, "operation", "Attempts beyond each call's first."),
    ("holdfast_call_retries_average", _GAUGE, "operation",
     "Retries per call since the process started."),
    ("holdfast_calls_exhausted_total", _COUNTER, "operation",
     "Calls that used up their attempts."),
    ("holdfast_calls_by_retries_total", _COUNTER, "operation retries",
     "Calls that made so many retries."),
    ("holdfast_calls_refused_total", _COUNTER, "operation reason",
     "Calls that ended before their first attempt, by what refused them."),
    ("holdfast_call_errors_total", _COUNTER, "operation category",
     "Failed attempts: transient ones are worth another, permanent ones are not."),
    ("holdfast_call_duration_seconds", _HISTOGRAM, "operation retried",
     "How long calls took, waits included, with and without retries."),
    ("holdfast_call_latency_seconds", _GAUGE, "operation quantile",
     "The same as quantiles since the process started, within 2 %."),
    ("holdfast_circuit_state", _GAUGE, "operation state",
     "Breakers in each state: 1, or all those of an operation with keys."),
    ("holdfast_circuit_trips_total", _COUNTER, "operation", "How often the breaker opened."),
    ("holdfast_circuit_recoveries_total", _COUNTER, "operation",
     "How often trial calls closed the breaker."),
    ("holdfast_circuit_open_seconds_total", _COUNTER, "operation",
     "How long the breaker was open."),
)  # fmt: skip
"""What a `PrometheusListener` counts of guarded calls."""

RELAY_METRICS = _of(
    Source.RELAY,
    ("holdfast_relay_published_total", _COUNTER, "", "Messages that the broker has confirmed."),
)  # fmt: skip
"""What a relay counts."""

METRICS = {**STORE_METRICS, **JOB_METRICS, **CALL_METRICS, **RELAY_METRICS}
"""All metrics, by name."""
