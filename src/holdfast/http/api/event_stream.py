"""Live changes of one's own jobs, as server-sent events that can be resumed.

A message is `job`, with the job as it stands now, or `downstreams`, with the breakers' states. The
second comes first on a new stream and then whenever a breaker changes, or a queue or a kind is
paused or resumed: either changes which jobs are held. The names of queues and kinds are for
operators and are not sent.

Ids are the store's sequence: a client that reconnects with the last one it saw misses nothing.
"""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response

from holdfast.http.limit_keys import limit_keys
from holdfast.http.schemas import ERROR_ANSWERS, moment
from holdfast.http.served_app import ServerState, state_of
from holdfast.http.sessions import Owner, session_of
from holdfast.http.stream_limit import EventStream
from holdfast.jobs.history import JobEvent
from holdfast.jobs.store_port import StoreError
from holdfast.resilience.breaker.transitions import CircuitState

_BATCH = 500
_REST = 0.05
"""Seconds between two reads of the store, however much changes in it."""
_READ_EVERY = 1.0
"""Seconds between two reads of the downstreams, and until a stream notices that it is to end."""
_COME_BACK_MS = 2000

router = APIRouter(prefix="/api", tags=["jobs"], responses=ERROR_ANSWERS)


@router.get(
    "/events",
    response_class=Response,
    responses={200: {"description": "Events.", "content": {"text/event-stream": {}}}},
)
async def stream(
    request: Request,
    owner: Owner,
    last_event_id: Annotated[str | None, Header()] = None,
    after: Annotated[str | None, Query(max_length=30)] = None,
) -> Response:
    """Stream what happens to one's own jobs, from `Last-Event-ID` (or `after`) on."""
    state = state_of(request)
    keys = limit_keys(session_of(request), state.proxies.address(request))
    state.streams.enter(keys)
    seen = _sequence(last_event_id) if last_event_id is not None else _sequence(after)
    return EventStream(state.streams, keys, messages(state, owner, seen))


def _sequence(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 18:
        return None
    return int(text)


async def messages(state: ServerState, owner: str, last_seen: int | None) -> AsyncIterator[bytes]:
    """Yield what happens to the jobs of `owner` after `last_seen`, or from now on."""
    store, clock = state.engine.store, state.clock
    yield f"retry: {_COME_BACK_MS}\n\n".encode()
    try:
        head = await store.last_sequence()
        # A number from another database's life would wait for events that never come.
        sequence = head if last_seen is None else min(last_seen, head)
        shown: object = None
        beat_at = clock.monotonic() + state.settings.stream_beat
        while not state.stopping.is_set():
            downstreams = await _downstreams(state)
            holds = (downstreams, await state.pauses.paused())
            if holds != shown:
                shown = holds
                named = [each for each in downstreams if not state.has_key(each["name"])]
                yield _message(state, "downstreams", {"downstreams": named})
            head = await store.last_sequence()
            events = await store.changes_since(sequence, owner=owner, limit=_BATCH)
            async for message in _job_messages(state, events):
                yield message
            if events:
                beat_at = clock.monotonic() + state.settings.stream_beat
            if len(events) == _BATCH:
                sequence = events[-1].sequence
                continue
            # Other owners' events move the head too; they need not be read again.
            sequence = max([head, sequence, *(event.sequence for event in events[-1:])])
            if clock.monotonic() >= beat_at:
                beat_at = clock.monotonic() + state.settings.stream_beat
                yield b": alive\n\n"
            await clock.sleep_async(_REST)
            await store.wait_for_changes(sequence, _READ_EVERY)
    except StoreError:
        # The client reconnects by itself, with the last id that it saw.
        return


async def _job_messages(state: ServerState, events: tuple[JobEvent, ...]) -> AsyncIterator[bytes]:
    """Yield one message per job, in the order of their last events."""
    latest = {event.job_id: event for event in events}
    for event in sorted(latest.values(), key=lambda event: event.sequence):
        job = await state.engine.get(event.job_id)
        data = {
            "event": event.name,
            "jobId": event.job_id,
            "job": None if job is None else state.job_out(job).as_json(),
        }
        yield _message(state, "job", data, event.sequence)


def _message(
    state: ServerState, name: str, data: dict[str, Any], sequence: int | None = None
) -> bytes:
    now = moment(state.clock.wall()).isoformat()
    text = json.dumps({**data, "now": now}, separators=(",", ":"))
    mark = "" if sequence is None else f"id: {sequence}\n"
    return f"{mark}event: {name}\ndata: {text}\n\n".encode()


async def _downstreams(state: ServerState) -> list[dict[str, Any]]:
    """Return the declared downstreams, and of those with a key the ones that are not closed.

    There may be thousands of hosts, and every open page asks.
    """
    declared = state.engine.registry.downstreams().values()
    shown: dict[str, dict[str, Any]] = {
        each.name: {"name": each.name, "state": CircuitState.CLOSED, "held": False}
        for each in declared
        if each.key is None
    }
    records = await state.engine.downstreams.troubled()
    now = await state.engine.store.ping() if records else 0.0
    for record in records:
        held = record.holds_at(now)
        shown[record.name] = {"name": record.name, "state": record.state_at(now), "held": held}
    return [shown[name] for name in sorted(shown)]
