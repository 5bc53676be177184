"""What operators look at and do: downstreams and counters."""

from fastapi import APIRouter, Request

from holdfast.http.admin import IsAdmin
from holdfast.http.audited import OpsRoute
from holdfast.http.ops_schemas import (
    DownstreamAnswer,
    DownstreamMove,
    DownstreamOut,
    DownstreamsAnswer,
    StatsAnswer,
)
from holdfast.http.schemas import ERROR_ANSWERS
from holdfast.http.served_app import state_of
from holdfast.jobs.client.downstream_control import UnknownDownstream

router = APIRouter(prefix="/api", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS)
public = APIRouter(prefix="/api", tags=["ops"], responses=ERROR_ANSWERS)
"""What every session may ask for."""


@public.get("/downstreams")
async def list_downstreams(request: Request, admin: IsAdmin) -> DownstreamsAnswer:
    """List the downstreams and the state of their breakers; those with a key to operators only."""
    state = state_of(request)
    now = await state.engine.store.ping()
    if admin:
        details = await state.engine.downstreams.details()
        return DownstreamsAnswer(
            downstreams=[DownstreamOut.detailed(each, now) for each in details]
        )
    seen = state.without_keys(await state.engine.downstreams.list())
    found = [DownstreamOut.of(record, now, whole=False) for record in seen]
    return DownstreamsAnswer(downstreams=found)


@router.post("/downstreams/{name}/{move}")
async def move_downstream(request: Request, name: str, move: DownstreamMove) -> DownstreamAnswer:
    """Reset a breaker, hold a downstream's jobs, or release them."""
    engine = state_of(request).engine
    if "\0" in name:  # no database holds that
        raise UnknownDownstream(name)
    record = await getattr(engine.downstreams, move.value)(name)
    now = await engine.store.ping()
    return DownstreamAnswer(downstream=DownstreamOut.of(record, now, whole=True))


@router.get("/stats")
async def stats(request: Request) -> StatsAnswer:
    """Show the store's counters."""
    return StatsAnswer.model_validate(await state_of(request).engine.stats())
