from __future__ import annotations

import asyncio
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.clock import CallCutOff
from holdfast.testing import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


class TestTime:
    def test_it_starts_at_the_given_time_and_does_not_advance(self):
        clock = VirtualClock(start_wall=1000.0, start=5.0)
        assert (clock.wall(), clock.monotonic()) == (1000.0, 5.0)
        assert (clock.wall(), clock.monotonic()) == (1000.0, 5.0)

    def test_two_clocks_start_at_the_same_time(self):
        assert VirtualClock().wall() == VirtualClock().wall()

    def test_a_sleep_moves_both_times_and_is_recorded(self, clock):
        wall = clock.wall()
        clock.sleep(2.5)
        clock.sleep(0.5)
        assert clock.monotonic() == 3.0
        assert clock.wall() == wall + 3.0
        assert clock.sleeps == [2.5, 0.5]

    @pytest.mark.parametrize("seconds", [0, -1, -math.inf])
    def test_a_sleep_of_zero_or_less_changes_nothing_but_is_recorded(self, clock, seconds):
        clock.sleep(seconds)
        assert clock.monotonic() == 0.0
        assert clock.sleeps == [seconds]

    @pytest.mark.parametrize("seconds", [math.inf, math.nan])
    def test_a_sleep_that_never_ends_is_refused(self, clock, seconds):
        with pytest.raises(ValueError, match="never ends"):
            clock.sleep(seconds)
        assert clock.monotonic() == 0.0

    def test_advancing_moves_time_without_a_sleep(self, clock):
        clock.advance(2)
        clock.advance_to(10)
        clock.advance_to(10)
        assert clock.monotonic() == 10.0
        assert clock.sleeps == []

    @pytest.mark.parametrize("seconds", [-0.1, math.inf, math.nan])
    def test_time_cannot_be_advanced_backwards_or_for_ever(self, clock, seconds):
        with pytest.raises(ValueError, match="seconds"):
            clock.advance(seconds)

    @pytest.mark.parametrize("moment", [9.9, math.inf, math.nan])
    def test_time_cannot_be_advanced_to_the_past_or_the_end_of_time(self, clock, moment):
        clock.advance(10)
        with pytest.raises(ValueError, match=r"10\.0"):
            clock.advance_to(moment)
        assert clock.monotonic() == 10.0

    def test_the_wall_clock_can_be_corrected_without_time_passing(self, clock):
        wall = clock.wall()
        clock.step_wall(-3600)
        assert (clock.wall(), clock.monotonic()) == (wall - 3600, 0.0)

    def test_a_million_seconds_of_sleep_take_no_time(self, clock):
        began = time.perf_counter()
        for _ in range(1000):
            clock.sleep(1000)
        assert clock.monotonic() == 1_000_000
        assert time.perf_counter() - began < 60

    def test_sleeps_of_many_threads_add_up_in_any_order(self, clock):
        def sleeper() -> bool:
            before = clock.monotonic()
            for _ in range(100):
                clock.sleep(1)
            return clock.monotonic() >= before + 100

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(lambda _: sleeper(), range(8)))
        assert clock.monotonic() == 800
        assert clock.sleeps == [1] * 800

    def test_its_repr_shows_both_times(self):
        assert repr(VirtualClock(10.0, 2.0)) == "VirtualClock(monotonic=2.0, wall=10.0)"


