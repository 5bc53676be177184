"""The outbox, the inbox and the handling of requests for code that is not async.

Each method has the parameters of its asynchronous form.
"""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from holdfast.outbox.client import Outbox
from holdfast.outbox.handling import Handling
from holdfast.outbox.inbox import Inbox

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

    first = _blocking(Inbox.first, uses_connection=True)
    handled = _blocking(Inbox.handled)
    delete_handled = _blocking(Inbox.delete_handled)


class BlockingHandling(_Blocking):
    """`Handling` for code that is not async."""

    begin = _blocking(Handling.begin)
    extend = _blocking(Handling.extend)
    finish = _blocking(Handling.finish)
    release = _blocking(Handling.release)
    add = _blocking(Handling.add)
