"""What operators do to the whole fleet: pause queues and kinds, let workers finish."""

from fastapi import APIRouter, Request

from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError
from holdfast.http.audited import OpsRoute
from holdfast.http.fleet_schemas import (
    KindAnswer,
    KindsAnswer,
    PauseMove,
    PauseOut,
    QueueAnswer,
    QueuesAnswer,
    WorkerAnswer,
    WorkerOut,
    WorkersAnswer,
)
from holdfast.http.schemas import ERROR_ANSWERS
from holdfast.http.served_app import state_of
from holdfast.jobs.client.pause_control import KindControl, QueueControl
from holdfast.jobs.control_port import WorkerRecord
from holdfast.jobs.exceptions import UnknownKind, UnknownWorker
from holdfast.jobs.operations_port import WorkerLoad

router = APIRouter(prefix="/api", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS)


@router.get("/queues")
async def list_queues(request: Request) -> QueuesAnswer:
    """List the queues, and whether they are paused."""
    return QueuesAnswer(queues=await _listed(state_of(request).engine.queues))


@router.post("/queues/{name}/{move}")
async def move_queue(request: Request, name: str, move: PauseMove) -> QueueAnswer:
    """Pause a queue for the whole fleet, or resume it."""
    return QueueAnswer(queue=await _moved(state_of(request).engine.queues, name, move))


@router.get("/kinds")
async def list_kinds(request: Request) -> KindsAnswer:
    """List the kinds of jobs, and whether they are paused."""
    return KindsAnswer(kinds=await _listed(state_of(request).engine.kinds))


@router.post("/kinds/{name}/{move}")
async def move_kind(request: Request, name: str, move: PauseMove) -> KindAnswer:
    """Pause a kind of jobs for the whole fleet, or resume it."""
    try:
        return KindAnswer(kind=await _moved(state_of(request).engine.kinds, name, move))
    except UnknownKind:
        raise ApiError(ErrorCode.VALIDATION_ERROR, "There is no such kind.", status=404) from None


@router.get("/workers")
async def list_workers(request: Request) -> WorkersAnswer:
    """List the workers that are alive or have jobs."""
    control = state_of(request).engine.workers
    found, loads = await control.list(), await control.loads()
    return WorkersAnswer(workers=[_worker(worker, loads.get(worker.id)) for worker in found])


@router.post("/workers/{worker_id}/finish")
async def finish_worker(request: Request, worker_id: str) -> WorkerAnswer:
    """Ask a worker to claim no more jobs, and to end after those it runs."""
    if "\0" in worker_id:  # no database holds that
        raise UnknownWorker(worker_id)
    worker = await state_of(request).engine.workers.finish(worker_id)
    return WorkerAnswer(worker=WorkerOut.model_validate(worker))


def _worker(worker: WorkerRecord, load: WorkerLoad | None) -> WorkerOut:
    shown = WorkerOut.model_validate(worker)
    if load is not None:
        shown.attempts_lately, shown.busy_seconds_lately = load.attempts, load.seconds
    return shown


async def _listed(control: QueueControl | KindControl) -> list[PauseOut]:
    return [PauseOut.model_validate(state) for state in await control.list()]


async def _moved(control: QueueControl | KindControl, name: str, move: PauseMove) -> PauseOut:
    change = control.pause if move is PauseMove.PAUSE else control.resume
    return PauseOut.model_validate(await change(name))
