from __future__ import annotations

import asyncio
import threading
import time

import pytest

from holdfast.clock import SYSTEM_CLOCK, CallCutOff, Clock, SystemClock
from holdfast.testing import VirtualClock


def test_both_clocks_are_clocks():
    clocks: list[Clock] = [SYSTEM_CLOCK, VirtualClock()]  # what mypy checks of this is the test
    assert all(isinstance(clock.monotonic(), float) for clock in clocks)


def test_the_system_clock_reads_the_time_without_a_python_frame():
    assert SystemClock().monotonic is time.monotonic
    assert SystemClock().wall is time.time


def test_a_sleep_lasts_at_least_as_long_as_asked():
    before = SYSTEM_CLOCK.monotonic()
    SYSTEM_CLOCK.sleep(0.005)
    assert SYSTEM_CLOCK.monotonic() - before >= 0.005


def test_an_async_sleep_lasts_as_long_as_asked():
    async def main() -> float:
        before = SYSTEM_CLOCK.monotonic()
        await SYSTEM_CLOCK.sleep_async(0.005)
        return SYSTEM_CLOCK.monotonic() - before

    # The loop may fire a timer early by the resolution of its clock.
    assert asyncio.run(main()) >= 0.0049


@pytest.mark.parametrize("seconds", [0, -1, -0.001])
def test_a_sleep_of_nothing_or_less_returns_at_once(seconds):
    SYSTEM_CLOCK.sleep(seconds)
    asyncio.run(SYSTEM_CLOCK.sleep_async(seconds))


def test_a_call_within_its_limit_returns_its_value():
    assert SYSTEM_CLOCK.call_within(5, lambda: "value") == "value"


def test_a_call_that_takes_too_long_is_cut_off():
    stop = threading.Event()
    with pytest.raises(CallCutOff, match=r"after 0\.01 s"):
        SYSTEM_CLOCK.call_within(0.01, stop.wait)
    stop.set()


def test_a_cut_off_differs_from_the_operations_own_timeout():
    def operation() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine") as caught:
        SYSTEM_CLOCK.call_within(5, operation)
    assert not isinstance(caught.value, CallCutOff)
    assert issubclass(CallCutOff, TimeoutError)
