"""Open the connection of one attempt, whatever form its source has."""

import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Any, TypeAlias

from holdfast.providers.database_drivers import Transaction, is_connection, transaction_on

Source: TypeAlias = Any
"""A function that returns a connection or a context manager of one, a pool, or an engine."""

Opened: TypeAlias = tuple[Any, Transaction]
"""A connection, and a transaction on it that has not begun."""


def opener(source: Source) -> Callable[[], Any]:
    """Return what opens a connection: `source` itself, or the method of the pool or engine.

    Raises:
        TypeError: it is a single connection, or has no such function.
    """
    if is_connection(source):
        raise TypeError(
            f"the source must open a connection for every attempt, got the connection {source!r}: "
            "pass a pool, an engine or a function"
        )
    methods = (getattr(source, name, None) for name in ("acquire", "connection", "connect"))
    for function in (source, *methods):
        if callable(function):
            found: Callable[[], Any] = function
            return found
    raise TypeError(f"the source must be a pool, an engine or a function, got {source!r}")


def open_blocking(open_connection: Callable[[], Any], stack: ExitStack) -> Opened:
    """Open a connection of a driver that blocks; leaving `stack` closes it."""
    given = open_connection()
    if is_connection(given):
        transaction = _fitting(given, blocks=True)
        stack.callback(transaction.close)
    else:
        if hasattr(given, "__enter__"):
            given = stack.enter_context(given)
        elif inspect.iscoroutine(given):
            given.close()
        transaction = _fitting(given, blocks=True)
    return given, transaction


async def open_async(open_connection: Callable[[], Any], stack: AsyncExitStack) -> Opened:
    """Open a connection of an asynchronous driver; leaving `stack` closes it."""
    given = open_connection()
    if not is_connection(given):
        if hasattr(given, "__aenter__"):
            given = await stack.enter_async_context(given)
            return given, _fitting(given, blocks=False)
        if inspect.isawaitable(given):
            given = await given
    transaction = _fitting(given, blocks=False)
    stack.push_async_callback(_awaited, transaction.close)
    return given, transaction


async def _awaited(function: Callable[[], Any]) -> None:
    await function()


def _fitting(connection: object, *, blocks: bool) -> Transaction:
    """Return the transaction on `connection`, whose driver must block or not."""
    transaction = transaction_on(connection)
    if transaction.blocks != blocks:
        kind = type(connection)
        form = "with_database_transaction" + ("_sync" if transaction.blocks else "")
        raise TypeError(f"use {form} for a {kind.__module__}.{kind.__qualname__}")
    return transaction
