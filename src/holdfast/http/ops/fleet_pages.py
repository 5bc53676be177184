"""Queues and kinds to pause, periodic jobs, and the workers."""

from collections.abc import Awaitable, Callable
from enum import StrEnum

from fastapi import APIRouter, Request, Response

from holdfast.http.fleet_schemas import PauseMove
from holdfast.http.ops.access import FULL_ACCESS
from holdfast.http.ops.frame import Change, Confirmation, Confirmed, Frame, Name
from holdfast.jobs.client.pause_control import KindControl, QueueControl


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


def add_fleet_pages(router: APIRouter, frame: Frame) -> None:
    """Add the pages about the whole fleet, and what can be done there."""
    _add_queues(router, frame)
    _add_periodic(router, frame)
    _add_workers(router, frame)


def _add_queues(router: APIRouter, frame: Frame) -> None:
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

    @router.post("/queues/{move}", dependencies=FULL_ACCESS)
    async def change_queue(request: Request, move: PauseMove, name: Name) -> Response:
        return await change_pause(request, engine.queues, move, name)

    @router.post("/kinds/{move}", dependencies=FULL_ACCESS)
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


def _add_periodic(router: APIRouter, frame: Frame) -> None:
    periodic = frame.engine.periodic

    @router.get("/periodic")
    async def show_periodic(request: Request) -> Response:
        schedules = await periodic.list()
        return await frame.page(
            request, "periodic.html", schedules=schedules, missed_words=_MISSED_WORDS
        )

    @router.post("/periodic/{move}", dependencies=FULL_ACCESS)
    async def change_periodic(request: Request, move: PeriodicMove, name: Name) -> Response:
        change = Change(f"periodic.{move}", name, "/periodic", _PERIODIC_NOTES[move])
        act: Callable[[str], Awaitable[object]] = {
            PeriodicMove.PAUSE: periodic.pause,
            PeriodicMove.RESUME: periodic.resume,
            PeriodicMove.RUN: periodic.run_now,
        }[move]
        return await frame.do(request, act(name), change)


def _add_workers(router: APIRouter, frame: Frame) -> None:
    workers = frame.engine.workers

    @router.get("/workers")
    async def show_workers(request: Request) -> Response:
        return await frame.page(
            request, "workers.html", workers=await workers.list(), loads=await workers.loads()
        )

    @router.post("/workers/finish", dependencies=FULL_ACCESS)
    async def finish_worker(request: Request, name: Name, confirmed: Confirmed = "") -> Response:
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
        return await frame.do(request, workers.finish(name), change)
