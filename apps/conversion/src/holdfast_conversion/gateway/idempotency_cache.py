"""Results by Idempotency-Key: the same request again gets the same result, converted once."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from holdfast import Clock
from holdfast_conversion.gateway.rejections import Reason, Rejection
from holdfast_conversion.gateway.scratch import ScratchFile

_MOST_KEYS = 256
_MOST_BYTES = 1024 * 1024 * 1024


Work = Callable[[], Coroutine[Any, Any, ScratchFile]]


@dataclass(slots=True)
class _Entry:
    fingerprint: str
    task: "asyncio.Task[ScratchFile]"
    expires: float
    callers: int = 0


class IdempotencyCache:
    """Run conversions, one for each key, and keep the results for `keep_seconds`.

    A conversion belongs to its key and not to a connection: requests with the same key wait for the
    same one. When the last of them is gone it is stopped; its child has others to serve. A
    result that a caller did not stay for is found by its next request.
    """

    def __init__(self, keep_seconds: float, clock: Clock) -> None:
        self._keep = keep_seconds
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._loose: set[asyncio.Task[ScratchFile]] = set()

    async def result(self, key: str | None, fingerprint: str, work: Work) -> ScratchFile:
        """Return what `work` gives, or gave before for the same key and fingerprint.

        Raises:
            Rejection: the work was refused, or the key belongs to another fingerprint.
        """
        if key is None:
            return await self._start(work)
        self._forget_old()
        entry = self._entries.get(key)
        if entry is None:
            entry = _Entry(fingerprint, self._start(work), self._clock.monotonic() + self._keep)
            self._entries[key] = entry
            entry.task.add_done_callback(lambda task: self._settle(key, task))
        elif entry.fingerprint != fingerprint:
            raise Rejection(Reason.KEY_REUSED)
        entry.callers += 1
        try:
            return await asyncio.shield(entry.task)
        finally:
            entry.callers -= 1
            if not entry.callers and not entry.task.done():
                del self._entries[key]
                entry.task.cancel()

    async def close(self) -> None:
        """Stop what still runs."""
        tasks = list(self._loose)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._entries.clear()

    def _start(self, work: Work) -> "asyncio.Task[ScratchFile]":
        task = asyncio.create_task(work())
        self._loose.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[ScratchFile]") -> None:
        self._loose.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as retrieved, even if the caller is gone

    def _settle(self, key: str, task: "asyncio.Task[ScratchFile]") -> None:
        """Keep a result, or a rejection that would be the same again; forget other failures."""
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        kept = error is None or (isinstance(error, Rejection) and error.is_kept)
        if key not in self._entries or self._entries[key].task is not task:
            return
        if not kept:
            del self._entries[key]
        else:
            self._entries[key].expires = self._clock.monotonic() + self._keep
            self._entries.move_to_end(key)
            self._make_room()

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        for key, entry in list(self._entries.items()):
            if entry.task.done() and entry.expires <= now:
                del self._entries[key]

    def _make_room(self) -> None:
        sizes = {key: _size(entry.task) for key, entry in self._entries.items()}
        total = sum(sizes.values())
        for key, size in sizes.items():
            if len(self._entries) <= _MOST_KEYS and total <= _MOST_BYTES:
                return
            if self._entries[key].task.done():
                del self._entries[key]
                total -= size


def _size(task: "asyncio.Task[ScratchFile]") -> int:
    if not task.done() or task.cancelled() or task.exception() is not None:
        return 0
    return task.result().size
