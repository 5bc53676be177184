"""A rate that is counted outside of the process is asked before every attempt."""

import asyncio
import threading

import pytest

from holdfast import Exponential, RateLimit, RetryPolicy, RetryService, StopReason
from holdfast.errors import DeadlineExceeded, RateLimitedError
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.testing import VirtualClock

BACKOFF = Exponential(base=1, multiplier=1, cap=10, jitter=0)


class ScriptedRate:
    """Answers with the given waits, or raises the given errors."""

    limit = RateLimit(per_minute=1)

    def __init__(self, *answers, never=False):
        self.answers = list(answers)
        self.asked = []
        self.never = never

    def reserve_sync(self, longest):
        self.asked.append(longest)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def reserve(self, longest):
        if self.never:
            await asyncio.Event().wait()
        return self.reserve_sync(longest)


@pytest.fixture(params=["async", "sync"])
def execute(request):
    """Run an operation that fails so many times, and return the result and what it slept."""

    def run(rate, failures=0, **options):
        clock = VirtualClock()
        service = RetryService(clock=clock)
        policy = RetryPolicy(rate=rate, backoff=BACKOFF, **options)
        left = [OSError("down")] * failures

        def operation():
            if left:
                raise left.pop()
            return "done"

        async def operation_async():
            return operation()

        if request.param == "sync":
            return service.execute_sync(operation, policy, "call"), clock.sleeps
        return clock.run(service.execute(operation_async, policy, "call")), clock.sleeps

    return run


def test_an_attempt_waits_for_its_place(execute):
    result, sleeps = execute(ScriptedRate(4.0))
    assert result.value == "done"
    assert sleeps == [4.0]


def test_every_attempt_takes_a_place_of_its_own(execute):
    rate = ScriptedRate(0.0, 2.0, 0.0)
    result, sleeps = execute(rate, failures=2)
    assert (result.value, result.attempts) == ("done", 3)
    assert sleeps == [1.0, 2.0, 1.0]
    assert rate.asked == [10.0] * 3


def test_a_wait_over_the_cap_ends_the_call_and_says_when_to_come_back(execute):
    result, sleeps = execute(ScriptedRate(86_400.0))
    assert result.stop_reason is StopReason.RATE_LIMIT
    assert isinstance(result.error, RateLimitedError)
    assert result.retry_at == VirtualClock().wall() + 86_400
    assert (result.attempts, sleeps) == (0, [])


def test_a_wait_over_the_deadline_ends_the_call_and_says_when_to_come_back(execute):
    rate = ScriptedRate(8.0)
    result, _ = execute(rate, deadline=5)
    assert result.stop_reason is StopReason.DEADLINE
    assert result.retry_at == VirtualClock().wall() + 8
    assert rate.asked == [5.0]


def test_the_error_of_the_attempt_before_is_kept_where_there_is_no_place(execute):
    result, _ = execute(ScriptedRate(0.0, 99.0), failures=1)
    assert result.stop_reason is StopReason.RATE_LIMIT
    assert isinstance(result.error, OSError)


def test_where_the_count_cannot_be_had_no_attempt_is_made(execute):
    result, _ = execute(ScriptedRate(RuntimeError("no store")))
    assert result.stop_reason is StopReason.RATE_LIMIT
    assert (str(result.error), result.attempts) == ("no store", 0)


def test_a_count_without_an_answer_is_cut_by_the_deadline():
    clock = VirtualClock()
    policy = RetryPolicy(rate=ScriptedRate(never=True), deadline=3)
    work = RetryService(clock=clock).execute(lambda: asyncio.sleep(0), policy, "call")
    result = clock.run(work)
    assert result.stop_reason is StopReason.DEADLINE
    assert isinstance(result.error, DeadlineExceeded)
    assert clock.monotonic() == 3


def test_a_blocking_count_without_an_answer_is_cut_by_the_deadline():
    released = threading.Event()

    class Silent(ScriptedRate):
        def reserve_sync(self, longest):
            released.wait(60)
            return 0.0

    policy = RetryPolicy(rate=Silent(), deadline=0.05)
    result = RetryService().execute_sync(lambda: None, policy, "call")
    released.set()
    assert (result.stop_reason, result.attempts) == (StopReason.DEADLINE, 0)


def test_calls_of_one_name_share_one_external_rate():
    service = RetryService(clock=VirtualClock())
    rate = ScriptedRate(0.0, 0.0)
    service.execute_sync(lambda: 1, RetryPolicy(rate=rate), "call")
    service.execute_sync(lambda: 1, RetryPolicy(), "call")
    assert len(rate.asked) == 2
    with pytest.raises(ValueError, match="rate of 'call' is already"):
        service.execute_sync(lambda: 1, RetryPolicy(rate=ScriptedRate(0.0)), "call")


def test_a_rate_of_another_type_is_refused():
    with pytest.raises(TypeError, match="rate must be a RateLimit"):
        RetryPolicy(rate=100)


def test_a_rate_that_cannot_be_hashed_is_refused():
    class Unhashable(ScriptedRate):
        __hash__ = None

    with pytest.raises(TypeError, match="rate"):
        RetryPolicy(rate=Unhashable())


def test_a_downstream_of_jobs_takes_no_external_rate():
    policy = RetryPolicy(rate=ScriptedRate())
    with pytest.raises(TypeError, match="the store counts a downstream's rate"):
        Downstream("gemini").under(policy)
