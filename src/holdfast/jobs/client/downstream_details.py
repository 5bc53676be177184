"""What operators see of a downstream: its breaker, the jobs that wait for it, and how long yet."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.operations_port import FinishedJob
from holdfast.jobs.views import Stats
from holdfast.resilience.breaker.transitions import CircuitState

_FEWEST = 5
"""Fewest finished jobs that a pace is estimated from."""
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class DownstreamDetails:
    """A downstream as of a time. Times are epoch seconds.

    Args:
        record: its stored record.
        state: of its breaker.
        holds: its jobs are held.
        since: when the breaker came into this state; None if it was never open.
        open_seconds: how long it was open in total, until now.
        next_trial_at: when an open breaker lets trial calls through; None if it is not open, or a
            person holds it.
        trips_last_hour: how often it opened in the last hour.
        ready: jobs that wait for it; they are held if it `holds`.
        scheduled: jobs whose time has not come.
        processing: jobs that run.
        oldest_ready_at: since when the oldest of the ready jobs waits.
        drain_seconds: how long the ready jobs take at the pace of its newest finished jobs; None
            if these are too few to estimate it.
    """

    record: DownstreamRecord
    state: CircuitState
    holds: bool
    since: float | None
    open_seconds: float
    next_trial_at: float | None
    trips_last_hour: int
    ready: int
    scheduled: int
    processing: int
    oldest_ready_at: float | None
    drain_seconds: float | None

    @property
    def name(self) -> str:
        """The downstream's name."""
        return self.record.name


def details_of(
    records: Iterable[DownstreamRecord], stats: Stats, sample: Iterable[FinishedJob], now: float
) -> tuple[DownstreamDetails, ...]:
    """Return the details of `records` at `now`; `sample` are jobs that have just finished."""
    waiting: dict[str | None, Counter[str]] = defaultdict(Counter)
    for lane in stats.lanes:
        waiting[lane.downstream].update(
            ready=lane.ready, scheduled=lane.scheduled, processing=lane.processing
        )
    ended: dict[str | None, list[float]] = defaultdict(list)
    for job in sample:
        ended[job.downstream].append(job.finished_at)
    return tuple(
        _details(record, waiting[record.name], stats, _pace(ended[record.name]), now)
        for record in records
    )


def _details(
    record: DownstreamRecord, waiting: Counter[str], stats: Stats, pace: float | None, now: float
) -> DownstreamDetails:
    circuit, state = record.circuit, record.state_at(now)
    is_closed = circuit.state is CircuitState.CLOSED
    opened_at = None if is_closed else circuit.opened_at
    open_now = 0.0 if opened_at is None else max(0.0, now - opened_at)
    is_open = state is CircuitState.OPEN
    return DownstreamDetails(
        record=record,
        state=state,
        holds=record.holds_at(now),
        since=record.closed_at if is_closed else opened_at,
        open_seconds=record.open_seconds + open_now,
        next_trial_at=circuit.open_until if is_open and not circuit.held else None,
        trips_last_hour=sum(now - at < _HOUR for at in record.recent_trips),
        ready=waiting["ready"],
        scheduled=waiting["scheduled"],
        processing=waiting["processing"],
        oldest_ready_at=stats.oldest_ready_of.get(record.name),
        drain_seconds=waiting["ready"] / pace if pace and waiting["ready"] else None,
    )


def _pace(ended: Sequence[float]) -> float | None:
    """Return how many jobs ended per second; None if they are too few."""
    if len(ended) < _FEWEST:
        return None
    seconds = max(ended) - min(ended)
    return (len(ended) - 1) / seconds if seconds > 0 else None
