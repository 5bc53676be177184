"""Many calls at once."""

import asyncio
import threading

from holdfast.resilience import presets
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, ConcurrencyLimit, RateLimit, RetryPolicy
from holdfast.resilience.service import RetryService
from holdfast.testing import VirtualClock, seeded_rng


def test_a_thousand_tasks_with_a_tenth_of_transient_failures_nearly_all_succeed():
    clock, chance = VirtualClock(), seeded_rng(11)
    service = RetryService(clock=clock, rng=seeded_rng(12))

    async def operation():
        await asyncio.sleep(chance.uniform(0.001, 0.05))
        if chance.random() < 0.1:
            raise ConnectionResetError("deadlock")
        return True

    async def main():
        calls = (service.execute(operation, presets.DATABASE, "load") for _ in range(1000))
        return await asyncio.gather(*calls)

    results = clock.run(main())
    assert sum(result.ok for result in results) / 1000 > 0.995
    metrics = service.metrics("load")
    assert metrics.total_operations == 1000
    assert metrics.success_rate > 0.995
    assert metrics.transient_errors == metrics.total_retries > 60
    assert sum(metrics.retry_distribution) == 1000
    assert metrics.retry_distribution[0] > 850


def test_a_thousand_calls_from_threads_with_a_tenth_of_transient_failures_nearly_all_succeed():
    service = RetryService(rng=seeded_rng(12))
    policy = RetryPolicy(
        max_attempts=5,
        backoff=Exponential(base=0),
        breaker=BreakerPolicy(consecutive_failures=10, open_for=30, trial_calls=1),
    )
    succeeded: list[bool] = []

    def work(seed: int) -> None:
        chance = seeded_rng(seed)

        def operation() -> bool:
            if chance.random() < 0.1:
                raise ConnectionResetError("deadlock")
            return True

        results = [service.execute_sync(operation, policy, "load") for _ in range(100)]
        succeeded.extend(result.ok for result in results)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(succeeded) == 1000
    assert sum(succeeded) > 995


def test_a_thousand_tasks_keep_to_rate_and_concurrency_together():
    clock = VirtualClock()
    service = RetryService(clock=clock)
    policy = RetryPolicy(
        max_attempts=1,
        backoff=Exponential(cap=3600),
        rate=RateLimit(per_minute=100),
        concurrency=ConcurrencyLimit(7),
    )
    starts: list[float] = []
    running = most = 0

    async def operation():
        nonlocal running, most
        starts.append(clock.monotonic())
        running += 1
        most = max(most, running)
        await asyncio.sleep(1.7)
        running -= 1

    async def main():
        calls = (service.execute(operation, policy, "svc") for _ in range(1000))
        return await asyncio.gather(*calls)

    assert all(result.ok for result in clock.run(main()))
    assert most == 7
    assert len(starts) == 1000
    for first, beyond in zip(starts, starts[100:], strict=False):
        assert beyond - first >= 60 - 1e-6


def test_during_an_outage_the_breaker_spares_the_downstream():
    clock = VirtualClock()
    service = RetryService(clock=clock, rng=seeded_rng())
    policy = RetryPolicy(
        max_attempts=3,
        breaker=BreakerPolicy(consecutive_failures=5, open_for=30, trial_calls=3),
    )
    reached = 0

    async def down():
        nonlocal reached
        reached += 1
        raise ConnectionRefusedError

    async def client():
        for _ in range(300):
            await service.execute(down, policy, "svc")
            await asyncio.sleep(1)

    async def main():
        await asyncio.gather(*(client() for _ in range(50)))

    clock.run(main())
    # 50 clients for 300 s: 15 000 calls. 50 can be running when it opens, then at most 3 trials
    # every 30 s.
    assert reached <= 50 + 3 * 11
    assert service.circuit_state("svc").refused > 10_000
