"""What operators look at and do with periodic jobs."""

from fastapi import APIRouter, Request

from holdfast.http.audited import OpsRoute
from holdfast.http.schemas import ERROR_ANSWERS, Model, Moment
from holdfast.http.served_app import state_of
from holdfast.jobs.client.periodic_control import PeriodicSchedule

router = APIRouter(
    prefix="/api/periodic", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS
)


class PeriodicOut(Model):
    """The schedule of a periodic job. Without a worker that declares it, no slot gets a job."""

    name: str
    schedule: str
    missed: str
    overlap: bool
    has_worker: bool
    paused: bool
    paused_at: Moment | None
    next_slot: Moment | None
    last_slot: Moment | None
    last_job: str | None


class PeriodicListAnswer(Model):
    """All periodic jobs, by name."""

    periodic: list[PeriodicOut]


class PeriodicAnswer(Model):
    """One periodic job."""

    periodic: PeriodicOut


class RunAnswer(Model):
    """The id of the job that was enqueued."""

    job_id: str


@router.get("")
async def list_periodic(request: Request) -> PeriodicListAnswer:
    """List the periodic jobs and their schedules."""
    found = await state_of(request).engine.periodic.list()
    return PeriodicListAnswer(periodic=[PeriodicOut.model_validate(each) for each in found])


@router.post("/{name}/pause")
async def pause_periodic(request: Request, name: str) -> PeriodicAnswer:
    """Enqueue no more slots of a periodic job until it is resumed."""
    return _answer(await state_of(request).engine.periodic.pause(name))


@router.post("/{name}/resume")
async def resume_periodic(request: Request, name: str) -> PeriodicAnswer:
    """Enqueue its slots again; those that fell into the pause follow `missed`."""
    return _answer(await state_of(request).engine.periodic.resume(name))


@router.post("/{name}/run")
async def run_periodic(request: Request, name: str) -> RunAnswer:
    """Enqueue a job beside the schedule."""
    return RunAnswer(job_id=(await state_of(request).engine.periodic.run_now(name)).id)


def _answer(schedule: PeriodicSchedule) -> PeriodicAnswer:
    return PeriodicAnswer(periodic=PeriodicOut.model_validate(schedule))
