"""The live stream of the dashboard: hints that something has changed, at most one a second.

A page that gets a hint asks for the part that it shows. The stream carries no data, so that its
cost does not grow with what happens, and a missed hint loses nothing.
"""

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response

from holdfast.http.limit_keys import limit_keys
from holdfast.http.ops.frame import Frame
from holdfast.http.served_app import ServerState
from holdfast.http.stream_limit import EventStream
from holdfast.jobs.store_port import StoreError

_REST = 1.0
"""Seconds between two hints, and between two looks at breakers and pauses."""
_HINT = b"event: change\ndata: {}\n\n"


def add_hint_stream(router: APIRouter, frame: Frame, longest: float | None) -> None:
    """Add the route of the stream; `longest` is the most seconds that one is kept open."""

    @router.get("/events")
    async def stream(request: Request) -> Response:
        state = frame.state
        keys = limit_keys(request.state.session, state.proxies.address(request))
        state.streams.enter(keys)
        return EventStream(state.streams, keys, hints(state, longest))


async def hints(state: ServerState, longest: float | None = None) -> AsyncIterator[bytes]:
    """Yield a hint whenever a job, a breaker or a pause has changed."""
    clock, store = state.clock, state.engine.store
    until = None if longest is None else clock.monotonic() + longest
    beat_at = clock.monotonic() + state.settings.stream_beat
    yield b"retry: 1000\n\n"
    try:
        seen = await _marks(state)
        while not state.stopping.is_set() and (until is None or clock.monotonic() < until):
            await store.wait_for_changes(seen[0], _REST)
            now_seen = await _marks(state)
            if now_seen != seen:
                seen = now_seen
                beat_at = clock.monotonic() + state.settings.stream_beat
                yield _HINT
                await clock.sleep_async(_REST)
            elif clock.monotonic() >= beat_at:
                beat_at = clock.monotonic() + state.settings.stream_beat
                yield b": alive\n\n"
    except StoreError:
        # The client reconnects by itself.
        return


async def _marks(state: ServerState) -> tuple[int, object, object]:
    """Return values that differ whenever something that pages show has changed."""
    engine = state.engine
    sequence = await engine.store.last_sequence()
    troubled = await engine.downstreams.troubled()
    now = await engine.store.ping() if troubled else 0.0
    breakers = tuple((each.name, each.version, each.state_at(now)) for each in troubled)
    return sequence, breakers, await state.pauses.paused()