class TestCallWithin:
    def test_the_operation_runs_on_the_calling_thread(self, clock):
        assert clock.call_within(1, threading.current_thread) is threading.current_thread()

    def test_a_sleep_past_the_cut_off_stops_exactly_there(self, clock):
        went_on: list[bool] = []

        def operation() -> None:
            clock.sleep(3)
            clock.sleep(100)
            went_on.append(True)

        with pytest.raises(CallCutOff, match="after 5 s"):
            clock.call_within(5, operation)
        assert clock.monotonic() == 5.0
        assert went_on == []
        assert clock.sleeps == [3, 100]

    def test_a_sleep_that_ends_before_the_cut_off_is_not_interrupted(self, clock):
        assert clock.call_within(5, lambda: clock.sleep(4.999) or "value") == "value"

    def test_the_cut_off_wins_a_tie_as_it_does_in_asyncio(self, clock):
        with pytest.raises(CallCutOff):
            clock.call_within(5, lambda: clock.sleep(5))

        async def main() -> None:
            async with asyncio.timeout(5):
                await clock.sleep_async(5)

        with pytest.raises(TimeoutError):
            clock.run(main())
        assert clock.monotonic() == 10.0

    def test_an_endless_sleep_is_cut_off(self, clock):
        with pytest.raises(CallCutOff):
            clock.call_within(5, lambda: clock.sleep(math.inf))
        assert clock.monotonic() == 5.0

    def test_a_later_call_is_not_bound_by_an_earlier_cut_off(self, clock):
        clock.call_within(5, lambda: clock.sleep(1))
        clock.sleep(50)
        assert clock.monotonic() == 51.0

    def test_the_earliest_of_nested_cut_offs_applies(self, clock):
        def outer() -> str:
            with pytest.raises(CallCutOff, match="after 2 s"):
                clock.call_within(2, lambda: clock.sleep(60))
            clock.sleep(1)
            return "went on"

        assert clock.call_within(10, outer) == "went on"
        assert clock.monotonic() == 3.0

    @pytest.mark.parametrize("inner_seconds", [60, 5])
    def test_an_outer_cut_off_passes_through_the_inner_call(self, clock, inner_seconds):
        inner_saw: list[bool] = []

        def outer() -> None:
            try:
                clock.call_within(inner_seconds, lambda: clock.sleep(100))
            except CallCutOff:
                inner_saw.append(True)

        with pytest.raises(CallCutOff, match="after 5 s"):
            clock.call_within(5, outer)
        assert clock.monotonic() == 5.0
        assert inner_saw == []

    def test_clean_up_may_sleep_while_the_operation_unwinds(self, clock):
        def operation() -> None:
            try:
                clock.sleep(100)
            finally:
                clock.sleep(2)

        with pytest.raises(CallCutOff):
            clock.call_within(5, operation)
        assert clock.monotonic() == 7.0

    def test_an_operation_that_swallows_the_cut_is_late(self, clock):
        def operation() -> str:
            try:
                clock.sleep(100)
            except BaseException:
                return "swallowed"
            return "not cut"

        with pytest.raises(CallCutOff):
            clock.call_within(5, operation)

    def test_late_is_late_even_without_a_sleep(self, clock):
        with pytest.raises(CallCutOff):
            clock.call_within(5, lambda: clock.advance(5))
        assert clock.call_within(5, lambda: clock.advance(4.9)) is None

    def test_a_late_error_becomes_the_cause_of_the_cut(self, clock):
        error = ConnectionError("too late")

        def operation() -> None:
            clock.advance(6)
            raise error

        with pytest.raises(CallCutOff) as caught:
            clock.call_within(5, operation)
        assert caught.value.__cause__ is error

    def test_an_error_in_time_is_raised_as_it_is(self, clock):
        def operation() -> None:
            clock.sleep(1)
            raise TimeoutError("mine")

        with pytest.raises(TimeoutError, match="mine") as caught:
            clock.call_within(5, operation)
        assert not isinstance(caught.value, CallCutOff)

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_an_interruption_passes_even_late(self, clock, error):
        def operation() -> None:
            clock.advance(6)
            raise error

        with pytest.raises(error):
            clock.call_within(5, operation)

    @pytest.mark.parametrize("seconds", [0, -1])
    def test_with_no_time_left_the_operation_is_not_started(self, clock, seconds):
        started: list[bool] = []
        with pytest.raises(CallCutOff, match="before it began"):
            clock.call_within(seconds, lambda: started.append(True))
        assert started == []

    def test_a_duration_of_nan_is_refused(self, clock):
        with pytest.raises(ValueError, match="nan"):
            clock.call_within(math.nan, lambda: None)

    def test_the_cut_off_of_one_thread_is_not_that_of_another(self, clock):
        def operation() -> str:
            sleeper = threading.Thread(target=clock.sleep, args=(3,))
            sleeper.start()
            sleeper.join()
            return "in time"

        assert clock.call_within(5, operation) == "in time"
        with pytest.raises(CallCutOff):
            clock.call_within(2, operation)
        assert clock.monotonic() == 6.0

    def test_a_loop_inside_is_cut_off_and_cleaned_up(self, clock):
        cancelled: list[float] = []

        async def main() -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                cancelled.append(clock.monotonic())
                raise

        with pytest.raises(CallCutOff):
            clock.call_within(5, lambda: clock.run(main()))
        assert cancelled == [5.0]


class TestSleepAsync:
    def test_it_suspends_on_a_loop_of_this_clock(self, clock):
        order: list[str] = []

        async def sleeper(name: str, seconds: float) -> None:
            await clock.sleep_async(seconds)
            order.append(name)

        async def main() -> None:
            await asyncio.gather(sleeper("late", 2), sleeper("early", 1))

        clock.run(main())
        assert order == ["early", "late"]
        assert clock.monotonic() == 2.0
        assert clock.sleeps == [2, 1]

    def test_on_a_foreign_loop_it_moves_time_and_yields(self, clock):
        other_ran: list[float] = []

        async def main() -> None:
            asyncio.get_running_loop().call_soon(lambda: other_ran.append(clock.monotonic()))
            await clock.sleep_async(30)
            assert other_ran == [30.0]
            await clock.sleep_async(-1)

        asyncio.run(main())
        assert clock.monotonic() == 30.0
        assert clock.sleeps == [30, -1]

    def test_the_loop_of_another_virtual_clock_is_foreign(self, clock):
        other = VirtualClock()
        other.run(clock.sleep_async(30))
        assert (clock.monotonic(), other.monotonic()) == (30.0, 0.0)


@pytest.mark.parametrize("io_grace", [-1, math.nan])
def test_a_grace_below_zero_is_refused(io_grace):
    with pytest.raises(ValueError, match="io_grace"):
        VirtualClock(io_grace=io_grace)
