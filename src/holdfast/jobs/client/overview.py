"""Figures about all jobs: how many succeed, how often they are retried, how long they take.

Everything comes from counters, from their copies every five minutes, and from the newest finished
jobs, so reading it costs the same with a thousand jobs and with a million.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.jobs.client.downstream_details import DownstreamDetails, details_of
from holdfast.jobs.model import JobStatus
from holdfast.jobs.operations_port import CounterMark, FinishedJob
from holdfast.jobs.store_port import Store
from holdfast.jobs.views import Stats

SAMPLE = 1000
"""Newest finished jobs from which times are computed."""
_HOUR = 3600.0
_DAY = 86_400.0

Counted = tuple[str, str, int, int]
"""A kind, a status, a number of attempts, and how many jobs ended so."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How jobs have ended since a time.

    Args:
        complete: jobs that succeeded.
        failed: jobs that failed for good.
        first_try: jobs that succeeded in their first attempt.
        attempts: all attempts of these jobs.
        since: from when on they are counted, in epoch seconds; None is ever.
    """

    complete: int = 0
    failed: int = 0
    first_try: int = 0
    attempts: int = 0
    since: float | None = None

    @property
    def finished(self) -> int:
        """How many jobs have ended, except cancelled ones."""
        return self.complete + self.failed

    @property
    def first_try_share(self) -> float | None:
        """Which share succeeded in the first attempt, from 0 to 1; None without jobs."""
        return self.first_try / self.finished if self.finished else None

    @property
    def success_share(self) -> float | None:
        """Which share succeeded in the end, from 0 to 1; None without jobs."""
        return self.complete / self.finished if self.finished else None

    @property
    def retry_overhead(self) -> float | None:
        """How many attempts were made beyond the first ones, in per cent of these."""
        if not self.finished:
            return None
        return 100.0 * max(0, self.attempts - self.finished) / self.finished


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds that a half, 95 and 99 per cent of the jobs did not exceed."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Latency:
    """How long the newest finished jobs took, all figures of the same jobs. Seconds.

    Args:
        jobs: how many they are.
        since: when the first of them ended, in epoch seconds.
        without_retries: from the start of the last attempt to the end.
        with_retries: from the start of the first attempt to the end, with all waits between.
        total: from the creation to the end.
    """

    jobs: int
    since: float
    without_retries: Percentiles
    with_retries: Percentiles
    total: Percentiles


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The unfinished jobs of a queue, and since when its oldest ready job waits."""

    name: str
    ready: int
    scheduled: int
    processing: int
    oldest_ready_at: float | None


