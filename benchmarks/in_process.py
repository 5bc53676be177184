"""Guarded calls and breakers, compared with other libraries."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import aiobreaker
import backoff
import hyx.circuitbreaker
import purgatory
import pybreaker
import pyresilience
import stamina
import tenacity

from benchmarks.measure import Goal, Row, best_seconds, best_seconds_async, ratios_to_ours
from holdfast import BreakerPolicy, CircuitBreaker, RetryPolicy, RetryService

OURS = "holdfast"
CALLERS = 50
TRIALS = 3
THREADS = 10
SLOW_SECONDS = 0.2


class DownError(Exception):
    """Raised by the protected function while it is down."""


def work() -> int:
    return 1


async def work_async() -> int:
    return 1


def bare_try() -> int | None:
    try:
        return work()
    except DownError:
        return None


def sync_calls() -> Row:
    """Measure a guarded blocking call that succeeds."""
    service, policy = RetryService(), RetryPolicy(breaker=BreakerPolicy())
    resilient = pyresilience.resilient(
        retry=pyresilience.RetryConfig(max_attempts=3),
        circuit_breaker=pyresilience.CircuitBreakerConfig(failure_threshold=5),
    )
    breaker = pybreaker.CircuitBreaker(fail_max=5)
    seconds = best_seconds(
        {
            OURS: partial(service.execute_sync, work, policy, "bench"),
            "tenacity": tenacity.retry(
                stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_exponential_jitter()
            )(work),
            "stamina": stamina.retry(on=DownError, attempts=3)(work),
            "pyresilience (retry + breaker)": resilient(work),
            "backoff": backoff.on_exception(backoff.expo, DownError, max_tries=3)(work),
            "pybreaker (breaker only)": partial(breaker.call, work),
            "bare try": bare_try,
        }
    )
    return Row(
        "guarded call that succeeds, sync: retry + breaker + stats + result",
        ratios=ratios_to_ours(seconds, OURS),
        goals=[Goal("tenacity", 12), Goal("pyresilience (retry + breaker)", 2)],
    )


def async_calls() -> Row:
    """Measure a guarded asynchronous call that succeeds."""
    service, policy = RetryService(), RetryPolicy(breaker=BreakerPolicy())
    resilient = pyresilience.resilient(
        retry=pyresilience.RetryConfig(max_attempts=3),
        circuit_breaker=pyresilience.CircuitBreakerConfig(failure_threshold=5),
    )
    seconds = best_seconds_async(
        {
            OURS: partial(service.execute, work_async, policy, "bench"),
            "tenacity": tenacity.retry(
                stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_exponential_jitter()
            )(work_async),
            "stamina": stamina.retry(on=DownError, attempts=3)(work_async),
            "pyresilience (retry + breaker)": resilient(work_async),
            "backoff": backoff.on_exception(backoff.expo, DownError, max_tries=3)(work_async),
            "bare await": work_async,
        }
    )
    return Row(
        "guarded call that succeeds, async",
        ratios=ratios_to_ours(seconds, OURS),
        goals=[Goal("tenacity", 23.6), Goal("stamina", 18.4), Goal("backoff", 1.96)],
    )


class Downstream:
    """Fails until `up` is set; then counts calls, each of which takes 20 ms."""

    def __init__(self) -> None:
        self.up = False
        self.entered = 0

    async def call(self) -> None:
        self.entered += self.up
        if not self.up:
            raise DownError
        await asyncio.sleep(0.02)


Guarded = Callable[[], Awaitable[object]]


async def _count_through(guarded: Guarded, downstream: Downstream, cooldown: float) -> int:
    for _ in range(3):
        await asyncio.gather(guarded(), return_exceptions=True)
    await asyncio.sleep(cooldown)
    downstream.up = True
    await asyncio.gather(*(guarded() for _ in range(CALLERS)), return_exceptions=True)
    return downstream.entered


async def half_open_counts() -> dict[str, float]:
    """Count how many of 50 simultaneous calls a half-open breaker permits."""
    counts: dict[str, float] = {}

    async def run(name: str, protect: Callable[[Downstream], Guarded], cooldown: float) -> None:
        downstream = Downstream()
        counts[name] = await _count_through(protect(downstream), downstream, cooldown)

    def ours(downstream: Downstream) -> Guarded:
        policy = BreakerPolicy(consecutive_failures=3, open_for=0.05, trial_calls=TRIALS)
        breaker = CircuitBreaker(policy)
        return lambda: breaker.acall(downstream.call)

    def with_aiobreaker(downstream: Downstream) -> Guarded:
        breaker = aiobreaker.CircuitBreaker(fail_max=3, timeout_duration=timedelta(milliseconds=50))
        return lambda: breaker.call_async(downstream.call)

    def with_hyx(downstream: Downstream) -> Guarded:
        guard = hyx.circuitbreaker.consecutive_breaker(
            failure_threshold=3, recovery_time_secs=0.05, recovery_threshold=TRIALS
        )
        return guard(downstream.call)

    def with_pyresilience(downstream: Downstream) -> Guarded:
        guard = pyresilience.resilient(
            circuit_breaker=pyresilience.CircuitBreakerConfig(
                failure_threshold=3, recovery_timeout=0.05, success_threshold=TRIALS
            )
        )
        return guard(downstream.call)

    def with_purgatory(downstream: Downstream) -> Guarded:
        factory = purgatory.AsyncCircuitBreakerFactory(default_threshold=3, default_ttl=1)

        async def call() -> None:
            async with await factory.get_breaker("bench"):
                await downstream.call()

        return call

    await run(OURS, ours, 0.08)
    await run("aiobreaker", with_aiobreaker, 0.08)
    await run("hyx", with_hyx, 0.08)
    await run("pyresilience", with_pyresilience, 0.08)
    await run("purgatory", with_purgatory, 1.1)
    return counts


def half_open() -> Row:
    """Count the calls that a half-open breaker permits."""
    counts = asyncio.run(half_open_counts())
    return Row(
        f"{CALLERS} callers at a half-open breaker of {TRIALS} trials: calls let through",
        counts=counts,
        expected={OURS: TRIALS},
    )


def _threads_through(call: Callable[[Callable[[], object]], object]) -> float:
    ready = threading.Barrier(THREADS + 1)

    def slow() -> None:
        time.sleep(SLOW_SECONDS)

    def run() -> None:
        ready.wait()
        call(slow)

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    ready.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin


def slow_threads() -> Row:
    """Measure ten threads in slow calls through one breaker."""
    peer, ours = pybreaker.CircuitBreaker(fail_max=5), CircuitBreaker(BreakerPolicy())
    seconds = {
        OURS: _threads_through(ours.call),
        "pybreaker": _threads_through(peer.call),
        "no breaker": _threads_through(lambda slow: slow()),
    }
    return Row(
        f"{THREADS} threads x {SLOW_SECONDS} s through one breaker",
        ratios=ratios_to_ours(seconds, OURS),
        goals=[Goal("pybreaker", 9), Goal("no breaker", 0.9)],
    )


def rows() -> list[Row]:
    """Run every row of this file."""
    logging.disable(logging.CRITICAL)  # peers log every change of state to the terminal
    try:
        return [sync_calls(), async_calls(), half_open(), slow_threads()]
    finally:
        logging.disable(logging.NOTSET)
