"""Counts of claims, attempts and jobs, from the events of workers."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from threading import Lock

from prometheus_client.core import Metric

from holdfast.errors import ErrorCode
from holdfast.events import Event
from holdfast.jobs.job_events import (
    AttemptAbandoned,
    JobsRescued,
    JobsTimedOut,
    LeaseLost,
    StoreLost,
    TickStored,
    WorkerStarted,
    WorkerStopped,
    WriteRefused,
)
from holdfast.jobs.model import (
    AttemptOutcome,
    Cancelled,
    Claim,
    Completed,
    Failed,
    Finished,
    Released,
    Retry,
)
from holdfast.telemetry.prometheus.families import DurationHistogram, family, histogram_family

OTHER = "OTHER"
"""The label of codes that are not declared: anything may stand in them, in any number."""

_OUTCOMES: dict[type, AttemptOutcome] = {
    Completed: AttemptOutcome.COMPLETE,
    Retry: AttemptOutcome.RETRY,
    Failed: AttemptOutcome.FAILED,
    Released: AttemptOutcome.RELEASED,
    Cancelled: AttemptOutcome.CANCELLED,
}


class JobMetrics:
    """Count what happens to jobs in this process. Any thread may call it.

    Args:
        codes: the error codes that are shown by name.
    """

    def __init__(self, codes: Collection[str]) -> None:
        self._codes = frozenset(map(str, codes))
        self._lock = Lock()
        self._counts: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        # From the start: Prometheus does not count the step from nothing to the first failures.
        self._counts["jobs_failed_total"].update({(code,): 0 for code in (*self._codes, OTHER)})
        self._runs: defaultdict[tuple[str, ...], DurationHistogram]
        self._runs = defaultdict(DurationHistogram)
        self._waits: defaultdict[tuple[str, ...], DurationHistogram]
        self._waits = defaultdict(DurationHistogram)
        self._slots: dict[str, int] = {}

    def tick_stored(self, tick: TickStored) -> None:
        """Count the claims and reports of a tick: grouped first, then counted in one step."""
        claims: defaultdict[tuple[str, str], list[Claim]] = defaultdict(list)
        for claim in tick.claims:
            claims[claim.queue, claim.kind].append(claim)
        reports: defaultdict[tuple[str, type], list[Finished]] = defaultdict(list)
        for kind, report in tick.reports:
            reports[kind, type(report.outcome)].append(report)
        with self._lock:
            for (queue, kind), claimed in claims.items():
                self._count_claims(queue, kind, claimed)
            for (kind, outcome), ended in reports.items():
                self._count_attempts(kind, outcome, ended)
            for code in tick.failed:
                self._add("jobs_failed_total", self._label(code))

    def _count_claims(self, queue: str, kind: str, claims: list[Claim]) -> None:
        self._add("holdfast_claims_total", queue, kind, times=len(claims))
        waits = [each.started_at - each.created_at for each in claims if each.attempt == 1]
        self._waits[kind,].add_all(waits)

    def _count_attempts(self, kind: str, outcome: type, reports: list[Finished]) -> None:
        self._add("holdfast_attempts_total", kind, _OUTCOMES[outcome], times=len(reports))
        self._runs[kind,].add_all([each.duration or 0.0 for each in reports])
        for each in reports if outcome in (Retry, Failed) else ():
            assert isinstance(each.outcome, Retry | Failed)
            self._add("holdfast_attempt_errors_total", kind, self._label(each.outcome.error.code))

    def take(self, event: Event) -> None:
        """Count an event that is not part of a tick."""
        with self._lock:
            match event:
                case JobsTimedOut():
                    self._add("jobs_failed_total", ErrorCode.TIMEOUT, times=len(event.job_ids))
                case JobsRescued():
                    self._add("jobs_failed_total", ErrorCode.LEASE_LOST, times=len(event.dead))
                case WriteRefused():
                    self._add("holdfast_writes_refused_total", event.reason)
                case LeaseLost():
                    self._add("holdfast_leases_lost_total")
                case AttemptAbandoned():
                    self._add("holdfast_attempts_abandoned_total", event.name)
                case StoreLost():
                    self._add("holdfast_store_outages_total")
                case WorkerStarted():
                    self._slots[event.name] = event.concurrency
                case WorkerStopped():
                    self._slots.pop(event.name, None)

    def collect(self) -> Iterator[Metric]:
        """Yield the families of samples."""
        with self._lock:
            families = [
                *(family(name, self._counts[name].items()) for name in _COUNTED),
                *(family(name, [((), self._counts[name][()])]) for name in _PLAIN),
                histogram_family("job_processing_duration_seconds", self._runs),
                histogram_family("holdfast_job_wait_seconds", self._waits),
                family("holdfast_worker_slots", [((), sum(self._slots.values()))]),
            ]
        yield from families

    def _add(self, name: str, *labels: str, times: int = 1) -> None:
        if times:
            self._counts[name][tuple(map(str, labels))] += times

    def _label(self, code: str) -> str:
        return str(code) if code in self._codes else OTHER


_PLAIN = ("holdfast_leases_lost_total", "holdfast_store_outages_total")
_COUNTED = (
    "holdfast_claims_total", "holdfast_attempts_total", "holdfast_attempt_errors_total",
    "jobs_failed_total", "holdfast_writes_refused_total", "holdfast_attempts_abandoned_total",
)  # fmt: skip
