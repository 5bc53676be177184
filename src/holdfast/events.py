"""What happened, as frozen records, and the listeners that take them.

A listener is any callable that takes one event. It is called in the thread or task where the
event happened, never under a lock, and an error it raises is logged and goes no further.
`SystemExit` and `KeyboardInterrupt` do: a signal may have raised them, and they end a worker, which
releases its jobs.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from holdfast.errors import Category

_log = logging.getLogger("holdfast.events")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the operation or downstream `name`."""

    name: str


@dataclass(frozen=True, slots=True)
class AttemptFailed(Event):
    """An attempt raised, or was cut off.

    `delay` is the wait before the next attempt in seconds, or None where there is none.
    """

    number: int
    error: BaseException
    category: Category
    duration: float
    delay: float | None


@dataclass(frozen=True, slots=True)
class CallFinished(Event):
    """A guarded call ended after `total_time` seconds, for the reason given."""

    ok: bool
    attempts: int
    total_time: float
    stop_reason: str


@dataclass(frozen=True, slots=True)
class BreakerChanged(Event):
    """A breaker moved from one state to another."""

    before: str
    after: str
    cause: str


@dataclass(frozen=True, slots=True)
class NestedGuardFound(Event):
    """A guard ran inside another one's attempt; reported once for each pair of names.

    `collapsed` says whether the inner guard was kept to a single attempt.
    """

    outer: str
    collapsed: bool


EventT = TypeVar("EventT", bound=Event)


class Listener(Protocol):
    """Anything that takes an event."""

    def __call__(self, event: Event, /) -> None:
        """Take note of `event`."""
        ...


def notify(listeners: Iterable[Callable[[EventT], None]], event: EventT) -> None:
    """Call every listener with `event`; the failure of one is logged and stops nothing."""
    for listener in listeners:
        try:
            listener(event)
        except (Exception, asyncio.CancelledError):
            # Without an await in between, the cancellation is not one of the calling task.
            _log.exception("a listener failed on %r", event)
