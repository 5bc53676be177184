"""Families of samples, as the client library exposes them, from the catalogue of metrics."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from holdfast.telemetry.metric_catalogue import METRICS, MetricType

DURATIONS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600,
)  # fmt: skip
"""Upper bounds of the buckets of durations, in seconds."""

_NAMES = [*(str(float(bound)) for bound in DURATIONS), "+Inf"]


class DurationHistogram:
    """Count durations in the buckets of `DURATIONS`. The caller brings the lock."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * len(_NAMES)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(DURATIONS, seconds)] += 1
        self._sum += seconds

    def add_all(self, durations: list[float]) -> None:
        """Count many; faster than one by one, since most are in few buckets."""
        durations.sort()
        start, counts = 0, self._counts
        while start < len(durations):
            bucket = bisect_left(DURATIONS, durations[start])
            end = len(durations)
            if bucket < len(DURATIONS):
                end = bisect_right(durations, DURATIONS[bucket], start)
            counts[bucket] += end - start
            start = end
        self._sum += sum(durations)

    def buckets(self) -> list[tuple[str, float]]:
        """Return the upper bound of each bucket, and how many durations do not exceed it."""
        return list(zip(_NAMES, map(float, accumulate(self._counts)), strict=True))

    @property
    def sum(self) -> float:
        """All durations together, in seconds."""
        return self._sum


Labels = tuple[str, ...]


def family(name: str, samples: Iterable[tuple[Labels, float]]) -> Metric:
    """Return the counter or gauge `name` of the catalogue with its samples.

    Samples with the same labels are added up: downstreams with keys would make a series each, and
    show to everyone what jobs are about.
    """
    metric = METRICS[name]
    made: CounterMetricFamily | GaugeMetricFamily
    if metric.type is MetricType.COUNTER:
        made = CounterMetricFamily(name, metric.meaning, labels=metric.labels)
    else:
        made = GaugeMetricFamily(name, metric.meaning, labels=metric.labels)
    sums: dict[Labels, float] = {}
    for labels, value in samples:
        sums[labels] = sums.get(labels, 0.0) + value
    for labels, value in sums.items():
        made.add_metric(labels, value)
    return made


def histogram_family(name: str, histograms: Mapping[Labels, DurationHistogram]) -> Metric:
    """Return the histogram `name` of the catalogue with its samples."""
    metric = METRICS[name]
    made = HistogramMetricFamily(name, metric.meaning, labels=metric.labels)
    for labels, histogram in histograms.items():
        made.add_metric(labels, histogram.buckets(), histogram.sum)
    return made


class FamilyList:
    """What `generate_latest` takes in place of a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        yield from self._families