@dataclass(frozen=True, slots=True)
class KindOverview:
    """The figures of one kind; see `Overview`."""

    kind: str
    total: Outcomes
    last_hour: Outcomes | None
    last_day: Outcomes | None
    retries: tuple[tuple[int, int], ...]
    latency: Latency | None


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """How jobs have ended between two times, and how many were ready at the end. Epoch seconds."""

    at: float
    outcomes: Outcomes
    ready: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Figures about all jobs.

    Args:
        at: when they were read, in epoch seconds.
        total: all jobs that ever ended.
        last_hour: those of about the last hour; None before the first copy of the counters.
        last_day: those of about the last day, likewise.
        retries: how many jobs ended after how many attempts, as (attempts, jobs).
        latency: how long the newest finished jobs took; None if none has finished.
        queues: all queues, by name.
        kinds: the figures of each kind, by name.
        downstreams: all downstreams, by name.
        trips_by_hour: how often breakers opened in each of the last 24 hours, the present one last.
        history: the outcomes of each hour of the last day, oldest first.
    """

    at: float
    total: Outcomes
    last_hour: Outcomes | None
    last_day: Outcomes | None
    retries: tuple[tuple[int, int], ...]
    latency: Latency | None
    queues: tuple[QueueDepth, ...]
    kinds: tuple[KindOverview, ...]
    downstreams: tuple[DownstreamDetails, ...]
    trips_by_hour: tuple[int, ...]
    history: tuple[HistoryPoint, ...]


async def read_overview(store: Store) -> Overview:
    """Return the figures of now."""
    now = await store.ping()
    stats = await store.stats()
    marks = await store.marks(now - _DAY - _HOUR, choose=lambda times: _needed_marks(times, now))
    sample = await store.finished_jobs(limit=SAMPLE)
    downstreams = details_of(await store.downstreams(), stats, sample, now)
    counted = [(each.kind, str(each.status), each.attempts, each.count) for each in stats.outcomes]
    kinds = sorted({lane.kind for lane in stats.lanes} | {each[0] for each in counted})
    return Overview(
        at=now,
        total=_outcomes(counted),
        last_hour=_lately(counted, marks, now - _HOUR),
        last_day=_lately(counted, marks, now - _DAY),
        retries=_retries(counted),
        latency=latency_of(sample),
        queues=_queues(stats),
        kinds=tuple(_kind(kind, counted, marks, sample, now) for kind in kinds),
        downstreams=downstreams,
        trips_by_hour=_trips(downstreams, now),
        history=_history(marks),
    )


def _kind(
    kind: str,
    counted: Iterable[Counted],
    marks: Sequence[CounterMark],
    sample: Iterable[FinishedJob],
    now: float,
) -> KindOverview:
    own = [each for each in counted if each[0] == kind]
    return KindOverview(
        kind=kind,
        total=_outcomes(own),
        last_hour=_lately(own, marks, now - _HOUR, kind),
        last_day=_lately(own, marks, now - _DAY, kind),
        retries=_retries(own),
        latency=latency_of([job for job in sample if job.kind == kind]),
    )


def _outcomes(counted: Iterable[Counted], since: float | None = None) -> Outcomes:
    complete = failed = first_try = attempts = 0
    for _, status, made, count in counted:
        if status == JobStatus.COMPLETE:
            complete += count
            first_try += count if made <= 1 else 0
        elif status == JobStatus.FAILED:
            failed += count
        else:
            continue
        attempts += max(1, made) * count
    return Outcomes(complete, failed, first_try, attempts, since)


def _lately(
    counted: Iterable[Counted], marks: Sequence[CounterMark], since: float, kind: str | None = None
) -> Outcomes | None:
    """Return what was counted since the mark that is nearest to `since`."""
    if not marks:
        return None
    nearest = _nearest((mark.at for mark in marks), since)
    mark = next(mark for mark in marks if mark.at == nearest)
    before = [each for each in mark.outcomes if kind in (None, each[0])]
    return _between(before, counted, mark.at)


def _between(before: Iterable[Counted], after: Iterable[Counted], since: float) -> Outcomes:
    known = {each[:3]: each[3] for each in before}
    grown = [(*each[:3], max(0, each[3] - known.get(each[:3], 0))) for each in after]
    return _outcomes(grown, since)


def _retries(counted: Iterable[Counted]) -> tuple[tuple[int, int], ...]:
    by_attempts: Counter[int] = Counter()
    for _, status, made, count in counted:
        if status != JobStatus.CANCELLED:
            by_attempts[max(1, made)] += count
    return tuple(sorted(by_attempts.items()))


def latency_of(sample: Sequence[FinishedJob]) -> Latency | None:
    """Return how long these jobs took; None without any."""
    if not sample:
        return None

    def over(seconds: Callable[[FinishedJob], float]) -> Percentiles:
        ordered = sorted(max(0.0, seconds(job)) for job in sample)
        return Percentiles(*(_percentile(ordered, share) for share in (0.5, 0.95, 0.99)))

    return Latency(
        jobs=len(sample),
        since=min(job.finished_at for job in sample),
        without_retries=over(lambda job: job.finished_at - job.last_attempt_at),
        with_retries=over(lambda job: job.finished_at - job.started_at),
        total=over(lambda job: job.finished_at - job.created_at),
    )


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _queues(stats: Stats) -> tuple[QueueDepth, ...]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for lane in stats.lanes:
        counts[lane.queue].update(
            ready=lane.ready, scheduled=lane.scheduled, processing=lane.processing
        )
    return tuple(
        QueueDepth(
            name, count["ready"], count["scheduled"], count["processing"],
            stats.oldest_ready_at.get(name),
        )
        for name, count in sorted(counts.items())
    )  # fmt: skip


def _trips(downstreams: Iterable[DownstreamDetails], now: float) -> tuple[int, ...]:
    hours = [0] * 24
    for details in downstreams:
        for at in details.record.recent_trips:
            ago = int((now - at) // _HOUR)
            if 0 <= ago < len(hours):
                hours[-1 - ago] += 1
    return tuple(hours)


def _needed_marks(times: Sequence[float], now: float) -> frozenset[float]:
    """Return the times of the marks that the figures of `now` are computed from."""
    if not times:
        return frozenset()
    return frozenset([_nearest(times, now - _HOUR), _nearest(times, now - _DAY), *_hourly(times)])


def _nearest(times: Iterable[float], at: float) -> float:
    return min(times, key=lambda each: abs(each - at))


def _hourly(times: Iterable[float]) -> list[float]:
    """Return the first of `times` and those that follow each other by about an hour."""
    chosen: list[float] = []
    for at in times:
        if not chosen or at - chosen[-1] >= _HOUR * 0.95:
            chosen.append(at)
    return chosen


def _history(marks: Sequence[CounterMark]) -> tuple[HistoryPoint, ...]:
    """Return what was counted between marks that are about an hour apart."""
    by_time = {mark.at: mark for mark in marks}
    return tuple(
        HistoryPoint(
            mark.at,
            _between(before.outcomes, mark.outcomes, before.at),
            sum(mark.ready.values()),
        )
        for before, mark in pairwise(by_time[at] for at in _hourly(by_time))
    )
