"""Downstreams: their breakers, how many jobs they hold, and hold, release and reset by hand."""

from collections.abc import Iterable
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from holdfast.http.ops.access import FULL_ACCESS
from holdfast.http.ops.frame import Change, Confirmation, Confirmed, Frame, Name
from holdfast.http.ops_schemas import DownstreamMove
from holdfast.jobs.client.downstream_details import DownstreamDetails
from holdfast.jobs.downstreams.record import HoldMode
from holdfast.resilience.breaker.transitions import CircuitState

LONG_OPEN = 300.0
"""Seconds after which an open circuit is an alert."""
_LOOKS = {
    CircuitState.CLOSED: ("done", "Closed"),
    CircuitState.HALF_OPEN: ("waiting", "Half open"),
    CircuitState.OPEN: ("failed", "Open"),
}
_MODES = {HoldMode.HOLD: "holds jobs while open", HoldMode.FAIL_FAST: "fails jobs while open"}


@dataclass(frozen=True, slots=True)
class DownstreamView:
    """A downstream as pages show it.

    Args:
        details: its figures.
        look: the shape of its state.
        word: its state in words.
        reason: why it is in that state; "" while closed, or held by hand.
        mode: what an open breaker does to jobs.
        by_hand: a person holds it.
        long_open: its breaker is open for longer than `LONG_OPEN`.
    """

    details: DownstreamDetails
    look: str
    word: str
    reason: str
    mode: str
    by_hand: bool
    last_error: str
    is_open: bool
    long_open: bool

    @property
    def name(self) -> str:
        """The downstream's name."""
        return self.details.name


_DONE = {
    DownstreamMove.HOLD: "held",
    DownstreamMove.RELEASE: "released",
    DownstreamMove.RESET: "reset",
}
_RESET_WORDS = (
    "The breaker closes at once and its failures are forgotten. If the downstream is still down, "
    "calls fail until the breaker opens again."
)


def downstream_views(details: Iterable[DownstreamDetails], now: float) -> list[DownstreamView]:
    """Return the downstreams: those that are open first, then half open, then by name."""
    order = {"failed": 0, "held": 0, "waiting": 1, "done": 2}
    views = [_view(each, now) for each in details]
    return sorted(views, key=lambda view: (order[view.look], view.name))


def _view(details: DownstreamDetails, now: float) -> DownstreamView:
    record, state = details.record, details.state
    circuit, is_open = record.circuit, state is CircuitState.OPEN
    look, word = ("held", "Held by hand") if circuit.held else _LOOKS[state]
    tripped = state is not CircuitState.CLOSED
    long_open = details.since is not None and now - details.since > LONG_OPEN
    return DownstreamView(
        details=details,
        look=look,
        word=word,
        reason=str(circuit.cause) if tripped and circuit.cause and not circuit.held else "",
        mode=_MODES[record.settings.mode],
        by_hand=circuit.held,
        last_error=record.last_error or "",
        is_open=is_open,
        long_open=is_open and not circuit.held and long_open,
    )


def add_downstream_pages(router: APIRouter, frame: Frame) -> None:
    """Add the page of downstreams, and what can be done to one."""
    downstreams = frame.engine.downstreams

    @router.get("/downstreams")
    async def show(request: Request) -> Response:
        now = await frame.engine.store.ping()
        views = downstream_views(await downstreams.details(), now)
        return await frame.page(request, "downstreams.html", now=now, downstreams=views)

    @router.post("/downstreams/{move}", dependencies=FULL_ACCESS)
    async def change(
        request: Request, move: DownstreamMove, name: Name, confirmed: Confirmed = ""
    ) -> Response:
        if move is DownstreamMove.RESET and not confirmed:
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
            DownstreamMove.HOLD: downstreams.hold,
            DownstreamMove.RELEASE: downstreams.release,
            DownstreamMove.RESET: downstreams.reset,
        }[move]
        change = Change(f"downstreams.{move}", name, "/downstreams", _DONE[move])
        return await frame.do(request, act(name), change)
