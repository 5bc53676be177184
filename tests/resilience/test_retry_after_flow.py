"""Retry-After, from a real server through a real client to the next attempt."""

from datetime import UTC, datetime

import httpx
import pytest
import requests

from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import RetryPolicy
from holdfast.resilience.result import StopReason
from holdfast.resilience.service import RetryService
from holdfast.testing import ScriptedDownstream, VirtualClock
from holdfast.testing.downstream import ok, status

POLICY = RetryPolicy(backoff=Exponential(base=1, cap=60, jitter=0))


@pytest.fixture(scope="module")
def downstream():
    with ScriptedDownstream() as server:
        yield server


class _Caller:
    """Calls the scripted server under a policy, with one of the clients, on a virtual clock."""

    def __init__(self, kind: str, url: str) -> None:
        self.clock = VirtualClock()
        self.service = RetryService(clock=self.clock)
        self.attempts_at: list[float] = []
        self.kind, self.url = kind, url

    def _get(self) -> str:
        self.attempts_at.append(self.clock.wall())
        if self.kind == "requests":
            answer = requests.get(self.url, timeout=5)
            answer.raise_for_status()
            return answer.text
        found = httpx.get(self.url, timeout=5, verify=False, trust_env=False)
        found.raise_for_status()
        return found.text

    async def _get_async(self) -> str:
        self.attempts_at.append(self.clock.wall())
        async with httpx.AsyncClient(timeout=None, verify=False, trust_env=False) as client:
            answer = await client.get(self.url)
            answer.raise_for_status()
            return answer.text

    def call(self, policy: RetryPolicy = POLICY):
        if self.kind == "httpx async":
            return self.clock.run(self.service.execute(self._get_async, policy, "api"))
        return self.service.execute_sync(self._get, policy, "api")


@pytest.fixture(params=["httpx", "httpx async", "requests"])
def caller(request, downstream):
    return _Caller(request.param, downstream.url)


def test_retry_after_in_seconds_is_waited_exactly(caller, downstream):
    downstream.script(status(429, retry_after=7), ok(b"at last"))
    start = caller.clock.wall()
    result = caller.call()
    assert (result.value, result.attempts) == ("at last", 2)
    assert caller.attempts_at == [start, start + 7]
    assert result.history[0].delay == 7


def test_a_date_that_the_server_names_is_waited_for_and_never_come_before(caller, downstream):
    when = datetime.fromtimestamp(caller.clock.wall() + 13, UTC)
    downstream.script(status(503, retry_after=when), ok(b"at last"))
    result = caller.call()
    assert result.value == "at last"
    assert caller.attempts_at[1] >= when.timestamp()
    assert caller.attempts_at[1] == pytest.approx(when.timestamp(), abs=1.0)


def test_a_shorter_wait_does_not_shorten_the_backoff(caller, downstream):
    downstream.script(status(429, retry_after=2), ok(b"at last"))
    result = caller.call(RetryPolicy(backoff=Exponential(base=5, jitter=0)))
    assert [record.delay for record in result.history] == [5]


def test_retry_after_with_a_past_date_is_ignored(caller, downstream):
    past = datetime.fromtimestamp(caller.clock.wall() - 100, UTC)
    downstream.script(status(503, retry_after=past), ok(b"at last"))
    assert [record.delay for record in caller.call().history] == [1]


@pytest.mark.parametrize("as_date", [False, True])
def test_a_wait_beyond_the_cap_stops_with_the_time_of_the_retry(caller, downstream, as_date):
    wanted: float | datetime = 61
    if as_date:
        wanted = datetime.fromtimestamp(caller.clock.wall() + 61, UTC)
    downstream.script(status(429, retry_after=wanted), ok(b"never asked"))
    result = caller.call()
    assert (result.stop_reason, result.attempts) == (StopReason.RATE_LIMIT, 1)
    assert result.retry_at == pytest.approx(caller.clock.wall() + 61, abs=1.0)
    assert len(caller.attempts_at) == 1


def test_a_wait_beyond_the_deadline_stops_with_the_time_of_the_retry(downstream):
    # A deadline is a timer of the virtual loop, which real sockets would lose against: blocking.
    caller = _Caller("httpx", downstream.url)
    downstream.script(status(429, retry_after=30), ok(b"never asked"))
    policy = RetryPolicy(backoff=Exponential(base=1, cap=60, jitter=0), deadline=20)
    result = caller.call(policy)
    assert (result.stop_reason, result.attempts) == (StopReason.DEADLINE, 1)
    assert result.retry_at == caller.clock.wall() + 30


def test_every_answer_may_have_its_own_retry_after(caller, downstream):
    downstream.script(
        status(429, retry_after=3), status(503), status(503, retry_after=20), ok(b"at last")
    )
    result = caller.call(RetryPolicy(max_attempts=4, backoff=POLICY.backoff))
    assert [record.delay for record in result.history] == [3, 2, 20]


def test_429_is_retried_and_does_not_count_against_the_downstream(caller, downstream):
    downstream.script(status(429), ok())
    assert caller.call().attempts == 2
    assert caller.service.circuit_state("api").failure_count == 0


def test_404_is_not_retried(caller, downstream):
    downstream.script(status(404, retry_after=1), ok())
    result = caller.call()
    assert (result.stop_reason, result.attempts) == (StopReason.PERMANENT, 1)
