"""Shared limits of the calls of one name: rate, retry budget, concurrency, abandoned threads."""

import asyncio
import threading
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.clock import SYSTEM_CLOCK, CallCutOff
from holdfast.resilience.limits import (
    AbandonedThreads,
    ConcurrencyGate,
    RateLimiter,
    RetryBudgetMeter,
)
from holdfast.resilience.policy import ConcurrencyLimit, RateLimit, RetryBudget

INFINITE = float("inf")
SECOND, MINUTE, DAY = 1.0, 60.0, 86_400.0


# -- the rate ----------------------------------------------------------------------------------


def test_starts_within_the_rate_do_not_wait():
    rate = RateLimiter(RateLimit(per_minute=3))
    assert [rate.reserve(0.0, INFINITE) for _ in range(3)] == [0, 0, 0]


def test_the_start_beyond_the_rate_waits_until_the_first_is_a_minute_old():
    rate = RateLimiter(RateLimit(per_minute=2))
    rate.reserve(0.0, INFINITE)
    rate.reserve(10.0, INFINITE)
    assert rate.reserve(15.0, INFINITE) == 45
    assert rate.reserve(15.0, INFINITE) == 55
    assert rate.reserve(15.0, INFINITE) == 105


def test_a_window_slides_and_does_not_reset_on_the_minute():
    rate = RateLimiter(RateLimit(per_minute=2))
    assert [rate.reserve(59.0, INFINITE) for _ in range(2)] == [0, 0]
    assert rate.reserve(61.0, INFINITE) == 58


def test_a_day_is_counted_beside_the_minute():
    rate = RateLimiter(RateLimit(per_minute=2, per_day=3))
    assert [rate.reserve(0.0, INFINITE) for _ in range(3)] == [0, 0, MINUTE]
    assert rate.reserve(120.0, INFINITE) == DAY - 120


def test_a_second_is_counted_beside_the_minute():
    rate = RateLimiter(RateLimit(per_second=2, per_minute=3))
    assert [rate.reserve(0.0, INFINITE) for _ in range(3)] == [0, 0, SECOND]
    assert rate.reserve(0.0, INFINITE) == MINUTE


def test_spread_starts_are_evenly_spaced():
    rate = RateLimiter(RateLimit(per_minute=30, spread=True))
    assert [rate.reserve(0.0, INFINITE) for _ in range(4)] == [0, 2, 4, 6]
    assert rate.reserve(100.0, INFINITE) == 0
    assert rate.reserve(100.5, INFINITE) == 1.5


def test_starts_are_spread_over_the_shortest_period():
    limit = RateLimit(per_second=4, per_day=5, spread=True)
    assert (limit.gap, RateLimit(per_second=4).gap) == (0.25, 0.0)
    rate = RateLimiter(limit)
    assert [rate.reserve(0.0, INFINITE) for _ in range(6)] == [0, 0.25, 0.5, 0.75, 1.0, DAY]


def test_a_spread_start_that_is_too_late_takes_no_place():
    rate = RateLimiter(RateLimit(per_minute=30, spread=True))
    rate.reserve(0.0, INFINITE)
    assert [rate.reserve(0.0, 1.9) for _ in range(3)] == [2] * 3
    assert rate.reserve(0.0, 2.0) == 2


def test_a_wait_that_is_too_long_takes_no_place():
    rate = RateLimiter(RateLimit(per_minute=1))
    rate.reserve(0.0, INFINITE)
    assert [rate.reserve(0.0, 59.9) for _ in range(5)] == [60] * 5
    assert rate.reserve(0.0, 60.0) == 60


def test_a_start_released_early_goes_to_the_next_caller():
    rate = RateLimiter(RateLimit(per_minute=1))
    rate.reserve(0.0, INFINITE)
    wait = rate.reserve(0.0, INFINITE)
    rate.release(0.0 + wait)
    assert rate.reserve(10.0, INFINITE) == 50
    assert rate.reserve(10.0, INFINITE) == 110


