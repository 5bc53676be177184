"""Downstreams: their breakers, how many jobs they hold, and hold, release and reset by hand."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response

from holdfast.http.ops.access import require_full
from holdfast.http.ops.frame import Confirmation, Frame
from holdfast.http.served_app import ServerState
from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.views import Stats
from holdfast.resilience.breaker.transitions import CircuitState

LONG_OPEN = 300.0
"""Seconds after which an open circuit is an alert."""
_LOOKS = {
    CircuitState.CLOSED: ("done", "Closed"),
    CircuitState.HALF_OPEN: ("waiting", "Half open"),
    CircuitState.OPEN: ("failed", "Open"),
}
Name = Annotated[str, Form(min_length=1, max_length=500)]


@dataclass(frozen=True, slots=True)
class DownstreamView:
    """A downstream as its page shows it. Times are epoch seconds of the store, spans seconds.

    Args:
        look: the shape of its state.
        word: its state in words.
        reason: why it is in that state; "" while closed.
        since: when it left CLOSED; None while closed.
        open_seconds: how long it was open in total, up to now.
        next_probe: when calls are tried again; None while closed or held by hand.
        waiting: ready jobs of it, which are held while it admits none.
        running: jobs that call it now.
        long_open: it is open for longer than `LONG_OPEN`.
    """

    name: str
    look: str
    word: str
    reason: str
    mode: str
    by_hand: bool
    since: float | None
    open_seconds: float
    next_probe: float | None
    trips: int
    streak: int
    last_error: str
    waiting: int
    running: int
    held: bool
    is_open: bool
    long_open: bool


class Move(StrEnum):
    """What may be done to a downstream by hand."""

    HOLD = "hold"
    RELEASE = "release"
    RESET = "reset"


_DONE = {Move.HOLD: "held", Move.RELEASE: "released", Move.RESET: "reset"}
_RESET_WORDS = (
    "The breaker closes at once and its failures are forgotten. If the downstream is still down, "
    "calls fail until the breaker opens again."
)


async def read_downstreams(state: ServerState, stats: Stats, now: float) -> list[DownstreamView]:
    """Return all downstreams: those that are open first, then half open, then by name."""
    waiting, running = Counter[str](), Counter[str]()
    for lane in stats.lanes:
        if lane.downstream is not None:
            waiting[lane.downstream] += lane.ready
            running[lane.downstream] += lane.processing
    views = [
        _view(record, now, waiting[record.name], running[record.name])
        for record in await state.engine.downstreams.list()
    ]
    order = {"failed": 0, "held": 0, "waiting": 1, "done": 2}
    return sorted(views, key=lambda view: (order[view.look], view.name))


def _view(record: DownstreamRecord, now: float, waiting: int, running: int) -> DownstreamView:
    circuit, state = record.circuit, record.state_at(now)
    look, word = ("held", "Held by hand") if circuit.held else _LOOKS[state]
    is_open = state is CircuitState.OPEN
    since = circuit.opened_at if state is not CircuitState.CLOSED else None
    open_now = max(0.0, now - since) if since is not None else 0.0
    return DownstreamView(
        name=record.name,
        look=look,
        word=word,
        reason=str(circuit.cause) if circuit.cause is not None and since is not None else "",
        mode=str(record.settings.mode).replace("_", " "),
        by_hand=circuit.held,
        since=since,
        open_seconds=record.open_seconds + open_now,
        next_probe=circuit.open_until if is_open and not circuit.held else None,
        trips=record.trips,
        streak=circuit.streak,
        last_error=record.last_error or "",
        waiting=waiting,
        running=running,
        held=record.holds_at(now),
        is_open=is_open,
        long_open=is_open and not circuit.held and open_now > LONG_OPEN,
    )


def downstream_routes(frame: Frame) -> APIRouter:
    """Return the page of downstreams, and what can be done to one."""
    router = APIRouter()
    downstreams = frame.engine.downstreams

    @router.get("/downstreams")
    async def show(request: Request) -> Response:
        now, stats = await frame.engine.store.ping(), await frame.engine.stats()
        views = await read_downstreams(frame.state, stats, now)
        return await frame.page(request, "downstreams.html", now=now, downstreams=views)

    @router.post("/downstreams/{move}", dependencies=[Depends(require_full)])
    async def change(
        request: Request, move: Move, name: Name, confirmed: Annotated[str, Form()] = ""
    ) -> Response:
        if move is Move.RESET and not confirmed:
            return frame.confirm(
                request,
                Confirmation(
                    title=f"Reset {name}?",
                    words=_RESET_WORDS,
                    action="/downstreams/reset",
                    label="Reset",
                    fields={"name": name},
                    back="/downstreams",
                ),
            )
        act = {
            Move.HOLD: downstreams.hold,
            Move.RELEASE: downstreams.release,
            Move.RESET: downstreams.reset,
        }[move]
        return await frame.do(request, act(name), "/downstreams", _DONE[move])

    return router
