"""What operators look at and do: downstreams, dead letters, counters."""

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from holdfast.errors import ErrorCode
from holdfast.http.admin import IsAdmin
from holdfast.http.api_errors import ApiError, forbidden, refusing_cursors
from holdfast.http.audited import OpsRoute
from holdfast.http.ops_schemas import (
    DeadLetterGroupOut,
    DeadLetterOut,
    DeadLetterQuery,
    DeadLettersAnswer,
    DiscardAnswer,
    DownstreamAnswer,
    DownstreamOut,
    DownstreamsAnswer,
    RequeueAnswer,
    RequeueOrder,
    StatsAnswer,
)
from holdfast.http.requeue import PacedRequeue
from holdfast.http.served_app import state_of
from holdfast.jobs.client.downstream_control import UnknownDownstream

router = APIRouter(prefix="/api", tags=["ops"], route_class=OpsRoute)
public = APIRouter(prefix="/api", tags=["ops"])
"""What every session may ask for."""


class Move(StrEnum):
    """What may be done to a downstream by hand."""

    RESET = "reset"
    HOLD = "hold"
    RELEASE = "release"


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
async def move_downstream(request: Request, name: str, move: Move) -> DownstreamAnswer:
    """Reset a breaker, hold a downstream's jobs, or release them."""
    engine = state_of(request).engine
    if "\0" in name:  # no database holds that
        raise UnknownDownstream(name)
    record = await getattr(engine.downstreams, move.value)(name)
    now = await engine.store.ping()
    return DownstreamAnswer(downstream=DownstreamOut.of(record, now, whole=True))


@router.get("/dead-letters")
async def list_dead_letters(
    request: Request,
    asked: Annotated[DeadLetterQuery, Query()],
) -> DeadLettersAnswer:
    """List the jobs that wait for a person."""
    dead = state_of(request).engine.dead_letters
    with refusing_cursors():
        letters, following = await dead.list(
            asked.as_filter(), cursor=asked.cursor or None, limit=asked.limit
        )
    return DeadLettersAnswer(
        dead_letters=[DeadLetterOut.of(letter) for letter in letters],
        groups=[DeadLetterGroupOut.model_validate(group) for group in await dead.groups()],
        next_cursor=following,
    )


@router.post(
    "/dead-letters/retry",
    responses={202: {"model": RequeueAnswer, "description": "A paced run has begun."}},
)
async def retry_dead_letters(
    request: Request, response: Response, order: RequeueOrder
) -> RequeueAnswer:
    """Requeue dead letters; at a given pace this runs in the background (202)."""
    state = state_of(request)
    if order.dry_run or order.rate_per_second is None:
        done = await state.engine.dead_letters.requeue(
            order.filter.as_filter(), dry_run=order.dry_run
        )
        return RequeueAnswer.of(done, done=True)
    run = state.requeue
    if run.running:
        raise ApiError(ErrorCode.INVALID_STATE, "Another run is under way.")
    run.start(state.engine.dead_letters, order.filter.as_filter(), order.rate_per_second)
    response.status_code = 202
    return _progress(run)


@router.get("/dead-letters/retry")
async def show_run(request: Request) -> RequeueAnswer:
    """Show how far the paced run is."""
    return _progress(state_of(request).requeue)


@router.delete("/dead-letters/retry")
async def stop_run(request: Request) -> RequeueAnswer:
    """Stop the paced run."""
    run = state_of(request).requeue
    run.stop()
    return _progress(run)


@router.delete("/dead-letters/{job_id}")
async def discard_dead_letter(request: Request, job_id: str) -> DiscardAnswer:
    """Take a job out of the dead letters without running it."""
    if "\0" in job_id or not await state_of(request).engine.dead_letters.discard(job_id):
        raise forbidden()
    return DiscardAnswer(discarded=1)


@router.get("/stats")
async def stats(request: Request) -> StatsAnswer:
    """Show the store's counters."""
    return StatsAnswer.model_validate(await state_of(request).engine.stats())


def _progress(run: PacedRequeue) -> RequeueAnswer:
    return RequeueAnswer.of(run.so_far, done=not run.running)
