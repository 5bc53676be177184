from __future__ import annotations

import asyncio
import random
import socket
import threading
import time

import pytest

from holdfast.testing import VirtualClock, seeded_rng


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_sleeps_timeouts_and_timers_are_virtual(clock):
    rang: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(3, lambda: rang.append(loop.time()))
        await asyncio.sleep(5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.sleep(60)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 100)

    clock.run(main())
    assert rang == [3.0]
    assert clock.monotonic() == 115.0
    assert clock.sleeps == []


def test_a_thousand_concurrent_tasks_take_the_time_of_one(clock):
    async def main() -> None:
        await asyncio.gather(*(asyncio.sleep(1) for _ in range(1000)))

    clock.run(main())
    assert clock.monotonic() == 1.0


def test_a_million_seconds_pass_in_no_time(clock):
    async def main() -> None:
        for _ in range(1000):
            await asyncio.sleep(1000)
        await asyncio.sleep(1_000_000)  # far beyond the longest wait asyncio asks of a selector

    began = time.perf_counter()
    clock.run(main())
    assert clock.monotonic() == 2_000_000
    assert time.perf_counter() - began < 60


@pytest.mark.parametrize("start", [0.0, 1e6, 1e9, 1e12])
def test_a_sleep_never_ends_early(start):
    clock = VirtualClock(start=start)

    async def main() -> None:
        rng = seeded_rng(int(start))
        for _ in range(200):
            target = clock.monotonic() + (seconds := rng.uniform(1e-9, 3))
            await asyncio.sleep(seconds)
            assert clock.monotonic() >= target

    clock.run(main())


def test_time_stops_at_each_timer_exactly(clock):
    seen: list[float] = []

    async def main() -> None:
        for seconds in (0.1, 0.2, 0.3, 0.7):
            asyncio.get_running_loop().call_at(seconds, lambda: seen.append(clock.monotonic()))
        await asyncio.sleep(1)

    clock.run(main())
    assert seen == [0.1, 0.2, 0.3, 0.7]


def test_a_cancelled_timer_is_not_jumped_to(clock):
    async def main() -> None:
        async with asyncio.timeout(1000):
            await asyncio.sleep(1)
        await asyncio.sleep(1)

    clock.run(main())
    assert clock.monotonic() == 2.0


def test_a_blocking_sleep_inside_a_task_makes_timers_due(clock):
    async def main() -> float:
        timer = asyncio.create_task(asyncio.sleep(5))
        await asyncio.sleep(0)
        clock.sleep(20)
        await timer
        return clock.monotonic()

    assert clock.run(main()) == 20.0


def test_the_same_seed_gives_the_same_trace():
    def trace(seed: int) -> list[tuple[float, int]]:
        clock, rng = VirtualClock(), seeded_rng(seed)
        events: list[tuple[float, int]] = []

        async def wander(number: int, rng: random.Random) -> None:
            for _ in range(20):
                await clock.sleep_async(rng.choice([0.5, 1, rng.random()]))
                events.append((clock.monotonic(), number))

        async def main() -> None:
            await asyncio.gather(*(wander(number, rng) for number in range(20)))

        clock.run(main())
        return events

    assert trace(1) == trace(1)
    assert trace(1) != trace(2)


def test_time_does_not_advance_while_a_thread_works(clock):
    def work() -> str:
        time.sleep(0.02)
        return "worked"

    async def main() -> None:
        async with asyncio.timeout(5):
            assert await asyncio.to_thread(work) == "worked"
        assert clock.monotonic() == 0.0
        await asyncio.sleep(3)

    clock.run(main())
    assert clock.monotonic() == 3.0


def test_time_moved_by_a_thread_fires_the_loops_timers(clock):
    """The loop waits for the thread, so it must be woken to see that its timer is due."""
    go_on = threading.Event()

    def work(jumper) -> bool:
        while not jumper.waiting:
            time.sleep(0.0001)
        clock.sleep(20)
        return go_on.wait(5)

    async def main() -> bool:
        loop = asyncio.get_running_loop()
        loop.call_later(10, go_on.set)
        return await asyncio.to_thread(work, loop._jumper)  # type: ignore[attr-defined]

    assert clock.run(main()) is True
    assert clock.monotonic() == 20.0


def test_a_timer_that_came_due_before_the_wait_is_not_missed(clock):
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert loop.run_in_executor(None, time.sleep, 0.01) is not None
        due = loop.create_future()

        def jump(_: object) -> None:
            clock.advance(2)

        loop.call_later(1, due.set_result, None)
        loop._jumper._loop = _MovesWhenAsked(loop, jump)  # type: ignore[attr-defined]
        await due
        assert clock.monotonic() == 2.0

    clock.run(main())


class _MovesWhenAsked:
    """A loop whose clock moves between the check and the wait."""

    def __init__(self, loop, move):
        self._loop, self._move = loop, move

    def next_timer(self):
        return self._loop.next_timer()

    def time(self):
        return self._loop.time()

    def skip_to(self, moment):
        self._move(moment)
        return False


def test_without_a_timer_the_loop_waits_for_other_threads(clock):
    async def main() -> str:
        loop = asyncio.get_running_loop()
        news: asyncio.Future[str] = loop.create_future()
        timer = threading.Timer(0.01, loop.call_soon_threadsafe, (news.set_result, "news"))
        timer.start()
        return await news

    assert clock.run(main()) == "news"
    assert clock.monotonic() == 0.0


def test_sockets_alone_are_waited_for_in_real_time(clock):
    async def main() -> bytes:
        left, right = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=left)
        timer = threading.Timer(0.01, right.sendall, (b"hello",))
        timer.start()
        data = await reader.readexactly(5)
        timer.join()
        writer.close()
        await writer.wait_closed()
        right.close()
        return data

    assert clock.run(main()) == b"hello"


@pytest.mark.parametrize(
    "io_grace, answer", [(0.0, b"timed out"), (5.0, b"hello")], ids=["no grace", "grace"]
)
def test_io_grace_lets_a_real_answer_arrive_before_a_virtual_timeout(io_grace, answer):
    clock = VirtualClock(io_grace=io_grace)

    async def main() -> bytes:
        left, right = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=left)
        timer = threading.Timer(0.02, right.sendall, (b"hello",))
        if io_grace:  # otherwise a busy machine might send it before the loop looks at its timers
            timer.start()
        try:
            async with asyncio.timeout(30):
                return await reader.readexactly(5)
        except TimeoutError:
            return b"timed out"
        finally:
            if io_grace:
                timer.join()
            writer.close()
            await writer.wait_closed()
            right.close()

    assert clock.run(main()) == answer
    assert clock.monotonic() == (0.0 if io_grace else 30.0)


def test_the_loop_factory_works_with_a_runner(clock):
    with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
        runner.run(asyncio.sleep(10))
        runner.run(asyncio.sleep(10))
    assert clock.monotonic() == 20.0


def test_a_closed_loop_is_not_notified_of_time(clock):
    clock.run(asyncio.sleep(1))
    clock.sleep(1)
    clock.advance(1)
    assert clock.monotonic() == 3.0
