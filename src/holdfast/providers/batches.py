"""Many items in several guarded calls, with one result."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from holdfast.resilience.result import Ended, RetryResult, StopReason

T = TypeVar("T")


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield `items` in parts of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def combined(results: Sequence[RetryResult[list[T]]]) -> RetryResult[list[T]]:
    """Return one result for calls that were made one after the other.

    Attempts, times and history are those of all calls. If one failed, it is the last of them, and
    the values of those before it are left out.
    """
    attempts = sum(result.attempts for result in results)
    seconds = sum(result.total_time for result in results)
    history = tuple(attempt for result in results for attempt in result.history)
    if results and not results[-1].ok:
        last = results[-1]
        return Ended(None, last.error, attempts, seconds, last.stop_reason, history, last.retry_at)
    values = [value for result in results for value in result.unwrap()]
    return Ended(values, None, attempts, seconds, StopReason.SUCCESS, history)
