"""Counts and latencies: exact counts, percentiles within their bucket."""

import threading
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.resilience.stats import FOLD_AT, Histogram, OperationStats, RetryMetrics

durations = st.floats(min_value=2e-6, max_value=30_000)


def _metrics(stats: OperationStats) -> RetryMetrics:
    return stats.metrics(trips=0, recoveries=0, time_open=0.0)


def test_the_fields_are_those_of_the_requirements_and_two_of_our_own():
    assert [field.name for field in fields(RetryMetrics)] == [
        "total_operations",
        "successful_operations",
        "success_rate",
        "total_retries",
        "avg_retries_per_operation",
        "max_retries_reached",
        "circuit_breaker_trips",
        "circuit_breaker_recoveries",
        "time_in_open_state",
        "p50_latency",
        "p95_latency",
        "p99_latency",
        "transient_errors",
        "permanent_errors",
        "retry_distribution",
        "abandoned_threads",
    ]


def test_before_the_first_call_everything_is_zero_and_nothing_has_failed():
    metrics = _metrics(OperationStats())
    assert metrics == RetryMetrics(0, 0, 1.0, 0, 0.0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, (0,), 0)


def test_all_counts_are_exact():
    stats = OperationStats()
    stats.first_tries += [0.1, 0.1, 0.1]
    stats.attempt_failed(permanent=False)
    stats.finished(1.0, 2, ok=True, exhausted=False)
    for _ in range(3):
        stats.attempt_failed(permanent=False)
    stats.finished(3.0, 3, ok=False, exhausted=True)
    stats.attempt_failed(permanent=True)
    stats.finished(0.1, 1, ok=False, exhausted=False)
    metrics = stats.metrics(trips=4, recoveries=2, time_open=7.5)
    assert metrics.total_operations == 6
    assert metrics.successful_operations == 4
    assert metrics.success_rate == pytest.approx(4 / 6)
    assert metrics.total_retries == 3
    assert metrics.avg_retries_per_operation == pytest.approx(0.5)
    assert metrics.max_retries_reached == 1
    assert (metrics.transient_errors, metrics.permanent_errors) == (4, 1)
    assert metrics.retry_distribution == (4, 1, 1)
    assert metrics.circuit_breaker_trips == 4
    assert metrics.circuit_breaker_recoveries == 2
    assert metrics.time_in_open_state == 7.5


def test_a_call_refused_before_its_first_attempt_counts_but_not_in_latency_or_retries():
    stats = OperationStats()
    stats.finished(2.0, 1, ok=True, exhausted=False)
    for _ in range(9):
        stats.finished(0.0, 0, ok=False, exhausted=False)
    metrics = _metrics(stats)
    assert (metrics.total_operations, metrics.successful_operations) == (10, 1)
    assert metrics.success_rate == pytest.approx(0.1)
    assert metrics.total_retries == 0
    assert metrics.retry_distribution == (1,)
    assert metrics.p50_latency == pytest.approx(2.0, rel=0.04)


def test_the_three_percentiles_are_those_of_their_names():
    stats = OperationStats()
    stats.first_tries += [0.001 * number for number in range(1, 1001)]
    metrics = _metrics(stats)
    assert metrics.p50_latency == pytest.approx(0.500, rel=0.021)
    assert metrics.p95_latency == pytest.approx(0.950, rel=0.021)
    assert metrics.p99_latency == pytest.approx(0.990, rel=0.021)
    assert metrics.p95_latency < metrics.p99_latency


def test_a_signal_handler_that_asks_in_the_middle_of_folding_counts_nothing_twice():
    totals: list[int] = []

    class Interrupted(float):
        """A duration at whose sorting a signal handler asks for the metrics."""

        def __lt__(self, other):
            totals.append(_metrics(stats).total_operations)
            return float(self) < other

    stats = OperationStats()
    stats.first_tries += [Interrupted(0.5 + number) for number in range(10)]
    stats.fold()
    assert totals
    assert set(totals) == {0}
    assert _metrics(stats).total_operations == 10


def test_asking_twice_changes_nothing():
    stats = OperationStats()
    stats.first_tries += [0.5] * 10
    assert _metrics(stats) == _metrics(stats)


def test_folding_empties_the_collected_first_tries():
    stats = OperationStats()
    stats.first_tries += [0.5] * FOLD_AT
    collected = stats.first_tries
    stats.fold()
    assert stats.first_tries is collected
    assert collected == []
    assert _metrics(stats).total_operations == FOLD_AT


def test_what_arrives_while_first_tries_are_folded_is_kept_for_the_next_time():
    class Busy(list[float]):
        """A list to which another thread appends whenever it has been read."""

        def __getitem__(self, place):  # type: ignore[override]
            found = super().__getitem__(place)
            self.append(0.9)
            return found

    stats = OperationStats()
    stats.first_tries = Busy([0.5] * 10)
    stats.fold()
    assert list(stats.first_tries) == [0.9]
    stats.fold()
    assert list(stats.first_tries) == [0.9]
    assert _metrics(stats).total_operations == 12


@given(st.lists(durations, min_size=1, max_size=300))
def test_percentiles_are_within_4_percent_of_the_exact_ones(values):
    stats = OperationStats()
    half = len(values) // 2
    stats.first_tries += values[:half]
    for value in values[half:]:
        stats.finished(value, 1, ok=True, exhausted=False)
    metrics = _metrics(stats)
    ordered = sorted(values)
    for percent, found in (
        (50, metrics.p50_latency),
        (95, metrics.p95_latency),
        (99, metrics.p99_latency),
    ):
        rank = -(-percent * len(ordered) // 100)
        assert found == pytest.approx(ordered[rank - 1], rel=0.04)


@given(st.lists(st.floats(0, 1e6), max_size=200))
def test_adding_sorted_durations_is_the_same_as_adding_one_by_one(values):
    one_by_one, at_once = Histogram(), Histogram()
    for value in values:
        one_by_one.add_sorted([value])
    at_once.add_sorted(sorted(values))
    assert at_once.total == one_by_one.total == len(values)
    shares = [0.01, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0]
    assert [at_once.percentile(s) for s in shares] == [one_by_one.percentile(s) for s in shares]


def test_durations_beyond_the_last_bucket_are_still_counted():
    histogram = Histogram()
    histogram.add_sorted([1e9])
    histogram.add_sorted([2e9, 3e9])
    assert histogram.total == 3
    assert histogram.percentile(0.5) > 30_000


def test_a_duration_too_short_to_measure_counts_as_zero():
    histogram = Histogram()
    histogram.add_sorted([0.0])
    assert histogram.percentile(0.99) == 0.0


def test_counts_are_exact_under_8_threads():
    stats = OperationStats()
    barrier = threading.Barrier(8)

    def work():
        barrier.wait()
        for number in range(5000):
            stats.first_tries.append(0.001)
            if len(stats.first_tries) >= 64:
                stats.fold()
            if number % 10 == 0:
                stats.attempt_failed(permanent=False)
                stats.finished(0.002, 2, ok=True, exhausted=False)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    metrics = _metrics(stats)
    assert metrics.total_operations == 8 * 5500
    assert metrics.successful_operations == 8 * 5500
    assert metrics.retry_distribution == (8 * 5000, 8 * 500)
    assert metrics.transient_errors == 8 * 500
