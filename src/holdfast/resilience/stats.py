"""Counts and latencies of guarded calls, cheap enough to be always on."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from threading import RLock

_LOWEST = 1e-6
_GROWTH = 1.04
_HALF_STEP: float = _GROWTH**0.5
_BOUNDS: list[float] = [_LOWEST * _GROWTH**step for step in range(620)]
"""Upper bounds of the histogram's buckets: 1 µs to about 10 h, each 4 % wider than the last."""

FOLD_AT = 4096
"""First tries collected before the caller that adds one folds them into the histogram."""


@dataclass(frozen=True, slots=True)
class RetryMetrics:
    """The calls of one name so far. Times are seconds, rates are shares between 0 and 1.

    Attributes:
        total_operations: calls that came to an end.
        successful_operations: those that ended with a value.
        success_rate: their share; 1 before the first call.
        total_retries: attempts beyond each call's first.
        avg_retries_per_operation: retries divided by calls.
        max_retries_reached: calls that used up their attempts.
        circuit_breaker_trips: how often the breaker opened.
        circuit_breaker_recoveries: how often trial calls closed it.
        time_in_open_state: seconds that it spent open.
        p50_latency: half of the calls took no longer, waits included; within 2 %. Calls that
            were refused before their first attempt do not count here.
        p95_latency: 95 % of the calls took no longer.
        p99_latency: 99 % of the calls took no longer.
        transient_errors: failed attempts that were worth another.
        permanent_errors: failed attempts that were not.
        retry_distribution: how many calls made 0, 1, 2, ... retries.
        abandoned_threads: threads that blocking attempts over their time occupy now.
    """

    total_operations: int
    successful_operations: int
    success_rate: float
    total_retries: int
    avg_retries_per_operation: float
    max_retries_reached: int
    circuit_breaker_trips: int
    circuit_breaker_recoveries: int
    time_in_open_state: float
    p50_latency: float
    p95_latency: float
    p99_latency: float
    transient_errors: int
    permanent_errors: int
    retry_distribution: tuple[int, ...]
    abandoned_threads: int


class Histogram:
    """Durations in fixed buckets, each 4 % wide. The caller brings the lock."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS) + 1)
        self.total = 0

    def add_sorted(self, durations: list[float]) -> None:
        """Count durations, in seconds and ascending, in one step for each bucket that they meet."""
        start = 0
        while start < len(durations):
            bucket = bisect_right(_BOUNDS, durations[start])
            end = len(durations)
            if bucket < len(_BOUNDS):
                end = bisect_left(durations, _BOUNDS[bucket], start)
            self._counts[bucket] += end - start
            start = end
        self.total += len(durations)

    def percentile(self, share: float) -> float:
        """Return the duration in seconds that `share` of all do not exceed; 0 where empty."""
        if not self.total:
            return 0.0
        rank = share * self.total
        bucket = next(i for i, seen in enumerate(accumulate(self._counts)) if seen >= rank)
        if bucket == 0:
            return 0.0
        return _BOUNDS[min(bucket, len(_BOUNDS)) - 1] * _HALF_STEP


class OperationStats:
    """All counts of one name.

    A call that succeeds at its first attempt appends its duration in seconds to `first_tries`:
    one atomic step without a lock. The caller that finds `FOLD_AT` of them there folds them.
    """

    def __init__(self) -> None:
        self.first_tries: list[float] = []
        self._lock = RLock()
        self._histogram = Histogram()
        self._ended = 0
        self._retried = [0]
        self._successes = 0
        self._max_retries_reached = 0
        self._transient_errors = 0
        self._permanent_errors = 0

    def fold(self) -> None:
        """Sort the collected first tries into the histogram; what comes meanwhile stays."""
        with self._lock:
            count = len(self.first_tries)
            # Taken and deleted without a call in between, so no signal handler can fold them too.
            collected = self.first_tries[:count]
            del self.first_tries[:count]
            self._histogram.add_sorted(sorted(collected))
            self._ended += count
            self._successes += count
            self._retried[0] += count

    def attempt_failed(self, *, permanent: bool) -> None:
        """Count a failed attempt."""
        with self._lock:
            if permanent:
                self._permanent_errors += 1
            else:
                self._transient_errors += 1

    def finished(self, seconds: float, attempts: int, *, ok: bool, exhausted: bool) -> None:
        """Count a call that ended after `seconds` and `attempts`, other than at its first try.

        A call that was refused before its first attempt says nothing about latency or retries.
        """
        with self._lock:
            self._ended += 1
            self._successes += ok
            self._max_retries_reached += exhausted
            if not attempts:
                return
            self._histogram.add_sorted([seconds])
            while len(self._retried) < attempts:
                self._retried.append(0)
            self._retried[attempts - 1] += 1

    def metrics(
        self, *, trips: int, recoveries: int, time_open: float, abandoned: int = 0
    ) -> RetryMetrics:
        """Return the counts so far, with those of the breaker and of threads that are handed in."""
        with self._lock:
            self.fold()
            total = self._ended
            retries = sum(number * calls for number, calls in enumerate(self._retried))
            return RetryMetrics(
                total_operations=total,
                successful_operations=self._successes,
                success_rate=self._successes / total if total else 1.0,
                total_retries=retries,
                avg_retries_per_operation=retries / total if total else 0.0,
                max_retries_reached=self._max_retries_reached,
                circuit_breaker_trips=trips,
                circuit_breaker_recoveries=recoveries,
                time_in_open_state=time_open,
                p50_latency=self._histogram.percentile(0.50),
                p95_latency=self._histogram.percentile(0.95),
                p99_latency=self._histogram.percentile(0.99),
                transient_errors=self._transient_errors,
                permanent_errors=self._permanent_errors,
                retry_distribution=tuple(self._retried),
                abandoned_threads=abandoned,
            )
