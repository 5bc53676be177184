"""The attempts of one transaction, of which at most one commits.

An attempt that is over its time is given up, and the next one begins. A blocking attempt runs on in
its thread, so it could commit late, beside the attempt that took its place. Two rules exclude that:

- An attempt commits only while it is the current one. That is checked under the lock that is held
  until the commit has ended; the next attempt needs the same lock to become the current one.
- A commit that was under way when its attempt was given up is waited for. If it succeeded, the next
  attempt returns its value in place of a second transaction; if its outcome is not known, the next
  attempt raises that.

Asynchronous attempts follow the same rules: the commit is a task of its own, so that cancelling
the attempt does not interrupt it.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Generic, TypeVar, cast

from holdfast.errors import ErrorCode, HoldfastError, Permanent
from holdfast.providers.connection_source import open_async, open_blocking
from holdfast.providers.database_drivers import Transaction
from holdfast.resilience.categorize import diagnose
from holdfast.resilience.error_attributes import attribute, driver_result, inner_errors
from holdfast.resilience.result import Ended, RetryResult, StopReason
from holdfast.time_limit import cancelled

T = TypeVar("T")

_log = logging.getLogger("holdfast.providers")

PATIENCE = 5.0
"""Seconds that the end of a call waits for a commit under way, and a failed attempt for its
rollback."""


class CommitUnknown(Permanent):
    """Report that a connection was lost during COMMIT: the transaction may have happened or not.

    It is never repeated, since its effect could happen twice: find out in the database.
    """

    def __init__(self) -> None:
        super().__init__(
            "COMMIT_UNKNOWN", "the connection was lost during COMMIT: it may have happened or not"
        )


class GivenUpAttempt(HoldfastError):
    """End an attempt that was given up before its transaction was committed."""

    code = ErrorCode.TIMEOUT

    def __init__(self) -> None:
        super().__init__("the attempt was given up, and its transaction rolled back")


class BlockingAttempts(Generic[T]):
    """The attempts of one call, each in its own thread.

    Args:
        open_connection: opens a connection for each attempt.
        function: does the work on it.
    """

    def __init__(self, open_connection: Callable[[], Any], function: Callable[[Any], T]) -> None:
        self._open = open_connection
        self._function = function
        self._lock = threading.Lock()  # held during a commit
        self._current = 0
        self._committed = False
        self._value: T | None = None
        self._unknown: CommitUnknown | None = None

    def attempt(self) -> T:
        """Run the transaction and return the value of its function."""
        with self._lock:
            if self._committed:
                return cast(T, self._value)
            if self._unknown is not None:
                raise self._unknown
            if cancelled():
                raise GivenUpAttempt
            self._current += 1
            number = self._current
        stack = ExitStack()
        try:
            connection, transaction = open_blocking(self._open, stack)
            try:
                transaction.begin()
                value = self._function(connection)
                transaction.verify()
                self._commit(transaction, number, value)
            except BaseException:
                _quietly(transaction.rollback)
                raise
        finally:
            _quietly(stack.close)
        return value

    def _commit(self, transaction: Transaction, number: int, value: T) -> None:
        with self._lock:
            if number != self._current or cancelled():
                raise GivenUpAttempt
            try:
                transaction.commit()
            except Exception as error:
                if _is_refusal(error):
                    raise
                self._unknown = CommitUnknown()
                raise self._unknown from error
            self._committed = True
            self._value = value

    def give_up(self, patience: float) -> bool:
        """Let no attempt commit from now on.

        Return False where a commit is under way and does not end within `patience` seconds.
        """
        if not self._lock.acquire(timeout=patience):
            return False
        self._current += 1
        self._lock.release()
        return True

    def settled(self, result: RetryResult[T]) -> RetryResult[T]:
        """Return the result of the call, which has ended with `result`."""
        if result.ok:
            return result
        if not self.give_up(PATIENCE):
            return _with_error(result, CommitUnknown())
        if self._committed:
            return _with_value(result, cast(T, self._value))
        return result if self._unknown is None else _with_error(result, self._unknown)


class AsyncAttempts(Generic[T]):
    """The attempts of one call on an event loop; see `BlockingAttempts`."""

    def __init__(
        self, open_connection: Callable[[], Any], function: Callable[[Any], Awaitable[T]]
    ) -> None:
        self._open = open_connection
        self._function = function
        self._committing: asyncio.Future[T] | None = None
        self._undoing: set[asyncio.Future[None]] = set()

    async def attempt(self) -> T:
        """Run the transaction and return the value of its function."""
        if self._committing is not None and await self._is_committed():
            return self._committing.result()
        self._committing = None
        stack = AsyncExitStack()
        transaction: Transaction | None = None
        try:
            connection, transaction = await open_async(self._open, stack)
            await _started(transaction.begin)
            value = await self._function(connection)
            await _started(transaction.verify)
            if cancelled():  # the function has caught its own cancellation
                raise GivenUpAttempt
        except BaseException:
            await self._undo(transaction, stack)
            raise
        self._committing = asyncio.ensure_future(_commit(transaction, stack, value))
        return await asyncio.shield(self._committing)

    async def _is_committed(self) -> bool:
        """Wait for the commit of an attempt that was given up, and say whether it succeeded.

        Raises:
            CommitUnknown: that is not known.
        """
        assert self._committing is not None
        await asyncio.wait([self._committing])
        error = self._committing.exception()
        if isinstance(error, CommitUnknown):
            raise error
        return error is None

    async def _undo(self, transaction: Transaction | None, stack: AsyncExitStack) -> None:
        """Roll back and close; in a task, so that a server without an answer cannot hold it up."""
        undoing = asyncio.ensure_future(_undone(transaction, stack))
        self._undoing.add(undoing)
        undoing.add_done_callback(self._undoing.discard)
        await asyncio.wait([undoing], timeout=PATIENCE)

    async def settled(self, result: RetryResult[T]) -> RetryResult[T]:
        """Return the result of the call, which has ended with `result`."""
        committing = self._committing
        if result.ok or committing is None:
            return result
        await asyncio.wait([committing], timeout=PATIENCE)
        if not committing.done():
            return _with_error(result, CommitUnknown())
        error = committing.exception()
        if error is None:
            return _with_value(result, committing.result())
        return _with_error(result, error) if isinstance(error, CommitUnknown) else result


async def _commit(transaction: Transaction, stack: AsyncExitStack, value: T) -> T:
    try:
        await _started(transaction.commit)
    except Exception as error:
        await _undone(transaction, stack)
        if _is_refusal(error):
            raise
        raise CommitUnknown from error
    await _undone(None, stack)
    return value


async def _undone(transaction: Transaction | None, stack: AsyncExitStack) -> None:
    steps: list[Callable[[], Any]] = [stack.aclose]
    if transaction is not None:
        steps.insert(0, transaction.rollback)
    for step in steps:
        try:
            await _started(step)
        except Exception as error:
            _log.debug("a connection could not be closed in order: %r", error)


async def _started(function: Callable[[], Any]) -> None:
    await function()


def _quietly(step: Callable[[], Any]) -> None:
    """Call `step`, whose failure must not hide how the transaction ended."""
    try:
        step()
    except Exception as error:
        _log.debug("a connection could not be closed in order: %r", error)


def _is_refusal(error: Exception) -> bool:
    """Say whether `error` is the database's own answer that it did not commit."""
    answered = any(
        isinstance(attribute(each, "sqlstate") or attribute(each, "pgcode"), str)
        or driver_result(each) is not None
        for each in (error, *inner_errors(error))
    )
    return answered and not diagnose(error, wall_now=0.0).ambiguous


def _with_value(result: RetryResult[T], value: T) -> RetryResult[T]:
    """Return a failed call as the success that it was: its commit came through after all."""
    reason = StopReason.SUCCESS
    return Ended(value, None, result.attempts, result.total_time, reason, result.history)


def _with_error(result: RetryResult[T], error: CommitUnknown) -> RetryResult[T]:
    """Return a failed call with the error of its commit."""
    if isinstance(result.error, CommitUnknown):
        return result
    reason = StopReason.AMBIGUOUS
    return Ended(None, error, result.attempts, result.total_time, reason, result.history)
