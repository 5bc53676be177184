"""A rate that is counted in the store holds for all engines on it, sync and async."""

import asyncio
import threading

import pytest

from holdfast import (
    App,
    Engine,
    Exponential,
    JobContext,
    RateLimit,
    RetryPolicy,
    RetryService,
    SharedRate,
    StopReason,
)
from holdfast.jobs.store_port import StoreClosed

TWO = RateLimit(per_minute=2)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/work.db"


def test_two_engines_share_a_rate_by_its_name(url):
    async def scenario():
        async with Engine(url) as one, Engine(url) as other:
            rates = [engine.shared_rate("gemini", TWO) for engine in (one, other)]
            return [await rate.reserve(0.0) for rate in (*rates, *rates)]

    waits = asyncio.run(scenario())
    assert waits[:2] == [0, 0]
    assert all(50 < wait <= 60 for wait in waits[2:])


def test_guarded_calls_stop_at_the_limit_and_say_when_to_come_back(url):
    async def scenario():
        async with Engine(url) as engine:
            rate = engine.shared_rate("gemini", TWO)
            policy = RetryPolicy(rate=rate, backoff=Exponential(cap=8))
            service = RetryService()

            async def call():
                return "done"

            return [await service.execute(call, policy, "call") for _ in range(3)]

    *done, refused = asyncio.run(scenario())
    assert [result.value for result in done] == ["done", "done"]
    assert (refused.attempts, refused.stop_reason) == (0, StopReason.RATE_LIMIT)
    assert refused.retry_at is not None


def test_blocking_calls_use_the_rate_of_a_blocking_engine(url):
    with Engine(url).blocking() as engine:
        rate = engine.shared_rate("gemini", TWO)
        assert isinstance(rate, SharedRate)
        assert [rate.reserve_sync(0.0), rate.reserve_sync(0.0)] == [0, 0]
        assert asyncio.run(rate.reserve(0.0)) > 50


def test_a_blocking_call_in_a_thread_uses_the_rate_of_an_async_engine(url):
    async def scenario():
        async with Engine(url) as engine:
            rate = engine.shared_rate("gemini", TWO)
            return await asyncio.to_thread(rate.reserve_sync, 0.0)

    assert asyncio.run(scenario()) == 0


def test_a_blocking_call_on_the_engines_own_loop_is_refused(url):
    async def scenario():
        async with Engine(url) as engine:
            with pytest.raises(RuntimeError, match="would wait for itself"):
                engine.shared_rate("gemini", TWO).reserve_sync(0.0)

    asyncio.run(scenario())


def test_a_rate_of_an_engine_that_is_not_open_is_refused(url):
    engine = Engine(url)
    rate = engine.shared_rate("gemini", TWO)
    with pytest.raises(StoreClosed, match="open the engine"):
        rate.reserve_sync(0.0)

    async def scenario():
        async with engine:
            assert await rate.reserve(0.0) == 0
        with pytest.raises(StoreClosed):
            await rate.reserve(0.0)

    asyncio.run(scenario())


def test_an_event_loop_that_has_ended_counts_as_a_closed_engine(url):
    rates = []

    async def left_open():
        engine = Engine(url)
        await engine.__aenter__()
        rates.append(engine.shared_rate("gemini", TWO))
        await engine.store.close()

    asyncio.run(left_open())
    with pytest.raises(StoreClosed, match="was closed"):
        rates[0].reserve_sync(0.0)


@pytest.mark.parametrize("form", ["sync", "async"])
def test_an_engine_that_is_closed_during_a_call_ends_it(url, form):
    blocking = Engine(url).blocking()
    engine = blocking.open()
    rate = engine.shared_rate("gemini", TWO)
    asked, errors = threading.Event(), []

    async def never(*_, **__):
        asked.set()
        await asyncio.Event().wait()

    engine._client.store.reserve_start = never

    def call():
        try:
            rate.reserve_sync(0.0) if form == "sync" else asyncio.run(rate.reserve(0.0))
        except StoreClosed as error:
            errors.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    assert asked.wait(60)
    blocking.close()
    thread.join()
    assert errors == ["the engine was closed during this call"]


def test_rates_of_one_engine_and_name_are_equal(url):
    engine, other = Engine(url), Engine(url)
    assert engine.shared_rate("a", TWO) == engine.shared_rate("a", TWO)
    assert engine.shared_rate("a", TWO) != engine.shared_rate("b", TWO)
    assert engine.shared_rate("a", TWO) != other.shared_rate("a", TWO)
    assert "store" not in repr(engine.shared_rate("a", TWO))


@pytest.mark.parametrize(("name", "limit"), [("", TWO), (7, TWO), ("a", 100), ("a", None)])
def test_a_wrong_name_or_limit_is_refused(url, name, limit):
    with pytest.raises((TypeError, ValueError), match=r"name|limit"):
        Engine(url).shared_rate(name, limit)


def test_many_threads_together_keep_to_the_rate(url):
    with Engine(url).blocking() as engine:
        rate = engine.shared_rate("gemini", RateLimit(per_minute=20))
        waits = []

        def reserve():
            waits.extend(rate.reserve_sync(0.0) for _ in range(5))

        threads = [threading.Thread(target=reserve) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (len(waits), waits.count(0)) == (40, 20)


def test_handlers_and_other_engines_share_a_rate_by_its_name(url):
    app = App("calls")

    @app.job()
    async def take(ctx: JobContext) -> float:
        return await ctx.shared_rate("gemini", TWO).reserve(0.0)

    async def scenario():
        async with Engine(url, apps=[app]) as engine:
            outside = await engine.shared_rate("gemini", TWO).reserve(0.0)
            jobs = [await engine.enqueue(take) for _ in range(2)]
            await engine.work(until_idle=True)
            return outside, sorted([await engine.result(job) for job in jobs])

    outside, (first, second) = asyncio.run(scenario())
    assert (outside, first) == (0, 0)
    assert second > 50