def test_a_start_released_too_late_is_not_used():
    rate = RateLimiter(RateLimit(per_minute=1))
    rate.reserve(0.0, INFINITE)
    rate.release(0.0)
    assert rate.reserve(10.0, INFINITE) == 50


def test_a_released_start_is_refused_if_it_is_too_far_away():
    rate = RateLimiter(RateLimit(per_minute=1))
    rate.reserve(0.0, INFINITE)
    rate.release(rate.reserve(0.0, INFINITE))
    assert rate.reserve(0.0, 5.0) == 60
    assert rate.reserve(0.0, INFINITE) == 60, "the refused caller took the place"


@given(
    st.integers(1, 5),
    st.integers(1, 12) | st.none(),
    st.lists(
        st.tuples(st.floats(0, 200), st.booleans(), st.sampled_from([0.0, 5.0, 90.0, INFINITE])),
        max_size=60,
    ),
)
def test_no_window_ever_holds_more_starts_than_the_limit(per_minute, per_day, callers):
    rate = RateLimiter(RateLimit(per_minute=per_minute, per_day=per_day))
    now, starts = 0.0, []
    for gap, cancelled, longest in callers:
        now += gap
        wait = rate.reserve(now, longest)
        assert wait >= 0
        if wait > longest:
            continue
        if cancelled:
            rate.release(now + wait)
        else:
            starts.append(now + wait)
    starts.sort()
    for period, limit in ((MINUTE, per_minute), (DAY, per_day)):
        if limit is not None:
            for first, beyond in zip(starts, starts[limit:], strict=False):
                assert beyond - first >= period - 1e-6


@given(st.integers(1, 4), st.lists(st.floats(0, 30), min_size=1, max_size=40))
def test_no_start_waits_longer_than_the_limit_demands(per_minute, gaps):
    rate = RateLimiter(RateLimit(per_minute=per_minute))
    now, starts = 0.0, deque[float](maxlen=per_minute)
    for gap in gaps:
        now += gap
        start = now + rate.reserve(now, INFINITE)
        full = len(starts) == per_minute
        assert start == pytest.approx(max(now, starts[0] + MINUTE) if full else now)
        starts.append(start)


def test_threads_that_reserve_at_once_share_the_limit_exactly():
    rate = RateLimiter(RateLimit(per_minute=100))
    waits: list[float] = []
    barrier = threading.Barrier(8)

    def reserve():
        barrier.wait()
        waits.extend(rate.reserve(0.0, INFINITE) for _ in range(50))

    _run_threads([reserve] * 8)
    assert sorted(waits) == [0.0] * 100 + [60.0] * 100 + [120.0] * 100 + [180.0] * 100


# -- the retry budget --------------------------------------------------------------------------


def test_the_floor_is_always_allowed():
    meter = RetryBudgetMeter(RetryBudget(share=0.2, floor=3, window=10))
    assert [meter.try_spend(0.0) for _ in range(5)] == [True, True, True, False, False]


def test_beyond_the_floor_retries_are_a_share_of_the_calls():
    meter = RetryBudgetMeter(RetryBudget(share=0.2, floor=0, window=10))
    for _ in range(50):
        meter.count_call(1.0)
    assert sum(meter.try_spend(1.0) for _ in range(50)) == 10


def test_floor_and_share_are_not_added_up():
    meter = RetryBudgetMeter(RetryBudget(share=0.1, floor=4, window=10))
    for _ in range(100):
        meter.count_call(0.0)
    assert sum(meter.try_spend(0.0) for _ in range(50)) == 10


def test_a_budget_of_nothing_allows_no_retry():
    meter = RetryBudgetMeter(RetryBudget(share=0, floor=0))
    meter.count_call(0.0)
    assert not meter.try_spend(0.0)


def test_a_spent_budget_is_restored_after_the_window():
    meter = RetryBudgetMeter(RetryBudget(share=0, floor=1, window=10))
    assert meter.try_spend(0.0)
    assert not meter.try_spend(9.0)
    assert meter.try_spend(10.0)


