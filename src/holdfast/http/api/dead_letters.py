"""What operators look at and do with dead letters, one by one and by the thousand."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from holdfast.http.admin import require_admin
from holdfast.http.api_errors import forbidden, refusing_cursors
from holdfast.http.audited import OpsRoute, begin_change, changed_nothing, describe_change
from holdfast.http.ops_schemas import (
    DeadLetterGroupOut,
    DeadLetterOut,
    DeadLetterQuery,
    DeadLettersAnswer,
    DiscardAnswer,
    ErrorGroupOut,
    ErrorGroupsAnswer,
    RequeueAnswer,
    RequeueOrder,
    RunOut,
    RunsAnswer,
)
from holdfast.http.schemas import ERROR_ANSWERS
from holdfast.http.served_app import state_of
from holdfast.jobs.operations_port import RunAction, RunState

router = APIRouter(
    prefix="/api/dead-letters", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS
)
# Not below /api/dead-letters: every name there is the id of a job, which can be deleted.
overall = APIRouter(
    prefix="/api/ops/dead-letters", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS
)
"""What concerns all dead letters at once."""
_PATIENCE = 1.0
"""Seconds that a request without a pace waits for the end of its run."""
_BEGUN: dict[int | str, dict[str, Any]] = {
    202: {"model": RequeueAnswer, "description": "A run has begun in the background."}
}


@router.get("")
async def list_dead_letters(
    request: Request, asked: Annotated[DeadLetterQuery, Query()]
) -> DeadLettersAnswer:
    """List the jobs that wait for a person.

    A filter other than a whole group is applied to the newest 2000 only: then `complete` is false,
    `searchedFrom` says how far back the search went, and the cursor goes on from there.
    """
    dead = state_of(request).engine.dead_letters
    with refusing_cursors():
        found = await dead.search(asked.as_filter(), cursor=asked.cursor or None, limit=asked.limit)
    return DeadLettersAnswer.from_record(
        found,
        dead_letters=[DeadLetterOut.of(letter) for letter in found.letters],
        groups=[DeadLetterGroupOut.model_validate(group) for group in await dead.groups()],
    )


@overall.get("/groups")
async def list_error_groups(request: Request) -> ErrorGroupsAnswer:
    """List the errors of dead letters, normalised, with how many failed with each."""
    found = await state_of(request).engine.dead_letters.errors()
    return ErrorGroupsAnswer(groups=[ErrorGroupOut.model_validate(group) for group in found])


@overall.get("/runs")
async def list_runs(request: Request) -> RunsAnswer:
    """List the runs over dead letters, the one that began last first.

    A run that failed has ended half-way: `done` of `total` says how far it came. Beginning the same
    one again goes on from there.
    """
    found = await state_of(request).runs.list()
    return RunsAnswer(runs=[RunOut.model_validate(run) for run in found])


@router.post("/retry", responses=_BEGUN)
async def retry_dead_letters(
    request: Request, response: Response, order: RequeueOrder
) -> RequeueAnswer:
    """Requeue dead letters, in the background (202) if it is not done within a second.

    It takes longer at a given pace, and while a downstream of theirs is open in `fail_fast` mode.
    """
    return await _carry_out(request, response, order, RunAction.REQUEUE)


@overall.post("/discard", responses=_BEGUN)
async def discard_dead_letters(
    request: Request, response: Response, order: RequeueOrder
) -> RequeueAnswer:
    """Take jobs out of the dead letters without running them; `requeued` counts the discarded.

    It goes on in the background (202) if it is not done within a second.
    """
    return await _carry_out(request, response, order, RunAction.DISCARD)


@router.get("/retry")
async def show_run(request: Request) -> RequeueAnswer:
    """Show how far the newest run is."""
    return RequeueAnswer.of_runs(await state_of(request).runs.list(limit=1))


@router.delete("/retry")
async def stop_run(request: Request) -> RequeueAnswer:
    """Stop the run that is under way."""
    describe_change(request, action="dead-letters.stop")
    runs = state_of(request).runs
    await runs.stop()
    return RequeueAnswer.of_runs(await runs.list(limit=1))


@router.delete("/{job_id}")
async def discard_dead_letter(request: Request, job_id: str) -> DiscardAnswer:
    """Take a job out of the dead letters without running it."""
    if "\0" in job_id or not await state_of(request).engine.dead_letters.discard(job_id):
        raise forbidden()
    return DiscardAnswer(discarded=1)


async def _carry_out(
    request: Request, response: Response, order: RequeueOrder, action: RunAction
) -> RequeueAnswer:
    state, where = state_of(request), order.filter.as_filter()
    if order.dry_run:
        changed_nothing(request)
        letters = state.engine.dead_letters
        act = letters.requeue if action is RunAction.REQUEUE else letters.discard_all
        return RequeueAnswer.of(await act(where, dry_run=True), done=True)
    rate, who = order.rate_per_second, require_admin(request).name
    run = await state.runs.begin(action, where, rate=rate, who=who)
    begin_change(request)
    chosen = order.filter.model_dump(exclude_none=True)
    describe_change(request, filter=chosen, run=run.id, total=run.total, rate=rate)
    if rate is None:
        run = await state.runs.wait(run, _PATIENCE)
    if run.state is RunState.RUNNING:
        response.status_code = 202
    return RequeueAnswer.of_runs([run])
