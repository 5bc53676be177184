"""Both clients keep to their row of the configuration matrix, and make one request per attempt."""

import asyncio
from contextlib import aclosing, closing
from dataclasses import replace

import pytest
from tests.support.providers import FORMS, PROVIDERS

from holdfast import (
    AttemptTimeout,
    CircuitOpenError,
    CircuitState,
    RetryPolicy,
    RetryService,
    StopReason,
)
from holdfast.testing import VirtualClock
from holdfast.testing.downstream import close_early, garbage, hang, ok, reset, status

pytestmark = [
    pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name),
    pytest.mark.parametrize("form", FORMS),
]


def test_a_good_answer_takes_one_request(provider, form, server):
    server.script(provider.good)
    (result,) = provider.call(form, server)
    assert (result.value, result.attempts) == (provider.value, 1)
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [400, 401, 403, 404])
def test_a_permanent_status_ends_the_call_at_once(provider, form, server, code):
    server.script(status(code, json={"error": {"message": "timeout", "code": code}}))
    (result,) = provider.call(form, server)
    assert (result.stop_reason, result.attempts) == (StopReason.PERMANENT, 1)
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_a_transient_status_is_tried_three_times(provider, form, server, code):
    server.script(status(code, json={"error": {"message": "unauthorized", "code": code}}))
    (result,) = provider.call(form, server)
    assert (result.stop_reason, result.attempts) == (StopReason.ATTEMPTS, 3)
    # One request per attempt: the SDK repeats nothing by itself.
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "trouble",
    [reset(), close_early(), close_early(b"{"), garbage()],
    ids=["reset", "closed", "cut short", "not HTTP"],
)
def test_a_broken_connection_is_tried_again(provider, form, server, trouble):
    server.script(trouble, trouble, provider.good)
    (result,) = provider.call(form, server)
    assert (result.value, result.attempts) == (provider.value, 3)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"{nope", headers={"Content-Type": "application/json"}),
        ok(b"<html>502</html>", headers={"Content-Type": "text/html"}),
        ok(json={}),
        ok(json=[1]),
        ok(b""),
    ],
    ids=["cut JSON", "HTML", "empty object", "list", "nothing"],
)
def test_an_answer_that_cannot_be_read_is_tried_again(provider, form, server, answer):
    server.script(answer, provider.good)
    service = RetryService(clock=VirtualClock())
    (result,) = provider.call(form, server, service=service)
    assert (result.value, result.attempts) == (provider.value, 2)
    assert service.circuit_state(provider.name).failure_count == 0


def test_a_server_without_an_answer_is_cut_off_and_tried_again(provider, form, server):
    server.script(hang(), provider.good)
    policy = replace(provider.preset, attempt_timeout=1.0)
    (result,) = provider.call(form, server, policy=policy)
    assert result.value == provider.value
    # On a virtual clock a blocking attempt is ended by the SDK's own time-out.
    assert form == "sync" or isinstance(result.history[0].error, AttemptTimeout)


def test_an_attempt_that_is_over_its_time_is_cut_off_on_a_real_clock_too(provider, form, server):
    server.script(hang(), provider.good)
    backoff = replace(provider.preset.backoff, base=0.01)
    policy = replace(provider.preset, attempt_timeout=1.0, backoff=backoff)
    (result,) = provider.call(form, server, policy=policy, service=RetryService())
    assert result.value == provider.value
    assert result.attempts > 1


def test_the_delays_are_those_of_the_matrix(provider, form, server):
    server.script(status(503))
    clock = VirtualClock()
    provider.call(form, server, service=RetryService(clock=clock))
    base = {"gemini-embedding": 1, "chatmock-chat": 2}[provider.name]
    for slept, delay in zip(clock.sleeps, (base, 2 * base), strict=True):
        assert 0.7 * delay <= slept <= 1.3 * delay


def test_the_breaker_opens_and_closes_as_the_matrix_says(provider, form, server):
    threshold, open_for = {"gemini-embedding": (5, 60), "chatmock-chat": (3, 120)}[provider.name]
    clock = VirtualClock()
    service = RetryService(clock=clock)
    server.script(status(503))
    *_, refused = provider.call(form, server, service=service, times=3)
    assert len(server.requests) == threshold
    assert refused.breaker_triggered
    assert isinstance(refused.error, CircuitOpenError)
    circuit = service.circuit_state(provider.name)
    assert circuit.state is CircuitState.OPEN
    assert circuit.next_attempt_at == pytest.approx(clock.wall() + open_for, abs=10)
    clock.advance(open_for)
    server.script(provider.good)
    (result,) = provider.call(form, server, service=service)
    assert result.ok
    assert service.circuit_state(provider.name).state is CircuitState.CLOSED


def test_a_permanent_status_does_not_open_the_breaker(provider, form, server):
    server.script(status(401))
    service = RetryService(clock=VirtualClock())
    provider.call(form, server, service=service, times=8)
    assert service.circuit_state(provider.name).state is CircuitState.CLOSED


def test_retry_after_is_kept_to(provider, form, server):
    server.script(status(429, retry_after=6), provider.good)
    clock = VirtualClock()
    (result,) = provider.call(form, server, service=RetryService(clock=clock))
    assert (result.value, clock.sleeps) == (provider.value, [6.0])


def test_a_retry_after_beyond_the_cap_ends_the_call(provider, form, server):
    server.script(status(429, retry_after=300))
    clock = VirtualClock()
    (result,) = provider.call(form, server, service=RetryService(clock=clock))
    assert (result.stop_reason, result.attempts) == (StopReason.RATE_LIMIT, 1)
    assert result.retry_at == clock.wall() + 300


def test_inside_another_guarded_call_only_the_outer_one_retries(provider, form, server):
    server.script(status(503))
    service = RetryService(clock=VirtualClock())
    result = guarded_twice(provider, form, server, service)
    assert (result.stop_reason, result.attempts) == (StopReason.ATTEMPTS, 2)
    assert len(server.requests) == 2


def guarded_twice(provider, form, server, service):
    """Call the provider inside another guarded call, which makes two attempts."""
    client = provider.make(server, service=service)
    policy = RetryPolicy(max_attempts=2)
    if form == "sync":
        blocking = getattr(client, f"{provider.method}_sync")
        with closing(client):
            return service.execute_sync(
                lambda: blocking(*provider.arguments).unwrap(), policy, "outer"
            )

    async def once():
        return (await getattr(client, provider.method)(*provider.arguments)).unwrap()

    async def scenario():
        async with aclosing(client):
            return await service.execute(once, policy, "outer")

    return asyncio.run(scenario())