def test_calls_older_than_the_window_earn_nothing():
    meter = RetryBudgetMeter(RetryBudget(share=0.5, floor=0, window=10))
    for _ in range(10):
        meter.count_call(0.0)
    assert not meter.try_spend(10.0)


# -- turns -------------------------------------------------------------------------------------


class _Holder:
    """A caller that has a turn or waits for one."""


HOLDERS = [_Holder() for _ in range(4)]


def test_at_most_the_limit_enters():
    gate = ConcurrencyGate(ConcurrencyLimit(2))
    assert [gate.try_enter(holder) for holder in HOLDERS] == [True, True, False, False]
    gate.leave(HOLDERS[0])
    assert gate.try_enter(HOLDERS[3])
    assert gate.running == 2


def test_waiters_get_the_turn_in_the_order_of_arrival():
    gate = ConcurrencyGate(ConcurrencyLimit(1))
    first = _Holder()
    assert gate.try_enter(first)
    woken: list[int] = []
    for number, holder in enumerate(HOLDERS):
        gate.queue(holder, lambda number=number: woken.append(number))
    for leaving, expected in zip(
        [first, *HOLDERS], ([0], [0, 1], [0, 1, 2], [0, 1, 2, 3]), strict=False
    ):
        gate.leave(leaving)
        assert woken == expected
    gate.leave(HOLDERS[3])
    assert gate.running == 0


def test_a_new_caller_does_not_overtake_waiting_ones():
    gate = ConcurrencyGate(ConcurrencyLimit(1))
    gate.try_enter(HOLDERS[0])
    first = gate.queue(HOLDERS[1], lambda: None)
    gate.leave(HOLDERS[0])
    assert first.granted
    assert not gate.try_enter(HOLDERS[2])


def test_a_free_turn_is_granted_to_a_ticket_at_once():
    gate = ConcurrencyGate(ConcurrencyLimit(1))
    woken: list[bool] = []
    assert gate.queue(HOLDERS[0], lambda: woken.append(True)).granted
    assert woken == [True]
    assert gate.running == 1


def test_a_withdrawn_ticket_is_skipped():
    gate = ConcurrencyGate(ConcurrencyLimit(1))
    gate.try_enter(HOLDERS[0])
    impatient, patient = (gate.queue(holder, lambda: None) for holder in HOLDERS[1:3])
    assert gate.withdraw(impatient)
    gate.leave(HOLDERS[0])
    assert (impatient.granted, patient.granted) == (False, True)


def test_a_granted_ticket_cannot_be_withdrawn():
    gate = ConcurrencyGate(ConcurrencyLimit(1))
    ticket = gate.queue(HOLDERS[0], lambda: None)
    assert not gate.withdraw(ticket)
    assert gate.running == 1


def test_giving_up_a_granted_ticket_passes_the_turn_on():
    gate = ConcurrencyGate(ConcurrencyLimit(1))
    given_up, heir = (gate.queue(holder, lambda: None) for holder in HOLDERS[:2])
    assert given_up.granted
    gate.give_up(HOLDERS[0])
    assert heir.granted
    gate.give_up(HOLDERS[1])
    assert gate.running == 0


def test_ending_a_turn_twice_frees_no_other():
    gate = ConcurrencyGate(ConcurrencyLimit(2))
    assert gate.try_enter(HOLDERS[0])
    assert gate.try_enter(HOLDERS[1])
    gate.leave(HOLDERS[0])
    gate.leave(HOLDERS[0])
    gate.leave(HOLDERS[2])
    assert gate.running == 1
    assert gate.try_enter(HOLDERS[3])
    assert not gate.try_enter(HOLDERS[0])


def test_giving_up_a_place_in_the_line_keeps_the_others_in_order():
    gate = ConcurrencyGate(ConcurrencyLimit(1))
    gate.try_enter(HOLDERS[0])
    tickets = [gate.queue(holder, lambda: None) for holder in HOLDERS[1:]]
    gate.give_up(HOLDERS[1])
    gate.leave(HOLDERS[0])
    assert [ticket.granted for ticket in tickets] == [False, True, False]


