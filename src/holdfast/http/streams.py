"""Live changes of one's own jobs, as server-sent events that can be resumed.

A message is `job`, with the job as it stands now, or `downstreams`, with every breaker's state; the
second comes first on a new stream and then whenever one changes. Ids are the store's sequence: a
client that comes back with the last one it saw misses nothing.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.errors import ErrorCode
from holdfast.http.errors import ApiError
from holdfast.http.schemas import JobOut, moment
from holdfast.http.site import Site
from holdfast.jobs.model import JobEvent
from holdfast.jobs.store_port import StoreError

_BATCH = 500
_REST = 0.05
"""Seconds between two looks at the store, however much changes in it."""
_LOOK = 1.0
"""Seconds between two looks at the downstreams, and until a stream hears that it is to end."""
_COME_BACK_MS = 2000


class Streams:
    """Count the open streams of each owner."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def enter(self, owner: str) -> None:
        """Take a place.

        Raises:
            ApiError: `RATE_LIMITED`; the owner has as many as allowed.
        """
        if self._open[owner] >= self._most:
            raise ApiError(ErrorCode.RATE_LIMITED, headers={"retry-after": "5"})
        self._open[owner] += 1

    @contextmanager
    def leaving(self, owner: str) -> Iterator[None]:
        """Give the place back at the end of the block."""
        try:
            yield
        finally:
            self._open[owner] -= 1
            if self._open[owner] <= 0:
                del self._open[owner]


class EventStream(StreamingResponse):
    """An answer that goes on until the client or the server leaves."""

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, owner: str, content: AsyncIterator[bytes]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(content, headers=headers)
        self._streams = streams
        self._owner = owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and give its place back however that ends."""
        with self._streams.leaving(self._owner):
            await super().__call__(scope, receive, send)


async def messages(site: Site, owner: str, last_seen: int | None) -> AsyncIterator[bytes]:
    """Yield what happens to the jobs of `owner` after `last_seen`, or from now on."""
    store, clock = site.engine.store, site.clock
    yield f"retry: {_COME_BACK_MS}\n\n".encode()
    try:
        head = await store.last_sequence()
        # A number from another database's life would wait for events that never come.
        sequence = head if last_seen is None else min(last_seen, head)
        shown: list[dict[str, Any]] | None = None
        beat_at = clock.monotonic() + site.settings.stream_beat
        while not site.stopping.is_set():
            downstreams = await _downstreams(site)
            if downstreams != shown:
                shown = downstreams
                yield _message(site, "downstreams", {"downstreams": downstreams})
            head = await store.last_sequence()
            events = await store.changes_since(sequence, owner=owner, limit=_BATCH)
            async for message in _job_messages(site, events):
                yield message
            if events:
                beat_at = clock.monotonic() + site.settings.stream_beat
            if len(events) == _BATCH:
                sequence = events[-1].sequence
                continue
            # What others do moves the head as well; it need not be looked at again.
            sequence = max([head, sequence, *(event.sequence for event in events[-1:])])
            if clock.monotonic() >= beat_at:
                beat_at = clock.monotonic() + site.settings.stream_beat
                yield b": alive\n\n"
            await clock.sleep_async(_REST)
            await store.wait_for_changes(sequence, _LOOK)
    except StoreError:
        # The client comes back by itself, with the last id that it saw.
        return


async def _job_messages(site: Site, events: tuple[JobEvent, ...]) -> AsyncIterator[bytes]:
    """Yield one message a job, in the order of their last events."""
    latest = {event.job_id: event for event in events}
    for event in sorted(latest.values(), key=lambda event: event.sequence):
        job = await site.engine.get(event.job_id)
        data = {
            "event": event.name,
            "jobId": event.job_id,
            "job": None if job is None else JobOut.of(job, site.facts(job)).as_json(),
        }
        yield _message(site, "job", data, event.sequence)


def _message(site: Site, name: str, data: dict[str, Any], sequence: int | None = None) -> bytes:
    now = moment(site.clock.wall())
    assert now is not None
    text = json.dumps({**data, "now": now.isoformat()}, separators=(",", ":"))
    mark = "" if sequence is None else f"id: {sequence}\n"
    return f"{mark}event: {name}\ndata: {text}\n\n".encode()


async def _downstreams(site: Site) -> list[dict[str, Any]]:
    records = await site.engine.downstreams.list()
    if not records:
        return []
    now = await site.engine.store.ping()
    return [
        {"name": record.name, "state": record.state_at(now), "held": record.holds_at(now)}
        for record in records
    ]
