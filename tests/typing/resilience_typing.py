"""What mypy must infer, and what it must refuse. Checked by `make check`, never run.

Each `type: ignore` below is an assertion: were the line accepted, the ignore would be unused, and
unused ignores are errors.
"""

from collections.abc import Callable, Coroutine
from typing import Any, assert_type

from holdfast import (
    BreakerPolicy,
    CircuitBreaker,
    CircuitSnapshot,
    CircuitState,
    Exponential,
    FailedAttempt,
    RetryMetrics,
    RetryPolicy,
    RetryResult,
    RetryService,
    StopReason,
)
from holdfast.events import Event

service = RetryService()
policy = RetryPolicy()


# -- decorated functions -----------------------------------------------------------------------


@service.guard(policy, "blocking")
def blocking(a: int, *, flag: bool = False) -> str:
    return f"{a}{flag}"


@service.guard(policy, "asynchronous")
async def asynchronous(path: str, times: int = 1) -> bytes:
    return path.encode() * times


assert_type(blocking(1), str)
assert_type(blocking(1, flag=True), str)
blocking("1")  # type: ignore[arg-type]
blocking()  # type: ignore[call-arg]
blocking(1, True)  # type: ignore[call-arg]
blocking(1, flg=True)  # type: ignore[call-arg]
blocking(1).decode()  # type: ignore[attr-defined]


async def uses_asynchronous() -> None:
    kept: Callable[[str, int], Coroutine[Any, Any, bytes]] = asynchronous
    assert_type(await kept("a", 1), bytes)
    assert_type(await asynchronous("a", times=2), bytes)
    await asynchronous(1)  # type: ignore[arg-type]
    await asynchronous("a", 1, 2)  # type: ignore[call-arg]
    (await asynchronous("a")).encode()  # type: ignore[attr-defined]


class Client:
    @service.guard(policy, "method")
    def method(self, number: int) -> list[int]:
        return [number]

    @service.guard(policy, "async method")
    async def async_method(self, number: int) -> dict[str, int]:
        return {"n": number}

    @classmethod
    @service.guard(policy, "class method")
    def of_class(cls, number: int) -> "Client":
        return cls()

    @staticmethod
    @service.guard(policy, "static method")
    async def static(number: int) -> float:
        return number / 2


assert_type(Client().method(1), list[int])
assert_type(Client.of_class(1), Client)
Client().method("1")  # type: ignore[arg-type]
Client().method()  # type: ignore[call-arg]
Client.of_class("1")  # type: ignore[arg-type]
Client.of_class(1, 2)  # type: ignore[call-arg]


async def uses_methods() -> None:
    assert_type(await Client().async_method(1), dict[str, int])
    assert_type(await Client.static(1), float)
    await Client().async_method("1")  # type: ignore[arg-type]
    await Client.static("1")  # type: ignore[arg-type]


service.guard(policy)  # type: ignore[call-arg]
service.guard("GEMINI_API", "name")  # type: ignore[arg-type]
as_given: Callable[[int], str] = service.guard(policy, "kept")(lambda number: f"{number}")


# -- execute -----------------------------------------------------------------------------------


def returns_int() -> int:
    return 1


async def returns_text() -> str:
    return ""


def uses_results() -> None:
    result = service.execute_sync(returns_int, policy, "name")
    assert_type(result, RetryResult[int])
    assert_type(result.unwrap(), int)
    assert_type(result.value, int | None)
    assert_type(result.error, BaseException | None)
    assert_type(result.ok, bool)
    assert_type(result.attempts, int)
    assert_type(result.total_time, float)
    assert_type(result.history, tuple[FailedAttempt, ...])
    assert_type(result.stop_reason, StopReason)
    assert_type(result.retry_at, float | None)
    assert_type(result.breaker_triggered, bool)
    result.unwrap().upper()  # type: ignore[attr-defined]
    service.execute_sync(1, policy, "name")  # type: ignore[arg-type]
    service.execute_sync(returns_int, policy, 5)  # type: ignore[arg-type]
    service.execute_sync(lambda number: number, policy, "n")  # type: ignore[misc, arg-type]


async def uses_async_results() -> None:
    result = await service.execute(returns_text, policy, "name")
    assert_type(result, RetryResult[str])
    assert_type(result.unwrap(), str)
    await service.execute(returns_int, policy, "name")  # type: ignore[arg-type]


# -- the breaker -------------------------------------------------------------------------------


async def uses_breaker() -> None:
    breaker = CircuitBreaker(BreakerPolicy(open_for=5))
    assert_type(breaker.call(returns_int), int)
    assert_type(breaker.call(divmod, 7.0, 2.0), tuple[float, float])
    assert_type(await breaker.acall(returns_text), str)
    assert_type(breaker.state, CircuitState)
    assert_type(breaker.snapshot(), CircuitSnapshot)
    breaker.call(returns_int, 1)  # type: ignore[call-arg]
    await breaker.acall(returns_int)  # type: ignore[arg-type]


# -- configuration -----------------------------------------------------------------------------

assert_type(service.circuit_state("name"), CircuitSnapshot)
assert_type(service.metrics("name"), RetryMetrics)
Exponential(jitter="full")
Exponential(jitter="half")  # type: ignore[arg-type]
RetryPolicy(max_attempts="3")  # type: ignore[arg-type]
policy.max_attempts = 5  # type: ignore[misc]
RetryService(nested="multiply")  # type: ignore[arg-type]


def listener(event: Event) -> None:
    """A listener."""


RetryService(listeners=[listener, lambda event: None])
RetryService(listeners=listener)  # type: ignore[arg-type]