def test_a_signal_handler_in_the_middle_of_granting_does_not_overtake():
    gate = ConcurrencyGate(ConcurrencyLimit(1))
    first, second, newcomer, last = HOLDERS
    gate.try_enter(first)
    entered: list[bool] = []

    def wake():
        if not entered:
            entered.append(True)
            entered.append(gate.try_enter(newcomer))

    tickets = gate.queue(second, wake), gate.queue(last, lambda: None)
    gate.leave(first)
    assert entered == [True, False]
    assert [ticket.granted for ticket in tickets] == [True, False]
    gate.leave(second)
    assert [ticket.granted for ticket in tickets] == [True, True]


def test_threads_and_tasks_share_one_limit():
    gate = ConcurrencyGate(ConcurrencyLimit(3))
    lock = threading.Lock()
    inside = most = done = 0

    def enter():
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)

    def leave(holder):
        nonlocal inside, done
        with lock:
            inside -= 1
            done += 1
        gate.leave(holder)

    def in_a_thread():
        for _ in range(20):
            holder = _Holder()
            if not gate.try_enter(holder):
                granted = threading.Event()
                gate.queue(holder, granted.set)
                assert granted.wait(5)
            enter()
            leave(holder)

    async def in_a_task():
        loop = asyncio.get_running_loop()
        for _ in range(20):
            holder = _Holder()
            if not gate.try_enter(holder):
                granted = asyncio.Event()
                gate.queue(holder, lambda granted=granted: loop.call_soon_threadsafe(granted.set))
                await asyncio.wait_for(granted.wait(), 5)
            enter()
            await asyncio.sleep(0)
            leave(holder)

    async def many_tasks():
        await asyncio.gather(*(in_a_task() for _ in range(4)))

    _run_threads([in_a_thread] * 4 + [lambda: asyncio.run(many_tasks())])
    assert done == 160
    assert gate.running == 0
    assert 1 < most <= 3


def _run_threads(targets):
    errors: list[BaseException] = []

    def guarded(target):
        try:
            target()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert errors == []
    assert not any(thread.is_alive() for thread in threads)


# -- threads left behind -----------------------------------------------------------------------


def _wait_for(condition):
    for _ in range(30_000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it did not happen within 30 s")


def test_a_call_that_ends_in_time_leaves_no_thread():
    abandoned = AbandonedThreads(1)
    assert abandoned.call_within(SYSTEM_CLOCK, 30, lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        abandoned.call_within(SYSTEM_CLOCK, 30, lambda: 1 / 0)
    assert (abandoned.count, abandoned.full) == (0, False)


def test_a_call_over_its_time_is_counted_until_it_returns():
    abandoned, release = AbandonedThreads(2), threading.Event()
    while abandoned.count < 2:  # on a busy machine the time may pass before the call begins
        assert not abandoned.full
        with pytest.raises(CallCutOff):
            abandoned.call_within(SYSTEM_CLOCK, 0.02, release.wait)
    assert abandoned.full
    release.set()
    _wait_for(lambda: abandoned.count == 0)
    assert not abandoned.full


def test_a_call_that_could_not_be_started_is_not_counted():
    class NoThreads:
        def call_within(self, seconds, operation):
            raise RuntimeError("can't start new thread")

    abandoned = AbandonedThreads(1)
    with pytest.raises(RuntimeError):
        abandoned.call_within(NoThreads(), 5, int)  # type: ignore[arg-type]
    assert abandoned.count == 0


def test_a_call_whose_caller_has_left_before_it_began_never_runs():
    handed_over = []

    class LateClock:
        def call_within(self, seconds, operation):
            handed_over.append(operation)
            raise CallCutOff

    abandoned, ran = AbandonedThreads(1), []
    with pytest.raises(CallCutOff):
        abandoned.call_within(LateClock(), 5, lambda: ran.append(1))  # type: ignore[arg-type]
    with pytest.raises(CallCutOff):
        handed_over[0]()
    assert (ran, abandoned.count) == ([], 0)
