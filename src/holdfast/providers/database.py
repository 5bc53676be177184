"""Retries for work on databases: single operations, and whole transactions.

What passes is tried again: lost connections, deadlocks, serialization failures, lock timeouts, a
busy SQLite file. What does not is raised at once: violated constraints, wrong SQL, missing tables.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.providers.connection_source import Source, opener
from holdfast.providers.transaction_attempts import AsyncAttempts, BlockingAttempts
from holdfast.resilience import checks, presets
from holdfast.resilience.policy import RetryPolicy
from holdfast.resilience.result import RetryResult
from holdfast.resilience.service import RetryService

T = TypeVar("T")

_SERVICE = RetryService()
"""Runs the calls of this process that bring no service: calls of one name share a breaker."""


async def with_database_retry(
    operation: Callable[[], Awaitable[T]],
    name: str,
    *,
    service: RetryService | None = None,
    policy: RetryPolicy = presets.DATABASE,
) -> RetryResult[T]:
    """Run an asynchronous `operation` on a database, and again where its error may pass.

    Args:
        operation: opens its own connection or takes one from a pool, as the last one may be lost.
        name: the calls run as `db:<name>`.
        service: runs the calls; by default one for the whole process.
        policy: attempts, delays, time limit and breaker.
    """
    return await (service or _SERVICE).execute(operation, policy, _named("", name))


def with_database_retry_sync(
    operation: Callable[[], T],
    name: str,
    *,
    service: RetryService | None = None,
    policy: RetryPolicy = presets.DATABASE,
) -> RetryResult[T]:
    """Run a blocking `operation` on a database; see `with_database_retry`.

    An attempt that is over its time runs on in its thread, and may still write. Use
    `with_database_transaction_sync` for work that must not be done twice.
    """
    return (service or _SERVICE).execute_sync(operation, policy, _named("", name))


async def with_database_transaction(
    source: Source,
    function: Callable[[Any], Awaitable[T]],
    name: str,
    *,
    service: RetryService | None = None,
    policy: RetryPolicy = presets.DATABASE,
) -> RetryResult[T]:
    """Run `function` in a transaction, and the whole transaction again where its error may pass.

    It is committed when `function` returns, and rolled back if it raises. An attempt that was given
    up can never commit later: at most one attempt commits, and the result is that attempt's.

    Args:
        source: opens a connection for every attempt: an asyncpg pool, an SQLAlchemy AsyncEngine or
            async_sessionmaker, or a function that returns a connection or an asynchronous context
            manager of one.
        function: is given the connection or session; it neither commits nor rolls back.
        name: the calls run as `db:transaction:<name>`.
        service: runs the calls; by default one for the whole process.
        policy: attempts, delays, time limit and breaker.

    Raises:
        TypeError: `source` cannot open connections.
    """
    attempts = AsyncAttempts(opener(source), function)
    named = _named("transaction:", name)
    result = await (service or _SERVICE).execute(attempts.attempt, policy, named)
    return await attempts.settled(result)


def with_database_transaction_sync(
    source: Source,
    function: Callable[[Any], T],
    name: str,
    *,
    service: RetryService | None = None,
    policy: RetryPolicy = presets.DATABASE,
) -> RetryResult[T]:
    """Run `function` in a transaction of a driver that blocks; see `with_database_transaction`.

    `source` is an SQLAlchemy Engine or sessionmaker, a psycopg pool, or a function that returns a
    connection, such as `lambda: sqlite3.connect("work.db")`, or a context manager of one.
    """
    attempts = BlockingAttempts(opener(source), function)
    named = _named("transaction:", name)
    try:
        result = (service or _SERVICE).execute_sync(attempts.attempt, policy, named)
    except BaseException:
        attempts.give_up(0)  # interrupted: the attempt must not commit behind its caller's back
        raise
    return attempts.settled(result)


def _named(kind: str, name: str) -> str:
    checks.label("name", name)
    return f"db:{kind}{name}"
