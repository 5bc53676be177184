"""Queues and kinds to pause, periodic jobs, and the workers."""

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response

from holdfast.http.fleet_schemas import PauseMove
from holdfast.http.ops.access import require_full
from holdfast.http.ops.frame import Change, Confirmation, Frame
from holdfast.http.ops_schemas import Text
from holdfast.jobs.client.pause_control import KindControl, QueueControl

Name = Annotated[Text, Form(min_length=1, max_length=500)]
_FULL = [Depends(require_full)]


class PeriodicMove(StrEnum):
    """What may be done to a periodic job."""

    PAUSE = "pause"
    RESUME = "resume"
    RUN = "run"


_PERIODIC_NOTES = {
    PeriodicMove.PAUSE: "paused",
    PeriodicMove.RESUME: "resumed",
    PeriodicMove.RUN: "run",
}
_MISSED_WORDS = {
    "skip": "missed runs are skipped",
    "once": "missed runs are made up once",
    "all": "missed runs are all made up",
}


def fleet_routes(frame: Frame) -> APIRouter:
    """Return the pages about the whole fleet, and what can be done there."""
    router = APIRouter()
    engine = frame.engine

    @router.get("/queues")
    async def show_queues(request: Request) -> Response:
        stats = await engine.stats()
        return await frame.page(
            request,
            "queues.html",
            oldest=stats.oldest_ready_at,
            queues=await engine.queues.list(),
            kinds=await engine.kinds.list(),
        )

    @router.post("/queues/{move}", dependencies=_FULL)
    async def change_queue(request: Request, move: PauseMove, name: Name) -> Response:
        return await change_pause(request, engine.queues, move, name)

    @router.post("/kinds/{move}", dependencies=_FULL)
    async def change_kind(request: Request, move: PauseMove, name: Name) -> Response:
        return await change_pause(request, engine.kinds, move, name)

    async def change_pause(
        request: Request, control: QueueControl | KindControl, move: PauseMove, name: str
    ) -> Response:
        paused = move is PauseMove.PAUSE
        target = "queues" if control is engine.queues else "kinds"
        change = Change(f"{target}.{move}", name, "/queues", "paused" if paused else "resumed")
        act = control.pause if paused else control.resume
        return await frame.do(request, act(name), change)

    @router.get("/periodic")
    async def show_periodic(request: Request) -> Response:
        schedules = await engine.periodic.list()
        return await frame.page(
            request, "periodic.html", schedules=schedules, missed_words=_MISSED_WORDS
        )

    @router.post("/periodic/{move}", dependencies=_FULL)
    async def change_periodic(request: Request, move: PeriodicMove, name: Name) -> Response:
        change = Change(f"periodic.{move}", name, "/periodic", _PERIODIC_NOTES[move])
        if move is PeriodicMove.RUN:
            return await frame.do(request, engine.periodic.run_now(name), change)
        pauses = move is PeriodicMove.PAUSE
        act = engine.periodic.pause if pauses else engine.periodic.resume
        return await frame.do(request, act(name), change)

    @router.get("/workers")
    async def show_workers(request: Request) -> Response:
        return await frame.page(
            request,
            "workers.html",
            workers=await engine.workers.list(),
            loads=await engine.workers.loads(),
        )

    @router.post("/workers/finish", dependencies=_FULL)
    async def finish_worker(
        request: Request, name: Name, confirmed: Annotated[str, Form()] = ""
    ) -> Response:
        if not confirmed:
            return frame.confirm(
                request,
                Confirmation(
                    title="Let this worker finish?",
                    words=f"{name} claims no more jobs and ends after those it runs. "
                    "Something else must start it again.",
                    action="/workers/finish",
                    label="Finish",
                    fields={"name": name},
                    back="/workers",
                ),
            )
        change = Change("workers.finish", name, "/workers", "finishing")
        return await frame.do(request, engine.workers.finish(name), change)

    return router
