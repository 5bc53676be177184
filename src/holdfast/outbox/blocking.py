"""The outbox, the inbox and the handling of requests for code that is not async.

Each method has the parameters of its asynchronous form.
"""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from holdfast.outbox.client import Outbox
from holdfast.outbox.handling import Handling
from holdfast.outbox.inbox import DEFAULT_CONSUMER, Inbox

P = ParamSpec("P")
T = TypeVar("T")


class Run(Protocol):
    """Awaits a coroutine elsewhere while the calling thread waits."""

    def __call__(self, work: Coroutine[Any, Any, T], *, uses_connection: bool = False) -> T:
        """Return the result of `work`; statements on the caller's connection run in this thread."""
        ...


class _Blocking:
    """Has methods of `awaited` that block."""

    def __init__(self, awaited: object, run: Run) -> None:
        self._awaited = awaited
        self._run = run


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], *, uses_connection: bool = False
) -> Callable[Concatenate[_Blocking, P], T]:
    @functools.wraps(method)
    def call(self: _Blocking, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._awaited, *args, **kwargs), uses_connection=uses_connection)

    return call


class BlockingOutbox(_Blocking):
    """`Outbox` for code that is not async; connections are those of drivers that block."""

    add = _blocking(Outbox.add, uses_connection=True)
    add_many = _blocking(Outbox.add_many, uses_connection=True)
    get = _blocking(Outbox.get)
    list = _blocking(Outbox.list)
    requeue = _blocking(Outbox.requeue)
    discard = _blocking(Outbox.discard)
    erase = _blocking(Outbox.erase, uses_connection=True)
    backlog = _blocking(Outbox.backlog)


class BlockingInbox(_Blocking):
    """`Inbox` for code that is not async; connections are those of drivers that block."""

    def __init__(self, inbox: Inbox, run: Run, check_usable: Callable[[], None]) -> None:
        super().__init__(inbox, run)
        self._inbox = inbox
        self._check_usable = check_usable

    def first(
        self, connection: object, request_id: str, *, consumer: str = DEFAULT_CONSUMER
    ) -> bool:
        """Record a request in the transaction of `connection`; see `Inbox.first`.

        In the calling thread where that can be done: a change to the engine's thread and back
        costs more than the statement.
        """
        self._check_usable()
        found = self._inbox.first_now(connection, request_id, consumer=consumer)
        if found is not None:
            return found
        work = self._inbox.first(connection, request_id, consumer=consumer)
        return self._run(work, uses_connection=True)

    handled = _blocking(Inbox.handled)
    delete_handled = _blocking(Inbox.delete_handled)


class BlockingHandling(_Blocking):
    """`Handling` for code that is not async."""

    begin = _blocking(Handling.begin)
    extend = _blocking(Handling.extend)
    finish = _blocking(Handling.finish)
    release = _blocking(Handling.release)
    add = _blocking(Handling.add)
